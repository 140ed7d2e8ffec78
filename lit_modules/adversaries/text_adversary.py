"""Training on adversarial texts, which are generated for every batch."""

from collections.abc import Mapping, Sequence
from random import Random
from typing import Any

from torch import Tensor

from attacks.outcome import AttackRecord, Sample
from attacks.recipe_settings import RecipeSettings
from lit_modules.adversaries.adversary import (
    AdversarialLoss,
    InnerProblem,
    TrainingLoop,
    undisturbed,
)
from lit_modules.adversaries.attacking import AttackingAdversary
from lit_modules.adversaries.pgd_adversary import check_weight
from lit_modules.adversaries.text_passes import logits_of, rates, samples_of, succeeded, values
from lit_modules.adversaries.word_order import Ranks
from lit_modules.shared.task_module import TaskModule
from text import Text, check_range


class TextAdversary(AttackingAdversary):
    """Attacks the texts of every batch, and trains on the results (thesis, section 4.5).

    The attack uses the weights of the present step, in evaluation mode, on all texts of a batch at
    once. A text that is misclassified already is not attacked, but trained on.
    """

    def __init__(
        self,
        *,
        attack: RecipeSettings = RecipeSettings(recipe="textfooler", query_budget=100),
        share: float = 1.0,
        clean_weight: float = 0.0,
        keep_failed: bool = True,
        reuse_ranks: int = 0,
        **base: Any,
    ) -> None:
        """Keep the settings.

        Args:
            attack: the attack on the texts.
            share: share of the samples that is attacked, other ones in each epoch.
            clean_weight: weight of the clean loss, alpha in alpha * clean loss + (1 - alpha) *
                adversarial loss.
            keep_failed: train on the last text of a failed attack, not on the clean one.
            reuse_ranks: epochs for which the word ranking of a text is reused: saves queries, but
                the ranking is that of older weights.
            base: settings of `AttackingAdversary`.

        Raises:
            ValueError: a setting that is out of its range.
        """
        super().__init__(attack=attack, **base)
        check_weight(clean_weight)
        check_range({"share": share}, above=0, most=1)
        check_range({"reuse_ranks": reuse_ranks}, least=0)
        self.share, self.clean_weight, self.keep_failed = share, clean_weight, keep_failed
        self.reuse_ranks = reuse_ranks
        self._ranks = Ranks(reuse_ranks) if reuse_ranks else None

    # State of a resumed run

    def state(self) -> dict[str, Any]:
        """Return the orders of words, if they are reused."""
        return {"ranks": self._ranks.state()} if self._ranks is not None else {}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Restore the result of `state`."""
        if self._ranks is not None:
            self._ranks.restore(state.get("ranks", []))

    # Before the first step

    def start(self, loop: TrainingLoop) -> None:
        """See `AttackingAdversary`."""
        super().start(loop)
        if self._ranks is not None:
            self._ranks.start()
            # A recipe without ranking is an error before the first step.
            self._ranks.apply(self._require_attack(), [], 0)

    def start_epoch(self, loop: TrainingLoop) -> None:
        """See `Adversary`."""
        if self._ranks is not None:
            self._ranks.start_epoch(loop.current_epoch)

    # Steps

    def step(self, problem: InnerProblem) -> AdversarialLoss:
        """See `Adversary`; one pass forward and back, one more with a clean loss."""
        ids = problem.batch.sample_ids.tolist()
        samples = samples_of(problem)
        with problem.searching(), undisturbed(problem.classifier, problem.labels.device):
            chosen = [
                Sample(sample_id=i, text=samples[i].text, label=label)
                for i, label in zip(ids, problem.labels.tolist(), strict=True)
                if self._chosen(i, problem)
            ]
            records = self._attack(problem.classifier, chosen, problem.seed, problem.epoch)
        texts = [self._text(samples[i].text, records.get(i)) for i in ids]
        logits = logits_of(problem.classifier, texts, problem.batch.sample_ids, problem.labels)
        adversarial = problem.loss(logits)
        clean: Tensor | None = None
        loss = adversarial
        if self.clean_weight > 0:
            clean = problem.classify(problem.embed())
            loss = self.clean_weight * problem.loss(clean) + (1 - self.clean_weight) * adversarial
        if not problem.logs:
            return AdversarialLoss(loss, {}, {})
        ratios = rates(records.values(), len(ids), problem.labels.device)
        return AdversarialLoss(loss, values(problem, clean, adversarial), ratios)

    def _chosen(self, sample_id: int, problem: InnerProblem) -> bool:
        """Return True if a sample is attacked, independently of its batch and process."""
        if self.share == 1:
            return True
        # Python hashes a text as seed: neighbouring numbers give independent draws.
        return Random(f"{problem.seed} {problem.epoch} {sample_id}").random() < self.share

    def _attack(
        self, classifier: TaskModule, samples: Sequence[Sample], seed: int, epoch: int
    ) -> dict[int, AttackRecord]:
        """Attack some samples, with the word orders of earlier epochs if they are reused."""
        if self._ranks is None or not samples:
            return super()._attack(classifier, samples, seed, epoch)
        texts = [sample.text for sample in samples]
        attack = self._ranks.apply(self._require_attack(), texts, epoch)
        records = self._run(attack, classifier, samples, (seed << 24) + epoch)
        self._ranks.learn(attack, epoch)
        return records

    def _text(self, clean: Text, record: AttackRecord | None) -> Text:
        """Return the text that a sample is trained on."""
        if record is None or record.adversarial is None:
            return clean
        return record.adversarial if self.keep_failed or succeeded(record) else clean
