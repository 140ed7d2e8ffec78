"""Runs the searches of many samples in lock step, with one query per round.

In a round, searches get candidates (transformation and constraints see all of them together) until
each waits for the victim or is over. Then the victim gets the texts of all searches, each text
once. New samples replace searches that have ended, so that batches stay full.
"""

import math
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from random import Random
from typing import Any, NamedTuple, Protocol

import numpy as np

from attacks.candidates import candidates
from attacks.composition import (
    Answers,
    Attack,
    Consult,
    Context,
    DrawTexts,
    EstimateGains,
    Job,
    Propose,
    Query,
    Request,
    SearchEnd,
    Steps,
    Verdict,
    Weigh,
)
from attacks.document import Candidate, Document
from attacks.fingerprint import describe, flat
from attacks.goals import Floats, Unchanged, logarithms
from attacks.outcome import AttackRecord, Outcome, Sample, words_changed, words_kept
from attacks.recipe_settings import Budget
from attacks.task_goals import READINGS, Gold, Label, Reading, TaskGoal, task_of
from attacks.victims.kinds import InvalidAnswers, Victim, VictimError, about_victim
from attacks.victims.token_distributions import draw_texts
from text import Text, check_range

_LOAD = 1 << 28
"""Characters in the queries of all samples in flight: 64 texts of 1,500 words, or one of 10,000.
More would take gigabytes of memory."""
VERSION = 3
"""Of the engine and its searches; raised when the same settings give other records."""
_ALIKE = 1e-3
"""Share of their scale below which two answers are those of one victim."""


class WhiteBox(Protocol):
    """A victim that shows gradients."""

    def word_weights(
        self, documents: Sequence[Document], *, compat: str = "none"
    ) -> list[list[float]]:
        """Return the weight of each word of each document in the prediction.

        It is minus infinity for words that the victim does not see; `compat` asks for dropout, as
        in the reference.
        """

    def flip_gains(
        self,
        documents: Sequence[Document],
        candidates: Sequence[Sequence[Candidate]],
        *,
        target: int | None = None,
    ) -> list[list[float]]:
        """Return to first order what each candidate of each document adds to the other logits.

        With a `target`, it is what it adds to the logit of this class. It is minus infinity where
        a candidate has another number of tokens, or is not seen. Only attacks by flips ask for it,
        for a target only those that have one.
        """


@dataclass(frozen=True, kw_only=True)
class Limits(Budget):
    """The budget of a sample, and the number of samples that share a round.

    Attributes:
        in_flight: samples that are attacked at the same time; changes the speed and nothing else.
    """

    in_flight: int = 128

    def __post_init__(self) -> None:
        """Check the settings."""
        super().__post_init__()
        check_range({"in_flight": self.in_flight}, least=1)


@dataclass(slots=True, eq=False)
class _Run:
    """One sample in flight."""

    sample: Sample
    gold: Gold
    document: Document
    random: Random
    budget: float
    started: float
    verdicts: dict[Text, Verdict]
    steps: Steps | None = None
    waiting: Request | None = None
    context: Context | None = None
    billed: int = 0
    unique: int = 0
    candidates: int = 0
    saturated: bool = False
    exhausted: bool = False
    reached: SearchEnd | None = None
    error: InvalidAnswers | None = None
    reason: str | None = None


class _Answer(NamedTuple):
    """The valid answer to a text of a sample, with the margin of its largest logit."""

    run: _Run
    text: Text
    judged: Verdict
    logits: Floats
    margin: float


