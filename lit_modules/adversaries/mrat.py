"""MRAT: predictions between a text and its adversarial text are those of the text (Zhao, 2021)."""

from collections.abc import Sequence
from dataclasses import replace
from math import log
from random import Random

import torch
from torch import Tensor

from attacks.composition import Attack
from attacks.outcome import AttackRecord, Sample
from attacks.recipe_settings import RecipeSettings
from attacks.recipes import check_recipe
from lit_modules.adversaries.adversary import AdversarialLoss, InnerProblem, TrainingLoop
from lit_modules.adversaries.epoch_text import EpochTextAdversary
from lit_modules.adversaries.mixing import (
    TextRows,
    adversarial_seeds,
    draw_partners,
    draw_shares,
    mix,
)
from lit_modules.adversaries.representations import changed_sentences, find_head
from lit_modules.adversaries.wording import replacements
from lit_modules.shared.task_module import TaskModule, labels_of
from text import Text, check_range


class MRAT(EpochTextAdversary):
    """Adds the divergence between a text and its mixture with an adversarial text made of it.

    Zhao, Wei and Mao, "Robust Neural Text Classification and Entailment via Mixup Regularized
    Adversarial Training", 2021, and its code: the loss is that of the clean texts, plus weight
    times the Jensen-Shannon divergence between the prediction of a text and that of the mixture of
    both vectors that the head reads, share * clean + (1 - share) * adversarial with a share from
    Beta(alpha, alpha). MRAT+ adds the loss of mixtures of two clean texts. Texts come from
    `EpochTextAdversary`; each joins the batch of its clean text.
    """

    embeds = True
    own_batch = True

    def __init__(
        self,
        *,
        attack: RecipeSettings = RecipeSettings(recipe="deepwordbug", query_budget=200),
        further_recipes: Sequence[str] = (),
        plus: bool = False,
        alpha: float = 1.0,
        weight: float = 8.0,
        clean_epochs: int = 1,
        interval: int = 1,
        adversarial_share: float = 1.0,
        keep: bool = True,
        extend_vocabulary: bool = False,
    ) -> None:
        """Keep the settings.

        Args:
            attack: the attack on the texts.
            further_recipes: more recipes, with the other settings of `attack`; each text is
                attacked by one of all, another one in each epoch. The released code has
                deepwordbug, textfooler and textbugger.
            plus: add mixtures of clean texts: MRAT+.
            alpha: parameter of the distribution of shares; 1 is uniform.
            weight: weight of the divergence.
            clean_epochs: epochs before the first with adversarial texts.
            interval: epochs from one with adversarial texts to the next.
            adversarial_share: adversarial texts to generate, as a share of the training
                samples; fewer if not enough attacks succeed.
            keep: a text keeps its adversarial text until there is a newer one; false: until the
                next epoch.
            extend_vocabulary: add the replacement words of the attack to the vocabulary, if this
                run builds one of words.

        Raises:
            ValueError: a setting that is out of its range, or an unknown recipe.
        """
        super().__init__(
            attack=attack,
            clean_epochs=clean_epochs,
            interval=interval,
            adversarial_share=adversarial_share,
            weight=weight,
            extend_vocabulary=extend_vocabulary,
        )
        check_range({"alpha": alpha}, above=0)
        self.further_recipes = list(further_recipes)
        self._settings = [replace(attack, recipe=name) for name in self.further_recipes]
        for settings in self._settings:
            check_recipe(settings)
        self.plus, self.alpha, self.keep = plus, alpha, keep
        self._others: list[Attack] = []

    def more_texts(self, texts: Sequence[Text]) -> list[str]:
        """See `AttackingAdversary`."""
        words = super().more_texts(texts)
        if self.extend_vocabulary:
            for settings in self._settings:
                words += replacements(self._build(torch.device("cpu"), settings), texts)
        return words

    def start(self, loop: TrainingLoop) -> None:
        """See `AttackingAdversary`.

        Raises:
            ValueError: the classifier has no head that reads one vector for each text, or see
                `AttackingAdversary`.
        """
        find_head(loop.classifier)
        super().start(loop)
        self._others = [self._build(loop.device, settings) for settings in self._settings]

    def _attack(
        self, classifier: TaskModule, samples: Sequence[Sample], seed: int, epoch: int
    ) -> dict[int, AttackRecord]:
        """Attack each sample with one of the recipes."""
        attacks = [self._require_attack(), *self._others]
        groups: list[list[Sample]] = [[] for _ in attacks]
        for sample in samples:
            # By a seed of the sample, not by turns: the recipe does not depend on the batch.
            groups[Random(f"{seed} {epoch} {sample.sample_id}").randrange(len(attacks))] += [sample]
        records: dict[int, AttackRecord] = {}
        for attack, group in zip(attacks, groups, strict=True):
            records |= self._run(attack, classifier, group, (seed << 24) + epoch)
        return records

    def step(self, problem: InnerProblem) -> AdversarialLoss:
        """See `Adversary`; one pass forward and back over clean and adversarial texts."""
        classifier, count = problem.classifier, len(problem.batch)
        rows = TextRows.of(problem.embed(), problem.mask, problem.labels, problem.seeds)
        batch = self._adversarial(problem)
        own = torch.zeros(0, dtype=torch.int64, device=rows.labels.device)
        if batch is not None:
            positions = {i: row for row, i in enumerate(problem.batch.sample_ids.tolist())}
            own = own.new_tensor([positions[i] for i in batch.sample_ids.tolist()])
            x, seeds = classifier.embed(batch), adversarial_seeds(problem.seeds[own])
            rows = rows.join(TextRows.of(x, batch.mask, labels_of(batch), seeds))
        partners, share = draw_partners(problem.seeds), draw_shares(rows.seeds, self.alpha)

        def add_mixtures(sentences: Tensor) -> Tensor:
            clean, adversarial = sentences[:count], sentences[count:]
            between = mix(clean[own], adversarial, share[count:])
            others = mix(clean, clean[partners], share[:count])
            return torch.cat([clean, between, others] if self.plus else [clean, between])

        with changed_sentences(classifier, add_mixtures):
            logits = classifier.classify(rows.x, rows.mask)
        # The order of `add_mixtures`: clean texts, texts between, then the pairs of MRAT+.
        clean, between = logits[:count], logits[count : count + len(own)]
        divergences = jensen_shannon(clean[own], between)
        # Means over the clean texts: a text without an adversarial one has no divergence.
        loss = problem.loss(clean) + self.weight * divergences.sum() / count
        values = {}
        if self.plus:
            mixed = logits[count + len(own) :]
            first = classifier.losses(mixed, problem.labels)
            second = classifier.losses(mixed, problem.labels[partners])
            others = mix(first, second, share[:count].squeeze(1)).mean()
            loss, values["mixed_loss"] = loss + others, others.detach()
        if not problem.logs:
            return AdversarialLoss(loss, {}, {})
        clean = clean.detach()
        right = (clean.argmax(dim=1) == problem.labels).float().mean()
        values |= {"clean_loss": problem.loss(clean), "accuracy": right}
        part = divergences.detach().sum() / count
        rate = part.new_tensor(len(own) / count)
        return AdversarialLoss(loss, values, {"divergence": (part, rate)})


def jensen_shannon(first: Tensor, second: Tensor) -> Tensor:
    """`[B]` Jensen-Shannon divergences, in nats, of predictions from logits `[B, C]`."""
    kind = torch.promote_types(first.dtype, torch.float32)
    p, q = first.to(kind).log_softmax(dim=1), second.to(kind).log_softmax(dim=1)
    # log((e^p + e^q) / 2): probabilities near 0 would give 0 * -inf.
    middle = torch.logaddexp(p, q) - log(2)
    return ((p.exp() * (p - middle) + q.exp() * (q - middle)) / 2).sum(dim=1)
