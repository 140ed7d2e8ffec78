"""Adversaries that attack texts: they build the attack, and run it."""

import logging
from collections.abc import Sequence

import torch

from attacks.composition import Attack
from attacks.engine import Engine, Limits
from attacks.outcome import AttackRecord, Sample
from attacks.recipe_settings import RecipeSettings
from attacks.recipes import build, check_recipe
from attacks.resources.catalogue import ResourceError, Resources, resources_named
from attacks.victims.kinds import ModuleVictim
from lit_modules.adversaries.adversary import Adversary, TrainingLoop
from lit_modules.adversaries.budget import shortage
from lit_modules.adversaries.text_passes import some_texts
from lit_modules.adversaries.wording import replacements
from lit_modules.shared.task_module import TaskModule
from text import Text

log = logging.getLogger(__name__)

# Largest number of samples attacked together; it suffices to fill the batches.
_IN_FLIGHT = 256


class AttackingAdversary(Adversary):
    """Attacks texts of the corpus with a recipe, on the present weights."""

    embeds = False
    reads_texts = True
    tasks = ("classification",)

    def __init__(self, *, attack: RecipeSettings, extend_vocabulary: bool = False) -> None:
        """Keep the settings.

        Args:
            attack: the attack on the texts.
            extend_vocabulary: add the replacement words of the attack to the vocabulary, if this
                run builds one of words; else most of them are unknown words.

        Raises:
            ValueError: an unknown recipe, or a setting that the recipe does not have.
        """
        check_recipe(attack)
        self.attack, self.extend_vocabulary = attack, extend_vocabulary
        self._built: Attack | None = None
        self._names: Sequence[str] = ("text",)

    def more_texts(self, texts: Sequence[Text]) -> list[str]:
        """See `Adversary`.

        Raises:
            ValueError: resources of the attack are missing.
        """
        if not self.extend_vocabulary:
            return []
        return replacements(self._build(torch.device("cpu")), texts)

    def start(self, loop: TrainingLoop) -> None:
        """See `Adversary`: builds the attack.

        Raises:
            ValueError: resources of the attack are missing, or a column is unknown.
        """
        self._names = loop.text_columns
        self._built = self._build(loop.device)
        short = shortage(self._built, self.attack, some_texts(loop.samples), columns=self._names)
        if short.exhausted and loop.global_rank == 0:
            log.warning(
                "query_budget=%s and budget_per_word=%s are used up by ranking the words, a "
                "question for each, in %d of %d training texts: none of their words will be "
                "replaced, and they are trained on unchanged; raise the budget (the longest text "
                "has %d words to rank), or take a2t, which ranks by gradients",
                self.attack.query_budget,
                self.attack.budget_per_word,
                short.exhausted,
                short.texts,
                short.longest,
            )

    def _build(self, device: torch.device, settings: RecipeSettings | None = None) -> Attack:
        settings = self.attack if settings is None else settings
        try:
            # The attack after the training has another setting for its resources.
            with resources_named("--model.adversary.attack.resources"):
                return build(settings, Resources.of(settings, device=device))
        except ResourceError as error:
            msg = f"training against {settings.recipe}: {error}"
            raise ValueError(msg) from error

    def _require_attack(self) -> Attack:
        """Return the attack that `start` has built."""
        if self._built is None:
            msg = "got a text adversary without an attack, expected start() before the first step"
            raise RuntimeError(msg)
        return self._built

    def _attack(
        self, classifier: TaskModule, samples: Sequence[Sample], seed: int, epoch: int
    ) -> dict[int, AttackRecord]:
        """Attack some samples, and return their records by id."""
        return self._run(self._require_attack(), classifier, samples, (seed << 24) + epoch)

    def _run(
        self, attack: Attack, classifier: TaskModule, samples: Sequence[Sample], seed: int
    ) -> dict[int, AttackRecord]:
        if not samples:
            return {}
        limits = Limits(
            query_budget=self.attack.query_budget,
            budget_per_word=self.attack.budget_per_word,
            in_flight=min(len(samples), _IN_FLIGHT),
        )
        # No more samples at a time than there are: the engine would wait for a full batch.
        victim = ModuleVictim(classifier, batch_size=self.attack.batch_size)
        engine = Engine(attack, victim, limits=limits, seed=seed, columns=self._names)
        return {record.sample_id: record for record in engine.run(samples)}