class Engine:
    """Attacks samples.

    Args:
        attack: the composition.
        victim: the classifier that is attacked.
        limits: limits of a search, see `Limits`.
        seed: seed of the random numbers; those of a sample depend on it and the sample's id alone.
        columns: names of the texts, for attacks that leave some alone.
        class_names: of the classes of the victim, for the records; none if unknown.

    Attributes:
        answered: True once the victim has given a valid answer, in this start or a former one.
    """

    def __init__(
        self,
        attack: Attack,
        victim: Victim,
        *,
        limits: Limits | None = None,
        seed: int = 0,
        columns: Sequence[str] = ("text",),
        class_names: Sequence[str] = (),
    ) -> None:
        if isinstance(attack.surrogate, str):
            msg = (
                f"got surrogate {attack.surrogate} for {attack.name}, expected a loaded model: the "
                "command `attack` loads it; in Python, attacks.attack(..., surrogate=MODEL)"
            )
            raise ValueError(msg)
        if attack.white_box and not hasattr(victim, "word_weights"):
            msg = (
                f"got victim {victim.name}, which shows no gradients, expected one that does: "
                f"{attack.name} is a white-box attack"
            )
            raise TypeError(msg)
        if (check := getattr(attack.search, "check_victim", None)) is not None:
            check(victim)
        goal: Any = attack.goal
        task = task_of(victim)
        reading = goal if isinstance(goal, TaskGoal) else READINGS.get(task)
        if reading is None or reading.task != task:
            msg = (
                f"got the goal {type(goal).__name__} for victim {victim.name} of {task}, expected "
                "a goal of this task (attacks.task_goals)"
            )
            raise VictimError(msg)
        if attack.surrogate is not None and isinstance(reading, TaskGoal):
            msg = f"got a surrogate for victim {victim.name} of {task}, expected a classifier"
            raise VictimError(msg)
        self._reading: Reading = reading
        self.attack = attack
        self.victim = victim
        self._surrogate, self._classes = attack.surrogate, 0
        self.limits = Limits() if limits is None else limits
        self.seed = seed
        self.columns = columns
        self.answered = False
        self.class_names = class_names

    def _name(self, index: Label) -> str | None:
        # Tags and sets of classes are names already.
        known = isinstance(index, int) and 0 <= index < len(self.class_names)
        return self.class_names[int(index)] if known else None  # type: ignore[arg-type] # an index

    def run(self, samples: Iterable[Sample]) -> Iterator[AttackRecord]:
        """Attack all samples; records come as the attacks end.

        A sample with an invalid answer to one of its texts ends in a record of an error. Where all
        samples do, the settings are wrong rather than the answers.

        Raises:
            VictimError: the victim failed, or gave no valid answer at all. Former records stay
                valid.
        """
        # Read as room allows: a stream of samples is never in memory whole.
        source = iter(samples)
        active: list[_Run] = []
        invalid: list[_Run] = []
        while True:
            fresh = self._admit(source, active)
            if fresh:
                self._open(fresh)
                active += fresh
            if not active:
                break
            self._prepare(active)
            self._ask([run for run in active if isinstance(run.waiting, Query)])
            over = [run for run in active if run.waiting is None]
            active = [run for run in active if run.waiting is not None]
            invalid += [run for run in over if run.reason is not None]
            # Records of errors wait until the victim has given one valid answer.
            if self.answered:
                yield from map(self._unjudged, invalid)
                invalid = []
            yield from self._records([run for run in over if run.reason is None])
        if invalid and invalid[0].error is not None:
            raise invalid[0].error

    def about(self) -> dict[str, Any]:
        """Describe all that the records depend on, but for the samples.

        A victim without `about()` gives its name; `find_contradiction` compares its answers.
        """
        return {
            "version": VERSION,
            **flat(describe(self.attack), "attack"),
            **flat(describe(about_victim(self.victim)), "victim"),
            "query_budget": self.limits.query_budget,
            "budget_per_word": self.limits.budget_per_word,
            "seed": self.seed,
            "columns": list(self.columns),
        }

    def find_contradiction(self, records: Iterable[AttackRecord]) -> str | None:
        """Describe a record whose answers the victim no longer gives; None if there is none.

        The victim is asked about each clean and each adversarial text once more.
        """
        answers: list[Any] = [
            (record, text, *answer)
            for record in records
            if record.prediction is not None
            for text, *answer in (
                (record.text, record.score, record.prediction),
                (record.adversarial, record.adversarial_score, record.adversarial_prediction),
            )
            if text is not None
        ]
        if not answers:
            return None
        gold = self._reading.gold
        judged, logits = self._query(
            [text for _, text, *_ in answers],
            [gold(record.text, record.label, record.prediction) for record, *_ in answers],
        )
        ahead = self._reading.margins(logits).tolist()
        scales: dict[int, float] = {}
        for (record, *_), margin in zip(answers, ahead, strict=True):
            scales[record.sample_id] = max(margin, scales.get(record.sample_id, 0.0))
        for (record, text, score, prediction), now, margin in zip(
            answers, judged, ahead, strict=True
        ):
            # Another machine or precision moves scores a little, and the class where it is close.
            noise = _ALIKE * scales[record.sample_id]
            moved = noise if self.attack.goal.score == "margin" else min(noise, _ALIKE)
            near = math.isclose(score, now.score, rel_tol=10 * _ALIKE, abs_tol=moved)
            # The score tells enough about numbers, tags and several classes.
            other = isinstance(prediction, int) and prediction != now.prediction
            if not near or (other and margin > noise):
                return (
                    f"sample {record.sample_id} has class {prediction} and score {score:.4g} for "
                    f"{text!r:.80}, where the victim answers class {now.prediction} and score "
                    f"{now.score:.4g}"
                )
        return None

    # From a sample to a search

    def _admit(self, source: Iterator[Sample], active: Sequence[_Run]) -> list[_Run]:
        """Take new samples as room allows; fewer very long ones, but at least one."""
        fresh: list[_Run] = []
        load = sum(map(self._load, active))
        while len(active) + len(fresh) < self.limits.in_flight:
            # At least one sample is in flight, however long it is.
            if (active or fresh) and load >= _LOAD:
                break
            sample = next(source, None)
            if sample is None:
                break
            fresh.append(self._begin(sample))
            load += self._load(fresh[-1])
        return fresh

    def _load(self, run: _Run) -> int:
        """Return the characters of a question about each word, or those that a search expects."""
        count = getattr(self.attack.search, "texts", len)
        return int(count(run.document)) * sum(map(len, run.document.columns))

    def _begin(self, sample: Sample) -> _Run:
        if not any(isinstance(sample.label, kind) for kind in self._reading.types):
            msg = (
                f"got label {sample.label!r:.80} of sample {sample.sample_id}, expected one of "
                f"{self._reading.task}, see attacks.task_goals"
            )
            raise VictimError(msg)
        document = Document.of(sample.text, cut=self.attack.cut)
        return _Run(
            sample=sample,
            gold=self._reading.gold(sample.text, sample.label),
            document=document,
            # Depends on the seed and the sample's id alone, not on the order of the samples.
            random=Random((self.seed << 32) + sample.sample_id),
            budget=self.limits.budget(len(document)),
            started=time.perf_counter(),
            verdicts={},
        )

    def _open(self, runs: Sequence[_Run]) -> None:
        """Query the clean texts, and begins the searches of those classified rightly."""
        for run in runs:
            # The clean text counts as a query, as in TextAttack.
            run.billed = run.unique = 1
        begun = []
        for run, _, first, row, margin in self._answers([(run, run.document.text) for run in runs]):
            judged = first
            gold = self._reading.gold(run.document.text, run.sample.label, first.prediction)
            if gold != run.gold:  # a regression: the goal compares with the clean answer
                run.gold = gold
                (judged,) = self._judge(row[None], [gold])
            run.verdicts[run.document.text] = judged
            run.reached = SearchEnd(run.document, judged)
            run.saturated = not isinstance(self._reading, TaskGoal) and _saturated(row)
            # The reference skips texts that reach the goal; misclassified ones are skipped, too.
            reached = judged.success and not isinstance(self.attack.goal, Unchanged)
            if reached or not self._reading.right(judged.prediction, run.sample.label):
                continue
            run.context = Context(
                original=run.document,
                clean=judged,
                attack=self.attack,
                random=run.random,
                columns=self.columns,
                scale=margin,
                gradients=hasattr(self.victim, "word_weights")
                and getattr(self.victim, "differentiable", True),
                frozen=self._reading.frozen(run.document, run.sample.label),
            )
            begun.append(run)
        self._introduce(begun)
        for run in begun:
            if run.context is not None:
                run.steps = self.attack.search.steps(run.context)
                self._send(run, None)

    def _introduce(self, runs: Sequence[_Run]) -> None:
        """Ask the surrogate about the clean texts of samples, if there is one."""
        if self._surrogate is None or not runs:
            return
        judged, logits = self._query(
            [run.document.text for run in runs], [run.gold for run in runs], self._surrogate
        )
        for run, clean, margin in zip(
            runs, judged, self._reading.margins(logits).tolist(), strict=True
        ):
            if run.context is not None:
                run.context.surrogate = replace(run.context, clean=clean, scale=margin, salience={})

    def _send(self, run: _Run, answer: Any) -> None:
        """Send a search its answer; run it to its next request or its end."""
        if run.steps is None:
            return
        try:
            # A generator takes None at its start, then the answer to its latest request.
            run.waiting = run.steps.send(answer)
        except StopIteration as end:
            run.waiting, run.reached = None, end.value

    # Candidates

    def _prepare(self, active: Sequence[_Run]) -> None:
        """Answer all requests that need no logits."""
        # Drawing texts takes seconds: one search in each round, so that the records of others come.
        for run in active:
            if isinstance(run.waiting, DrawTexts):
                self._draw(run, run.waiting)
                break
        # Requests for candidates or gradients are answered until all searches wait for the victim.
        while waiting := [
            run
            for run in active
            if run.waiting is not None and not isinstance(run.waiting, Query | DrawTexts)
        ]:
            for kind, answer in (
                (Consult, self._consult),
                (Weigh, self._weigh),
                (EstimateGains, self._estimate),
                (Propose, self._propose),
            ):
                if runs := [run for run in waiting if isinstance(run.waiting, kind)]:
                    answer(runs)

    def _consult(self, runs: Sequence[_Run]) -> None:
        """Answer what searches ask the surrogate; no text of it is billed."""
        requests = [run.waiting.items for run in runs if isinstance(run.waiting, Consult)]
        texts = [item.text for items in requests for item in items]
        golds = [run.gold for run, items in zip(runs, requests, strict=True) for _ in items]
        judged, logits = self._query(texts, golds, self._surrogate)
        margins, start = self._reading.margins(logits).tolist(), 0
        for run, items in zip(runs, requests, strict=True):
            # The first `start` is read before the walrus moves it.
            rows = slice(start, start := start + len(items))
            if run.context is not None and run.context.surrogate is not None:
                facts = run.context.surrogate
                facts.scale = max(facts.scale, *margins[rows])
            self._send(run, Answers(judged[rows], exhausted=False))

    def _weigh(self, runs: Sequence[_Run]) -> None:
        victim: Any = self.victim  # has them, see __init__
        documents = [run.waiting.document for run in runs if isinstance(run.waiting, Weigh)]
        try:
            weights = victim.word_weights(documents, compat=self.attack.compat)
        except InvalidAnswers as error:
            _set_aside([(run, doc.text) for run, doc in zip(runs, documents, strict=True)], error)
            return  # the others ask again
        for run, row in zip(runs, weights, strict=True):
            self._send(run, row)

    def _estimate(self, runs: Sequence[_Run]) -> None:
        victim: Any = self.victim
        if not hasattr(victim, "flip_gains"):
            msg = (
                f"got victim {self.victim.name}, which does not say what replacements gain by its "
                f"gradient, expected flip_gains(): {self.attack.name} asks for them"
            )
            raise TypeError(msg)
        requests = [run.waiting for run in runs if isinstance(run.waiting, EstimateGains)]
        # Leaving its class need not lead to the target.
        target = getattr(self.attack.goal, "target", None)
        aim = {} if target is None else {"target": target}
        try:
            gains = victim.flip_gains(
                [request.document for request in requests],
                [request.candidates for request in requests],
                **aim,
            )
        except InvalidAnswers as error:
            texts = [request.document.text for request in requests]
            _set_aside(list(zip(runs, texts, strict=True)), error)
            return  # the others ask again
        for run, row in zip(runs, gains, strict=True):
            self._send(run, row)

    def _draw(self, run: _Run, request: DrawTexts) -> None:
        victim: Any = self.victim  # checked by the search
        target = getattr(self.attack.goal, "target", None)
        try:
            texts = draw_texts(
                victim.token_model,
                request.document,
                request.columns,
                label=run.sample.label,
                target=target,
                count=request.count,
                seed=request.seed,
                settings=request.settings,
            )
        except InvalidAnswers as error:
            _set_aside([(run, request.document.text)], error)
            return
        run.candidates += len(texts)
        self._send(run, texts)

    def _propose(self, runs: Sequence[_Run]) -> None:
        jobs: list[Job] = []
        for run in runs:
            if not isinstance(run.waiting, Propose) or run.context is None:
                continue
            current = run.waiting.current
            indices, stage = list(run.waiting.indices), run.waiting.stage
            if not stage:
                # A later stage may change words that were changed before.
                allowed = set(run.context.allowed(current))
                indices = [i for i in indices if i in allowed]
            jobs.append(Job(run.document, current, indices, run.random, run.sample.label, stage))
        for run, proposals in zip(runs, candidates(self.attack, jobs), strict=True):
            run.candidates += len(proposals)
            self._send(run, proposals)

    # The victim

    def _ask(self, runs: Sequence[_Run]) -> None:
        """Answer the queries of all searches with one query to the victim."""
        # Each text of a sample goes to the victim once, however often it is billed.
        new: dict[tuple[int, Text], _Run] = {}
        queries: list[tuple[_Run, list[Text], bool]] = []
        # By its number: two samples with the same text are billed and judged apart.
        for number, run in enumerate(runs):
            if not isinstance(run.waiting, Query):
                continue
            texts = [item.text for item in run.waiting.items]
            # The last query is cut so that the budget is met exactly.
            remaining = run.budget - run.billed
            if remaining < len(texts):
                # Only a finite budget gets here: `int` of infinity would raise.
                texts = texts[: int(remaining)]
            run.billed += len(texts)
            run.exhausted = run.billed >= run.budget
            queries.append((run, texts, run.exhausted))
            new.update(((number, text), run) for text in texts if text not in run.verdicts)
        for run, text, judged, _, margin in self._answers(
            [(run, text) for (_, text), run in new.items()]
        ):
            run.verdicts[text] = judged
            run.unique += 1
            if run.context is not None:
                run.context.scale = max(run.context.scale, margin)
        for run, texts, exhausted in queries:
            if run.reason is None:
                self._send(run, Answers([run.verdicts[text] for text in texts], exhausted))

    def _answers(self, questions: Sequence[tuple[_Run, Text]]) -> list[_Answer]:
        """Ask about texts of samples; sets those samples aside that have an invalid answer."""
        while questions:
            texts = [text for _, text in questions]
            try:
                judged, logits = self._query(texts, [run.gold for run, _ in questions])
            except InvalidAnswers as error:
                _set_aside(questions, error)
                questions = [(run, text) for run, text in questions if run.reason is None]
                continue
            self.answered = True
            runs = [run for run, _ in questions]
            margins = self._reading.margins(logits).tolist()
            rows = zip(runs, texts, judged, logits, margins, strict=True)
            return [_Answer(*row) for row in rows]
        return []

    def _hold(self, wins: Sequence[tuple[Text, Gold]]) -> list[bool | None]:
        """Ask about adversarial texts once more: a noisy victim may answer otherwise.

        `wins` are texts that have reached the goal, with what it compares them with.
        """
        # A victim with a cache would repeat itself: `again` asks anew.
        ask = getattr(self.victim, "again", self.victim.logits)
        verdicts: dict[tuple[Text, Gold], bool | None] = dict.fromkeys(wins, False)
        remaining = list(verdicts)
        while remaining:
            try:
                logits = ask([text for text, _ in remaining])
            except InvalidAnswers as error:
                rest = [win for win in remaining if win[0] not in error.reasons]
                # Reasons about none of these texts would repeat this query for ever.
                if len(rest) == len(remaining):
                    raise
                remaining = rest
                continue
            reached: Sequence[bool | None] = [None] * len(remaining)
            if logits is not None:
                labels = self._reading.labels([gold for _, gold in remaining], logits)
                shares = self._shares(logits)
                goal = self.attack.goal
                reached = goal.reached(logits, labels, probabilities=shares).tolist()
            verdicts.update(zip(remaining, reached, strict=True))
            break
        return [verdicts[win] for win in wins]

    def _numbers(
        self, victim: Victim, texts: Sequence[Text], rows: Sequence[int]
    ) -> tuple[Floats, Floats | None]:
        """Return logits of some of the texts, and probabilities where the victim gives those."""
        # Computed from logits they would differ in the last digit, which decides about the order of
        # equal words in the reference.
        ask = getattr(victim, "probabilities", None)
        probabilities: Floats | None = None
        if ask is not None and self.attack.goal.score == "probability":
            probabilities = ask(texts)
        if probabilities is not None:
            return logarithms(probabilities)[rows], probabilities[rows]
        logits = victim.logits(texts)[rows]
        return logits, self._shares(logits)

    def _shares(self, logits: Floats) -> Floats | None:
        """Return rows as probabilities where the reference reads them so."""
        if not self.attack.compat.rows_as_probabilities:
            return None
        return logits if bool((abs(logits.sum(axis=1) - 1) < 1e-6).all()) else None

    def _query(
        self, texts: Sequence[Text], gold: Sequence[Gold], surrogate: Victim | None = None
    ) -> tuple[list[Verdict], Floats]:
        """Ask about each different text once; returns verdicts and logits, one per text.

        Without a surrogate, the victim is asked.
        """
        # Equal texts of several samples are one row.
        rows = {text: row for row, text in enumerate(dict.fromkeys(texts))}
        asked = self.victim if surrogate is None else surrogate
        logits, probabilities = self._numbers(asked, list(rows), [rows[text] for text in texts])
        if surrogate is None:
            self._classes = logits.shape[-1]
        elif logits.shape[1] != self._classes:
            msg = (
                f"got surrogate {surrogate.name} with {logits.shape[1]} classes, expected those of "
                f"the victim: {self._classes}"
            )
            raise VictimError(msg)
        return self._judge(logits, gold, probabilities), logits

    def _judge(
        self, logits: Floats, gold: Sequence[Gold], probabilities: Floats | None = None
    ) -> list[Verdict]:
        goal = self.attack.goal
        try:
            labels = self._reading.labels(gold, logits)
        except ValueError as error:
            raise VictimError(str(error)) from error
        scores = goal.judge(logits, labels, probabilities=probabilities).tolist()
        success = goal.reached(logits, labels, probabilities=probabilities).tolist()
        predictions = self._reading.predictions(logits)
        return [Verdict(*row) for row in zip(scores, success, predictions, strict=True)]

    # From a search to a record

    def _records(self, runs: Sequence[_Run]) -> list[AttackRecord]:
        """Return the records of searches that have ended, after a last look at their texts."""
        ended = [run for run in runs if run.reached is not None]
        records = [self._record(run, run.reached) for run in ended if run.reached is not None]
        wins = {
            # Successes are asked about again: the victim may be noisy.
            record.sample_id: (record.adversarial, run.gold)
            for run, record in zip(ended, records, strict=True)
            if record.outcome == "succeeded" and record.adversarial is not None
        }
        confirmed = dict(zip(wins, self._hold(list(wins.values())), strict=True))
        return [replace(record, holds=confirmed.get(record.sample_id)) for record in records]

    def _record(self, run: _Run, reached: SearchEnd) -> AttackRecord:
        attacked = run.steps is not None
        item, judged = reached
        if isinstance(item, Candidate):
            final = run.document.remake(item.columns, item.similarity)
        else:
            final = item
        outcome: Outcome = "skipped"
        if attacked:
            changed = item.columns != run.document.columns
            outcome = "succeeded" if judged.success and changed else "failed"
        # A certifier that names no text has a proof that there is none.
        proven = hasattr(self.attack.transformation, "certified")
        # A search that refines its first success may still be ended by the budget.
        ended = outcome != "succeeded" or getattr(self.attack.search, "refines", False)
        return replace(
            self._unjudged(run),
            outcome=outcome,
            adversarial=item.text if attacked else None,
            adversarial_prediction=judged.prediction if attacked else None,
            adversarial_prediction_name=self._name(judged.prediction) if attacked else None,
            adversarial_score=judged.score if attacked else None,
            words_changed=words_changed(run.document, final, compat=self.attack.compat),
            words_kept=words_kept(run.document, final),
            similarity=final.similarity,
            exhausted=run.exhausted and ended,
            salience=_salience(run),
            score_change=self._score_change(run),
            candidates=run.candidates if attacked and not proven else None,
        )

    def _score_change(self, run: _Run) -> float | None:
        """Return the largest change of the score; None if the search does not follow it."""
        if not self.attack.needs_scores or self._surrogate is not None or run.context is None:
            return None
        clean = run.context.clean.score
        changes = [
            abs(judged.score - clean)
            for text, judged in run.verdicts.items()
            if text != run.document.text
        ]
        return float(f"{max(changes):.4g}") if changes else None

    def _unjudged(self, run: _Run) -> AttackRecord:
        """Return the record of an error; a search that ended says otherwise."""
        clean = run.verdicts.get(run.document.text)
        return AttackRecord(
            sample_id=run.sample.sample_id,
            label=run.sample.label,
            prediction=None if clean is None else clean.prediction,
            outcome="error",
            text=run.sample.text,
            adversarial=None,
            adversarial_prediction=None,
            score=None if clean is None else clean.score,
            adversarial_score=None,
            words=len(run.document),
            words_changed=0,
            similarity=None,
            queries=run.billed,
            unique_queries=run.unique,
            exhausted=False,
            saturated=run.saturated,
            seconds=round(time.perf_counter() - run.started, 6),
            seed=self.seed,
            reason=run.reason,
            label_name=self._name(run.sample.label),
            prediction_name=None if clean is None else self._name(clean.prediction),
        )


