"""Training on adversarial texts, which are found while the model is trained."""

import logging
from collections.abc import Mapping, Sequence
from random import Random
from typing import Any

import torch
from torch import Tensor

from attacks.composition import Attack
from attacks.engine import Engine, Limits
from attacks.goals import Score
from attacks.outcome import AttackRecord, Sample
from attacks.victims.kinds import ModuleVictim
from lit_modules.adversaries.adversary import (
    Adversary,
    Found,
    Problem,
    TrainingLoop,
    undisturbed,
)
from lit_modules.adversaries.budget import Shortage, shortage
from lit_modules.adversaries.pgd_adversary import check_weight
from lit_modules.adversaries.text_passes import (
    logits_of,
    rates,
    samples_of,
    some_texts,
    succeeded,
    values,
)
from lit_modules.adversaries.word_order import Ranks
from lit_modules.adversaries.wording import replacements
from lit_modules.shared.task_module import TaskModule
from text import Text, check_range

log = logging.getLogger(__name__)

_IN_FLIGHT = 256
"""Samples that are attacked at the same time, at most: more fill no batches that these do not."""


class TextAdversary(Adversary):
    """Attacks the texts of every batch, and trains on what becomes of them (thesis, section 4.5).

    The attack sees the weights as they are at this step, in evaluation mode, and all texts of a
    batch at once. A text that is misclassified already is trained on as it is.
    """

    embeds = False
    tasks = ("classification",)

    def __init__(
        self,
        *,
        recipe: str = "textfooler",
        query_budget: int | None = 100,
        budget_per_word: float | None = None,
        share: float = 1.0,
        clean_weight: float = 0.0,
        keep_failed: bool = True,
        score: Score | None = None,
        resources: str | None = None,
        vectors: str | None = None,
        sentence_encoder: str | None = None,
        masked_lm: str | None = None,
        similarity: float | None = None,
        word_similarity: float | None = None,
        candidates: int | None = None,
        columns: Sequence[str] | None = None,
        batch_size: int = 256,
        extend_vocabulary: bool = False,
        reuse_ranks: int = 0,
    ) -> None:
        """Keep the settings.

        Args:
            recipe: what to attack with: textfooler, textbugger, bae, deepwordbug, pwws, a2t,
                a2t-mlm or random.
            query_budget: texts the model may be asked about for one sample; no limit if null. Most
                recipes need one for each word before they replace any.
            budget_per_word: the same per word of the sample; the smaller of the two counts.
            share: part of the samples that is attacked, others in each epoch.
            clean_weight: alpha in alpha * clean loss + (1 - alpha) * adversarial loss.
            keep_failed: train also on the text where an attack ended that did not succeed, in place
                of the clean one.
            score: what the search follows: the `margin` between logits, or the `probability` of
                the gold class; margin if null.
            resources: folder with word vectors, WordNet and the like (docs/attacks.md);
                `python -m app resources` fills one.
            vectors: file of word vectors, or of lists of neighbours, in the place of those found.
            sentence_encoder: folder or hub name of the model that compares sentences;
                sentence-transformers/all-MiniLM-L6-v2 if null.
            masked_lm: folder or hub name of the model that bae and a2t-mlm take words from;
                bert-base-uncased if null.
            similarity: least sentence similarity, in the place of the recipe's own; 0 does without
                a sentence encoder.
            word_similarity: least cosine of the vectors of a word and its replacement.
            candidates: replacements that are tried for a word.
            columns: names of the texts of a pair that may be changed; by the task if null.
            batch_size: texts per forward pass of the attack; halved when memory runs out.
            extend_vocabulary: where a vocabulary of words is built for this run, also take up the
                words that the attack may put in the place of others: without, it knows few of
                them, and what it does not know says nothing.
            reuse_ranks: for how many epochs after it was found the order of the words of a text is
                kept: saves the questions that ranking asks, for another ranking than the model
                would give now.

        Raises:
            ValueError: an unknown recipe, or a setting that is out of its range or that the recipe
                does not have.
        """
        check_weight(clean_weight)
        check_range({"share": share}, above=0, most=1)
        check_range({"batch_size": batch_size}, least=1)
        check_range({"reuse_ranks": reuse_ranks}, least=0)
        check_range({"similarity": similarity}, least=0, most=1)
        check_range({"word_similarity": word_similarity}, least=-1, most=1)
        check_range({"candidates": candidates}, least=1)
        self.recipe, self.score = recipe, score
        self.query_budget, self.budget_per_word = query_budget, budget_per_word
        self.share, self.clean_weight, self.keep_failed = share, clean_weight, keep_failed
        self.resources, self.vectors = resources, vectors
        self.sentence_encoder, self.masked_lm = sentence_encoder, masked_lm
        self.similarity, self.word_similarity = similarity, word_similarity
        self.candidates, self.batch_size = candidates, batch_size
        self.extend_vocabulary = extend_vocabulary
        self.columns = None if columns is None else list(columns)
        self.reuse_ranks = reuse_ranks
        self._ranks = Ranks(reuse_ranks) if reuse_ranks else None
        self._check_recipe()
        _ = self._limits()
        self._attack: Attack | None = None
        self._names: Sequence[str] = ("text",)

    def _check_recipe(self) -> None:
        from attacks.recipes import HAS, RECIPES

        if self.recipe not in RECIPES:
            msg = f"got recipe {self.recipe!r}, expected one of {', '.join(RECIPES)}"
            raise ValueError(msg)
        has = HAS.get(self.recipe, ())
        numbers = {
            "candidates": self.candidates,
            "word_similarity": self.word_similarity,
            "similarity": self.similarity,
        }
        strange = [name for name, value in numbers.items() if value is not None and name not in has]
        if strange:
            msg = (
                f"got {', '.join(strange)} for {self.recipe}, expected only what it has: "
                f"{', '.join(has) or 'nothing'}"
            )
            raise ValueError(msg)

    def _limits(self, in_flight: int = 64) -> Limits:
        return Limits(
            query_budget=self.query_budget,
            budget_per_word=self.budget_per_word,
            in_flight=in_flight,
        )

    # What a resumed run takes up

    def state(self) -> dict[str, Any]:
        """The orders of words, where they are kept."""
        return {"ranks": self._ranks.state()} if self._ranks is not None else {}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Take up what `state` returned."""
        if self._ranks is not None:
            self._ranks.restore(state.get("ranks", []))

    # Before the first step

    def more_texts(self, texts: Sequence[Text]) -> list[str]:
        """See `Adversary`.

        Raises:
            ValueError: resources of the attack are not there.
        """
        if not self.extend_vocabulary:
            return []
        return replacements(self._build(torch.device("cpu")), texts)

    def start(self, loop: TrainingLoop) -> None:
        """See `Adversary`: builds the attack.

        Raises:
            ValueError: resources of the attack are not there, or a column is unknown.
        """
        self._names = loop.text_columns
        self._attack = self._build(loop.device)
        if self._ranks is not None:
            self._ranks.ranked(self._attack, [], 0)  # a recipe without ranking is found now
        found = shortage(
            self._attack, self._limits(), some_texts(loop.samples), columns=self._names
        )
        if found.short and loop.global_rank == 0:
            self._warn(found)

    def start_epoch(self, loop: TrainingLoop) -> None:
        """See `Adversary`."""
        if self._ranks is not None:
            self._ranks.start_epoch(loop.current_epoch)

    def _build(self, device: torch.device) -> Attack:
        from attacks.interface import make_goal
        from attacks.recipes import build
        from attacks.resources.catalogue import (
            MASKED_LM,
            SENTENCE_ENCODER,
            ResourceError,
            Resources,
        )

        try:
            resources = Resources(
                self.resources,
                vectors=self.vectors,
                sentence_encoder=self.sentence_encoder or SENTENCE_ENCODER,
                masked_lm=self.masked_lm or MASKED_LM,
                device=device,
            )
            return build(
                self.recipe,
                resources,
                goal=make_goal(score=self.score),
                candidates=self.candidates,
                word_similarity=self.word_similarity,
                similarity=self.similarity,
                columns=self.columns,
            )
        except ResourceError as error:
            # The attack that follows training is told where they are by another setting.
            reason = str(error).replace("--attack.resources", "--model.adversary.resources")
            msg = f"training against {self.recipe}: {reason}"
            raise ValueError(msg) from error

    def _warn(self, found: Shortage) -> None:
        log.warning(
            "query_budget=%s and budget_per_word=%s are used up by ranking the words, a question "
            "for each, in %d of %d training texts: none of their words will be replaced, and they "
            "are trained on as they are; raise the budget (the longest text has %d words to rank), "
            "or take a2t, which ranks by gradients",
            self.query_budget,
            self.budget_per_word,
            found.short,
            found.seen,
            found.most,
        )

    # Steps

    def step(self, problem: Problem) -> Found:
        """See `Adversary`; one pass forward and back, one more with a clean loss."""
        ids = problem.batch.sample_ids.tolist()
        samples = samples_of(problem)
        with problem.attacked(), undisturbed(problem.classifier, problem.labels.device):
            wanted = [
                Sample(sample_id=one, text=samples[one].text, label=label)
                for one, label in zip(ids, problem.labels.tolist(), strict=True)
                if self._chosen(one, problem)
            ]
            records = self._attacked(problem.classifier, wanted, problem.seed, problem.epoch)
        texts = [self._text(samples[one].text, records.get(one)) for one in ids]
        logits = logits_of(problem.classifier, texts, problem.batch.sample_ids, problem.labels)
        adversarial = problem.loss(logits)
        clean: Tensor | None = None
        loss = adversarial
        if self.clean_weight > 0:
            clean = problem.classify(problem.embed())
            loss = self.clean_weight * problem.loss(clean) + (1 - self.clean_weight) * adversarial
        if not problem.logs:
            return Found(loss, {}, {})
        ratios = rates(records.values(), len(ids), problem.labels.device)
        return Found(loss, values(problem, clean, adversarial), ratios)

    def _chosen(self, sample_id: int, problem: Problem) -> bool:
        """Whether a sample is attacked; in whatever batch and process it is."""
        if self.share == 1:
            return True
        # A text as seed is hashed, so that neighbouring numbers are as good as any.
        return Random(f"{problem.seed} {problem.epoch} {sample_id}").random() < self.share

    def _attacked(
        self, classifier: TaskModule, samples: Sequence[Sample], seed: int, epoch: int
    ) -> dict[int, AttackRecord]:
        """What came of attacks on some samples, by their ids."""
        if self._attack is None:
            msg = "got a text adversary without an attack, expected start() before the first step"
            raise RuntimeError(msg)
        if not samples:
            return {}
        attack = self._attack
        if self._ranks is not None:
            attack = self._ranks.ranked(attack, [one.text for one in samples], epoch)
        engine = Engine(
            attack,
            ModuleVictim(classifier, batch_size=self.batch_size),
            limits=self._limits(min(len(samples), _IN_FLIGHT)),
            seed=(seed << 24) + epoch,
            columns=self._names,
        )
        records = {record.sample_id: record for record in engine.run(samples)}
        if self._ranks is not None:
            self._ranks.learn(attack, epoch)
        return records

    def _text(self, clean: Text, record: AttackRecord | None) -> Text:
        """What a sample is trained on."""
        if record is None or record.adversarial is None:
            return clean
        return record.adversarial if self.keep_failed or succeeded(record) else clean
