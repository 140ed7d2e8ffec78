"""AMDA: adversarial texts, and mixtures of all texts (Si et al., 2021)."""

from collections.abc import Sequence
from typing import Any, Literal, get_args

import torch
from torch import Tensor

from attacks.recipe_settings import RecipeSettings
from layers.noise import sample_seeds
from lit_modules.adversaries.adversary import AdversarialLoss, InnerProblem, TrainingLoop
from lit_modules.adversaries.epoch_text import EpochTextAdversary
from lit_modules.adversaries.mixing import (
    TextRows,
    adversarial_seeds,
    draw_partners,
    draw_shares,
    mix,
)
from lit_modules.adversaries.representations import (
    changed_sentences,
    find_head,
    find_layers,
    mixed_tokens,
)
from lit_modules.shared.classifier_wrapper import ClassifierWrapper
from lit_modules.shared.task_module import TaskModule, labels_of
from text import check_choice, check_range

Place = Literal["tmix", "smix"]


class AMDA(EpochTextAdversary):
    """Trains on clean and adversarial texts, and on mixtures of pairs of them.

    Si et al., "Better Robustness by More Coverage: Adversarial and Mixup Data Augmentation for
    Robust Finetuning", 2021, and its code: the loss is the mean over clean and adversarial texts,
    plus the mean over mixtures share * first + (1 - share) * second, with labels mixed alike, where
    share is from Beta(alpha, alpha). The texts of an epoch come from `EpochTextAdversary`.
    """

    embeds = True

    def __init__(
        self,
        *,
        attack: RecipeSettings = RecipeSettings(recipe="pwws", query_budget=200),
        place: Place = "tmix",
        alpha: float = 0.4,
        layers: Sequence[int] = (0,),
        mixed_weight: float = 1.0,
        keep: bool = True,
        **base: Any,
    ) -> None:
        """Keep the settings.

        Args:
            attack: the attack on the texts.
            place: tmix: mix tokens of a layer; smix: mix the vectors that the head reads.
            alpha: parameter of the distribution of shares; the larger, the nearer to one half.
            layers: layers after which tmix mixes, one of them at random in each step: 0 for the
                embedded words, 1 for the first layer of the Transformer, and so on. The released
                code has 7, 9 and 12 of BERT's 12.
            mixed_weight: weight of the loss of mixtures.
            keep: add to the adversarial texts of earlier epochs, as the released code does; false:
                drop them.
            base: settings of `EpochTextAdversary`.

        Raises:
            ValueError: a setting that is out of its range.
        """
        super().__init__(attack=attack, **base)
        check_choice("place", place, get_args(Place))
        check_range({"alpha": alpha}, above=0)
        check_range({"mixed_weight": mixed_weight}, least=0)
        self.layers = [int(layer) for layer in layers]
        if not self.layers or min(self.layers) < 0:
            msg = f"got layers={self.layers}, expected numbers of layers, 0 for the embedded words"
            raise ValueError(msg)
        self.place, self.alpha, self.mixed_weight, self.keep = place, alpha, mixed_weight, keep

    def start(self, loop: TrainingLoop) -> None:
        """See `Adversary`.

        Raises:
            ValueError: the classifier has no layers or head that can be mixed, or see
                `AttackingAdversary`.
        """
        if isinstance(loop.classifier, ClassifierWrapper):
            msg = (
                f"got {loop.classifier.method}, whose windows belong to one text, expected a "
                "classifier whose texts can be mixed: the one in it"
            )
            raise ValueError(msg)
        super().start(loop)
        if self.place == "smix":
            find_head(loop.classifier)
        elif (last := max(self.layers)) > 0:
            depth = len(find_layers(loop.classifier))
            if last > depth:
                msg = f"got layers={self.layers}, expected at most {depth}, as the model has"
                raise ValueError(msg)

    def step(self, problem: InnerProblem) -> AdversarialLoss:
        """See `Adversary`; one pass forward and back, with tmix two."""
        rows = TextRows.of(problem.embed(), problem.mask, problem.labels, problem.seeds)
        batch = self._adversarial(problem)
        if batch is not None:
            seeds = sample_seeds(batch.sample_ids, seed=problem.seed, epoch=problem.epoch)
            x, labels = problem.classifier.embed(batch), labels_of(batch)
            rows = rows.join(TextRows.of(x, batch.mask, labels, adversarial_seeds(seeds)))
        partners, share = draw_partners(rows.seeds), draw_shares(rows.seeds, self.alpha)
        logits, mixed = self._logits(problem.classifier, rows, partners, share)
        losses = problem.classifier.losses(logits, rows.labels)
        first = problem.classifier.losses(mixed, rows.labels)
        second = problem.classifier.losses(mixed, rows.labels[partners])
        # The paper's divergence from the mixed labels, without their entropy, which is fixed.
        of_mixed = mix(first, second, share.squeeze(1))
        # Divided by the rows of an average batch of the epoch: equal in all processes.
        total = len(problem.batch) * (1 + self._present(problem).share)
        count = len(problem.batch)
        both = losses[:count].sum() + self.weight * losses[count:].sum()
        loss = (both + self.mixed_weight * of_mixed.sum()) / total
        if not problem.logs:
            return AdversarialLoss(loss, {}, {})
        right = logits[:count].detach().argmax(dim=1) == problem.labels
        values = {
            "clean_loss": losses[:count].detach().mean(),
            "mixed_loss": of_mixed.detach().mean(),
            "accuracy": right.float().mean(),
        }
        return AdversarialLoss(loss, values, _ratio(losses, count))

    def _logits(
        self, classifier: TaskModule, rows: TextRows, partners: Tensor, share: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Return logits `[R, C]` of rows and of their mixtures."""
        if self.place == "smix":

            def add_mixtures(sentences: Tensor) -> Tensor:
                return torch.cat([sentences, mix(sentences, sentences[partners], share)])

            with changed_sentences(classifier, add_mixtures):
                both = classifier.classify(rows.x, rows.mask)
            return both[: len(partners)], both[len(partners) :]
        logits = classifier.classify(rows.x, rows.mask)

        def mix_real(tokens: Tensor) -> Tensor:
            # Padding of one text adds nothing to a token of the other.
            tokens = tokens * rows.mask.unsqueeze(-1)
            return mix(tokens, tokens[partners], share)

        mask = rows.mask | rows.mask[partners]
        number = self.layers[int(rows.seeds.min()) % len(self.layers)]
        if number == 0:
            return logits, classifier.classify(mix_real(rows.x), mask)
        with mixed_tokens(find_layers(classifier), number, rows.mask, mix_real):
            return logits, classifier.classify(rows.x, mask)


def _ratio(losses: Tensor, count: int) -> dict[str, tuple[Tensor, Tensor]]:
    """Return the mean loss of adversarial rows, which come after so many clean ones."""
    part = losses[count:].detach().sum() / count
    return {"adversarial_loss": (part, part.new_tensor((len(losses) - count) / count))}