def _set_aside(questions: Sequence[tuple[_Run, Text]], error: InvalidAnswers) -> None:
    """End the searches of those samples whose texts have an invalid answer.

    Raises:
        InvalidAnswers: it is about none of the texts.
    """
    ended = [(run, error.reasons[text]) for run, text in questions if text in error.reasons]
    if not ended:
        raise error
    for run, reason in ended:
        run.waiting, run.error, run.reason = None, error, run.reason or reason


def longest_first(samples: Sequence[Sample], in_flight: int) -> Sequence[Sample]:
    """Return samples in the order in which attacking them takes least time.

    Long texts need most rounds: begun last, they would end alone, in small batches. One sample at a
    time (`in_flight`) keeps its order.
    """
    if in_flight == 1:
        return samples

    def length(sample: Sample) -> int:
        text = sample.text
        return len(text) if isinstance(text, str) else sum(map(len, text))

    return sorted(samples, key=length, reverse=True)


def _salience(run: _Run) -> tuple[float | None, ...] | None:
    """Return the salience of each word for the record; None if the search has ranked no words."""
    if run.context is None or not run.context.salience:
        return None
    # Four digits shade a word well enough, and keep records small.
    weights = {i: float(f"{w:.4g}") for i, w in run.context.salience.items() if math.isfinite(w)}
    return tuple(weights.get(i) for i in range(len(run.document)))


def _saturated(logits: Floats) -> bool:
    """Return True if the largest probability is 1 in single precision."""
    # Softmax in single precision, as most victims compute it.
    shifted = np.exp((logits - logits.max()).astype(np.float32))
    return bool(shifted.max() / shifted.sum(dtype=np.float32) == 1)
