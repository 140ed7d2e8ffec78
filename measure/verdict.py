"""The verdict on a run: one sentence, a level, and the figures that it rests on; no torch needed.

The terminal, the report, the page, `runs`, `compare` and studies show this verdict, so that a model
that predicts one class only is nowhere called robust. docs/verdict.md explains the levels.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from attacks.outcome import DETECTOR_GOALS
from measure.labelled_predictions import COLLAPSED, Predictions
from run_files.certified_bounds import BOUNDS
from run_files.checkpoint_lookup import checkpoint_text
from run_files.results import Results
from run_files.run_directory import RunDirectory
from run_files.score_intervals import score_interval
from text.bounded_files import json_lines
from text.estimates import IntervalEstimate, wilson

if TYPE_CHECKING:
    from measure.evidence import Evidence

Level = Literal["unmeasured", "collapsed", "weak", "untested", "fragile", "partial", "robust"]
"""Worst evidence first; docs/verdict.md defines each level."""
ROBUST = 0.2
"""Largest share of right predictions that attacks may change in a robust model."""
FRAGILE = 0.5
"""Share of right predictions that an attack changes in a fragile model."""
MEANINGLESS = (
    "it predicts one class only: its certificates and its accuracy under attack mean nothing"
)

_ALWAYS = "always the most frequent class"
_SCORES = {
    "macro_f1": "Macro-F1",
    "f1": "F1",
    "spearman": "Spearman",
    "pearson": "Pearson",
    "ece": "Calibration error (ECE)",
    "brier": "Brier score",
}
"""Titles of metrics of `test` that are no shares of texts."""
_DETECTION = {
    "recall": ("Detected", "positives"),
    "false_alarms": ("False alarms", "negatives"),
    "recall_at_0.001": ("Detected at 0.1 % false alarms", "positives"),
    "recall_at_0.01": ("Detected at 1 % false alarms", "positives"),
    "recall_at_0.05": ("Detected at 5 % false alarms", "positives"),
    "auc": ("Area under the ROC curve", None),
    "average_precision": ("Average precision", None),
}
"""Figures of a detector: titles, and the texts that they are shares of."""
_UNTESTED = "it was neither attacked nor certified in words"

FigureKind = Literal["clean", "detection", "attack", "words", "radius", "calibration"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Reference:
    """A number to compare a figure with, for example of `always the most frequent class`."""

    title: str
    value: float


@dataclass(frozen=True, kw_only=True, slots=True)
class VerdictFigure:
    """A figure of a verdict.

    Attributes:
        name: stable name, that of the metric in `results.json`.
        kind: clean texts, detection at a threshold, attacks in words, certificates in words, radii
            of vectors, calibration.
        title: in plain words.
        value: the figure.
        low: lower end of its 95 % interval; None without one.
        high: upper end.
        count: texts that it is made from; None if unknown.
        references: numbers to compare it with.
        note: one sentence; "" if there is nothing to say.
        doubted: True if it measures no robustness: of a blind attack, or of a collapsed model.
    """

    name: str
    kind: FigureKind
    title: str
    value: float
    low: float | None = None
    high: float | None = None
    count: int | None = None
    references: tuple[Reference, ...] = ()
    note: str = ""
    doubted: bool = False

    @property
    def text(self) -> str:
        """The value with its interval and its count, three decimals."""
        ends = "" if self.low is None else f" [{self.low:.3f}, {self.high:.3f}]"
        count = "" if self.count is None else f" of {self.count:,} texts"
        return f"{self.value:.3f}{ends}{count}"

    @property
    def estimate(self) -> IntervalEstimate:
        """The value with its interval, or with itself as both ends; the count 0 if unknown."""
        low = self.value if self.low is None else self.low
        high = self.value if self.high is None else self.high
        return IntervalEstimate(self.value, low, high, self.count or 0)


@dataclass(frozen=True, kw_only=True, slots=True)
class RunVerdict:
    """The verdict on a run.

    Attributes:
        level: see `Level`.
        headline: one plain sentence.
        figures: clean accuracy first, then attacks and certificates in words, radii, calibration.
        cautions: sentences that must be next to the figures; for a collapsed model one that its
            robustness means nothing.
    """

    level: Level
    headline: str
    figures: tuple[VerdictFigure, ...] = ()
    cautions: tuple[str, ...] = ()

    @property
    def collapsed(self) -> bool:
        """True if certificates and accuracy under attack mean nothing."""
        return self.level == "collapsed"

    @property
    def text(self) -> str:
        """Headline and cautions, a line each."""
        return "\n".join([self.headline, *self.cautions])

    def figure(self, name: str) -> VerdictFigure | None:
        """Return the figure of a name; None if it was not measured."""
        return next((figure for figure in self.figures if figure.name == name), None)

    def of_kind(self, kind: FigureKind) -> tuple[VerdictFigure, ...]:
        """Return the figures of a kind."""
        return tuple(figure for figure in self.figures if figure.kind == kind)


def judge_evidence(evidence: "Evidence") -> RunVerdict:
    """Return the verdict on a run whose evidence was read."""
    sources = [evidence.predictions, evidence.pgd, evidence.certificates]
    records = [part.records for part in [*sources, *evidence.in_words.values()] if part is not None]
    # Attacks drew fewer texts than the split has: they come last.
    attacks = [attack for attack in evidence.attacks if attack.of_test]
    records += [[record.line() for record in attack.records] for attack in attacks]
    labelled = next(filter(None, ([r for r in part if _labelled(r)] for part in records)), None)
    return judge(
        evidence.metrics,
        subjects=evidence.subjects,
        classifies=evidence.classifies,
        predictions=None if labelled is None else Predictions.of(labelled),
        class_names=evidence.class_names,
        run=evidence.run.name,
    )


def judge_run(run: RunDirectory, results: Results) -> RunVerdict:
    """Return the verdict on a run by its figures; records are read only for an older `test`.

    Raises:
        ValueError: a file of the run has unexpected content.
    """
    metrics, subjects = results["metrics"], results.get("about", {})
    records: Sequence[Mapping[str, Any]] = ()
    if not (counted := "test/majority_accuracy" in metrics):
        files = [run.path / "predictions.jsonl", run.path / "pgd.jsonl"]
        files.append(run.path / "certificates.jsonl")
        files += [
            run.path / f"certificates_{stage.removeprefix('certify_')}.jsonl"
            for stage, subject in subjects.items()
            if stage.startswith("certify_") and subject.get("split") == "test"
        ]
        files += sorted((run.path / "attacks").glob("*.jsonl"))
        lines = (json_lines(file, "records") for file in files if file.is_file())
        read = ([line for _, line in part if _labelled(line)] for part in lines)
        records = next(filter(None, read), ())
    return judge(
        metrics,
        subjects=subjects,
        classifies=counted or checkpoint_text(run).get("task") in (None, "classification"),
        predictions=Predictions.of(records) if records else None,
        run=run.name,
    )


def judge(
    metrics: Mapping[str, float | None],
    *,
    subjects: Mapping[str, Mapping[str, Any]],
    classifies: bool = True,
    predictions: Predictions | None = None,
    class_names: Sequence[str] = (),
    run: str = "RUN",
) -> RunVerdict:
    """Return the verdict on the figures of one model, by its `metrics` as in `results.json`.

    `subjects` are weights, rows and settings of each stage. `predictions` are labelled ones of the
    test split, or of a part, for older runs, whose `test` has stored no counts. `run` is for the
    commands in sentences.
    """
    judge = _Judge(metrics, subjects, predictions)
    reason = None
    if not classifies:
        reason = "No verdict: this model does not predict classes of texts."
    elif judge.accuracy is None:
        reason = f"Not measured: `test --run {run}` measures it on labelled texts."
    elif 0.0 in (metrics.get("test/positives"), metrics.get("test/negatives")):
        reason = "No verdict: all texts are of one kind, for which a detector has a share alone."
    elif judge.majority is None:
        # Without this line, an older run of a collapsed model would be called robust.
        reason = f"Not judged: `test --run {run}` counts how often it predicts each class."
    if reason is not None:
        return RunVerdict(level="unmeasured", headline=reason, figures=tuple(judge.figures()))
    level = judge.level
    return RunVerdict(
        level=level,
        headline=judge.headline(level, class_names),
        figures=tuple(judge.figures()),
        cautions=tuple(judge.cautions()),
    )


@dataclass(frozen=True)
class _Attack:
    """Accuracy before and under an attack, on the same texts."""

    name: str
    clean: IntervalEstimate
    accuracy: IntervalEstimate
    unreliable: bool
    target: bool
    inside: str = ""
    """The threat that it has to stay in, such as "characters, k = 1"."""

    @property
    def changed(self) -> IntervalEstimate:
        """Share of the right predictions that the attack has changed."""
        # Results hold shares: rounding recovers the counts.
        right, standing = (round(e.value * e.count) for e in (self.clean, self.accuracy))
        return wilson(max(0, right - standing), max(1, right))

    @property
    def note(self) -> str:
        right = round(self.clean.value * self.clean.count)
        lost = right - round(self.accuracy.value * self.accuracy.count)
        if self.unreliable:
            return "no measure of robustness: the scores of the model were blind"
        inside = f", inside {self.inside}" if self.inside else ""
        return f"changed {f'{lost:,}' if lost else 'none'} of {right:,} right predictions{inside}"


@dataclass(frozen=True)
class _WordCertificate:
    """Accuracy of clean texts, and of those that are certified for the most changes."""

    stage: str
    k: str
    clean: IntervalEstimate
    accuracy: IntervalEstimate
    statement: str

    @property
    def kept(self) -> IntervalEstimate:
        """Share of the right predictions that it is about."""
        right, certified = (round(e.value * e.count) for e in (self.clean, self.accuracy))
        return wilson(min(right, certified), max(1, right))

    @property
    def changes(self) -> str:
        """The changes that it is about, in words."""
        number = {"all": "any number of changes", "1": "1 change"}.get(self.k, f"{self.k} changes")
        return f"{number} of {self.stage.removeprefix('certify_').replace('+', ' and ')}"

    @property
    def text(self) -> str:
        """The certified accuracy in words."""
        count = f"{self.accuracy.count:,} texts"
        return f"{self.accuracy.value:.3f} certified against {self.changes} ({count})"


class _Judge:
    """Reads the metrics of one model."""

    def __init__(
        self,
        metrics: Mapping[str, float | None],
        subjects: Mapping[str, Mapping[str, Any]],
        predictions: Predictions | None,
    ) -> None:
        self.metrics, self.subjects, self.predictions = metrics, subjects, predictions
        made = predictions
        self.count = self._count(made)
        self.majority = self._read("test/majority_accuracy", made.majority[1] if made else None)
        self.largest = self._read("test/largest_class", made.largest[1] if made else None)
        self.absorbed = self._read("test/absorbed", made.absorbed if made else None)
        self.attacks = [a for name in self._attack_names() if (a := self._attack(name)) is not None]
        self.certificates = list(self._certificates())

    def _read(self, name: str, other: float | None = None) -> float | None:
        value = self.metrics.get(name)
        return other if value is None else value

    def _count(self, made: Predictions | None) -> int | None:
        """Return the number of labelled test texts; older runs have not stored it."""
        if (samples := self.metrics.get("test/samples")) is not None:
            return int(samples)
        accuracy = self.metrics.get("test/accuracy")
        counts = [len(made.labels)] if made is not None else []
        counts += [
            int(count)
            for stage in self._word_stages()
            if (count := self.metrics.get(f"{stage}/samples"))
        ]
        # Certificates and attacks may have fewer texts: only a possible share of them counts.
        if accuracy is not None:
            fits = (n for n in counts if abs(round(accuracy * n) / n - accuracy) < 1e-6)
            return next(fits, None)
        return next(iter(counts), None)

    @property
    def accuracy(self) -> IntervalEstimate | None:
        """Clean accuracy of the test split, without interval if the count is unknown."""
        value = self.metrics.get("test/accuracy")
        if value is None:
            return None if self.predictions is None else self.predictions.accuracy
        return _share(value, self.count)

    def _attack_names(self) -> list[str]:
        parts = [name.split("/") for name in self.metrics]
        names = dict.fromkeys(p[1] for p in parts if len(p) == 3 and p[0] == "attack")
        # Older attacks have no split in their subject: they are of the test split.
        splits = {n: self.subjects.get(f"attack/{n}", {}).get("split", "test") for n in names}
        return [name for name in names if splits[name] == "test"]

    @property
    def flips(self) -> list[str]:
        """The worst evasion of detections, and the worst false alarms that were forced."""
        worst: dict[bool, tuple[float, str, int]] = {}
        for name in self._attack_names():
            rate = self.metrics.get(f"attack/{name}/flip_rate")
            count = int(self.metrics.get(f"attack/{name}/attacked") or 0)
            if rate is not None:
                forces = f"attack/{name}/target" in self.metrics
                worst[forces] = max(worst.get(forces, (-1.0, "", 0)), (rate, name, count))
        verbs = {False: "evades {} detections", True: "makes false alarms of {} texts"}
        return [
            f"{name} {verbs[forces].format(f'{100 * rate:.1f} % of {count:,}')}"
            for forces, (rate, name, count) in sorted(worst.items())
        ]

    def _attack(self, name: str) -> _Attack | None:
        subject = self.subjects.get(f"attack/{name}", {})
        # Without a detection there is nothing to flip, and no rate.
        if f"attack/{name}/flip_rate" in self.metrics or subject.get("goal") in DETECTOR_GOALS:
            return None  # its texts are of one class: its accuracy is a recall
        if keeps_prediction(subject.get("recipe")):
            return None  # its successes are no errors
        figures = {
            key: self.metrics.get(f"attack/{name}/{key}")
            for key in ("samples", "clean_accuracy", "accuracy", "unreliable_accuracy", "target")
        }
        unreliable = figures["accuracy"] is None
        accuracy = figures["unreliable_accuracy" if unreliable else "accuracy"]
        clean, samples = figures["clean_accuracy"], int(figures["samples"] or 0)
        if accuracy is None or clean is None or not samples:
            return None
        return _Attack(
            name,
            _share(clean, samples),
            _share(accuracy, samples),
            unreliable,
            figures["target"] is not None,
            self._inside(name),
        )

    def _inside(self, name: str) -> str:
        """Return the threat of an attack; "" without one."""
        threat = self.subjects.get(f"attack/{name}", {}).get("threat") or {}
        k = {"all": "any number"}.get(str(threat.get("k")), f"k = {threat.get('k')}")
        return f"{threat['name']}, {k}" if "name" in threat else ""

    def _word_stages(self) -> Iterator[str]:
        """Yield the stages of certificates in words of the model itself, on the test split."""
        of_vectors = {bound.stage for bound in BOUNDS}
        for name in self.metrics:
            stage, _, figure = name.partition("/")
            subject = self.subjects.get(stage, {})
            if (
                figure == "samples"
                and stage.startswith("certify_")
                and stage not in of_vectors
                and subject.get("split", "test") == "test"
                # A smoothed classifier is another model.
                and subject.get("around") is None
            ):
                yield stage

    def _certificates(self) -> Iterator[_WordCertificate]:
        for stage in self._word_stages():
            prefix, samples = f"{stage}/accuracy@", int(self.metrics[f"{stage}/samples"] or 0)
            ks = [name.removeprefix(prefix) for name in self.metrics if name.startswith(prefix)]
            clean = self.metrics.get(f"{stage}/accuracy")
            ks = [k for k in ks if k == "all" or k.isdecimal()]
            if not ks or not samples or clean is None:
                continue
            k = max(ks, key=lambda k: float("inf") if k == "all" else int(k))
            if (value := self.metrics[prefix + k]) is not None:
                statement = self.subjects.get(stage, {}).get("threat", {}).get("statement", "")
                yield _WordCertificate(
                    stage, k, _share(clean, samples), _share(value, samples), str(statement)
                )

    @property
    def counted(self) -> list[_Attack]:
        """Attacks that tell robustness: reliable, and free to reach any class."""
        return [attack for attack in self.attacks if not attack.unreliable and not attack.target]

    @property
    def strongest(self) -> _Attack | None:
        """The attack that changes the largest share of right predictions."""
        return max(self.counted, key=lambda attack: attack.changed.value, default=None)

    @property
    def best_certificate(self) -> _WordCertificate | None:
        """The certificate against the most sets; of several, that with the highest accuracy."""
        ranks = {(c.stage.count("+"), c.accuracy.value): c for c in self.certificates}
        return ranks[max(ranks)] if ranks else None

    @property
    def collapsed(self) -> bool:
        """True if it predicts one class for nearly all texts."""
        return self.absorbed is not None and self.absorbed >= COLLAPSED

    @property
    def level(self) -> Level:
        """The level, see `Level`."""
        accuracy, least = self.accuracy, self.majority or 0.0
        assert accuracy is not None  # see `judge`
        if self.collapsed:
            return "collapsed"
        if accuracy.low <= least:
            return "weak"
        attack, certificate = self.strongest, self.best_certificate
        if attack is not None:
            if attack.changed.value >= FRAGILE or attack.accuracy.value <= least:
                return "fragile"
            resists = all(a.changed.high <= ROBUST and a.accuracy.low > least for a in self.counted)
            # Inside a threat few changes are tried: that breaks a model, and shows no robustness.
            resists = resists and not all(a.inside for a in self.counted)
            return "robust" if resists else "partial"
        if certificate is None or certificate.accuracy.low <= least:
            return "untested"
        return "robust" if certificate.kept.low >= 1 - ROBUST else "partial"

    def headline(self, level: Level, class_names: Sequence[str]) -> str:
        """Return the verdict in one sentence."""
        accuracy, attack, best = self.accuracy, self.strongest, self.best_certificate
        assert accuracy is not None  # see `judge`
        if level == "collapsed":
            made = self.predictions
            number = -1 if made is None else made.largest[0]
            name = f", {class_names[number]!r}" if 0 <= number < len(class_names) else ""
            often = f" ({100 * (self.largest or 1):.1f} % of the texts{name})"
            return f"Collapsed: {MEANINGLESS.replace('only', f'only{often}', 1)}."
        clean = f"accuracy {accuracy.value:.3f} on {_count(accuracy)}clean texts"
        majority = self.majority or 0.0
        if level == "weak":
            return f"Weak: {clean}, not clearly above {_ALWAYS} ({majority:.3f})."
        certified = "" if best is None else best.text
        if level == "untested":
            blind = [attack.name for attack in self.attacks if attack.unreliable]
            untried = "no attack in words was tried" if certified else _UNTESTED
            reason = f"its attacks saw no difference: {', '.join(blind)}" if blind else untried
            reasons = self.flips or [reason]
            why = "; ".join([*reasons, certified] if certified else reasons)
            return f"Untested: {clean} ({_ALWAYS}: {majority:.3f}); {why}."
        if attack is None:
            start = "Robust by proof" if level == "robust" else "Partly robust by proof"
            return f"{start}: {certified}, {clean}."
        number = len(self.counted)
        tried = " to the attack tried" if number == 1 else f" to the {number} attacks tried"
        robust = f"Robust{tried}"
        start = {"fragile": "Fragile", "partial": "Partly robust", "robust": robust}[level]
        strongest = f"{attack.name}, the strongest" if number > 1 else attack.name
        strongest += f" (only changes of {attack.inside})" if attack.inside else ""
        under = f"accuracy {attack.accuracy.value:.3f} under {strongest}, {attack.clean.value:.3f} "
        under += f"without attack ({attack.clean.count:,} texts)"
        return f"{start}: {under}{f'; {certified}' if certified else ''}."

    def cautions(self) -> Iterator[str]:
        """Yield sentences that readers need next to the figures."""
        accuracy, bag = self.accuracy, self.metrics.get("test/bag_accuracy")
        assert accuracy is not None  # see `judge`
        if bag is not None and accuracy.high < bag:
            yield f"A bag of words, trained in seconds, has a higher accuracy: {bag:.3f}."
        # Where nothing else was tried, the verdict has them.
        yield from (f"{flip}." for flip in self.flips if self.level != "untested")
        for attack in self.attacks:
            if not attack.clean.low <= accuracy.value <= attack.clean.high:
                yield (
                    f"{attack.name} attacked {attack.clean.count:,} texts that are not like the "
                    f"others: accuracy {attack.clean.value:.3f} on them without attack, "
                    f"{accuracy.value:.3f} on all."
                )

    # The figures

    def figures(self) -> Iterator[VerdictFigure]:
        """Yield the figures, in the order of tables."""
        void = MEANINGLESS if self.collapsed else ""
        yield from self._clean()
        yield from self._detection()
        for attack in self.attacks:
            yield _figure(
                f"attack/{attack.name}/accuracy",
                f"Accuracy under {attack.name}",
                attack.accuracy,
                Reference(title="the same texts without attack", value=attack.clean.value),
                kind="attack",
                note=void or attack.note,
                doubted=bool(void) or attack.unreliable,
            )
        for certificate in self.certificates:
            yield _figure(
                f"{certificate.stage}/accuracy@{certificate.k}",
                f"Certified against {certificate.changes}",
                certificate.accuracy,
                Reference(title="the same texts without changes", value=certificate.clean.value),
                kind="words",
                note=void or certificate.statement,
                doubted=bool(void),
            )
        yield from self._vectors(void)

    def _clean(self) -> Iterator[VerdictFigure]:
        bag = self._references("a bag of words", "test/bag_accuracy")
        always = () if self.majority is None else (Reference(title=_ALWAYS, value=self.majority),)
        if self.accuracy is not None:
            title = "Accuracy on clean texts"
            yield _figure("test/accuracy", title, self.accuracy, *always, *bag, kind="clean")
        for name, title in _SCORES.items():
            if (value := self.metrics.get(f"test/{name}")) is not None:
                yield _figure(
                    f"test/{name}",
                    title,
                    score_interval(self.metrics, name) or _share(value, None),
                    *self._references("a bag of words", f"test/bag_{name}"),
                    count=self.count,
                    kind="calibration" if name in ("ece", "brier") else "clean",
                )
        if self.largest is not None:
            title, share = "Share of its most frequent prediction", _share(self.largest, self.count)
            yield _figure("test/largest_class", title, share, *always, kind="clean")

    def _detection(self) -> Iterator[VerdictFigure]:
        """Yield the figures of a detector: at its threshold, and of its ranking."""
        counts = {
            name: int(self.metrics.get(f"test/{name}") or 0) for name in ("positives", "negatives")
        }
        for name, (title, of) in _DETECTION.items():
            value = self.metrics.get(f"test/{name}")
            # Older or other models have none; texts of one class have no ranking.
            if value is None or not any(counts.values()):
                continue
            count = sum(counts.values()) if of is None else counts[of]
            share = _share(value, None if of is None else count)
            estimate = score_interval(self.metrics, name) or share
            yield _figure(f"test/{name}", title, estimate, kind="detection", count=count)

    def _references(self, title: str, name: str) -> tuple[Reference, ...]:
        """Return a metric as a reference, if there is one."""
        value = self.metrics.get(name)
        return () if value is None else (Reference(title=title, value=value),)

    def _vectors(self, void: str) -> Iterator[VerdictFigure]:
        """Yield accuracy under PGD and mean radii, which are about vectors, not about words."""
        pgd, epsilon = (self.metrics.get(f"test/pgd_{n}") for n in ("accuracy", "epsilon"))
        if pgd is not None:
            yield _figure(
                "test/pgd_accuracy",
                f"Accuracy under PGD{f', epsilon {epsilon:g}' if epsilon is not None else ''}",
                _share(pgd, self.count),
                *self._references("the same texts without attack", "test/accuracy"),
                kind="radius",
                note=void or "moves vectors of words, not words",
            )
        for bound in BOUNDS:
            value = self.metrics.get(f"{bound.stage}/radius_correct")
            if value is not None and bound.proven:
                yield VerdictFigure(
                    name=f"{bound.stage}/radius_correct",
                    kind="radius",
                    title=f"Mean certified radius{bound.by}",
                    value=value,
                    count=self.count,
                    note=void or "a distance between vectors of words; 0 where the model is wrong",
                )


def keeps_prediction(recipe: Any) -> bool:
    """Return True for input reduction, and for the file of an attack with its goal."""
    goal = recipe.get("goal") if isinstance(recipe, Mapping) else None
    path = goal.get("class_path") if isinstance(goal, Mapping) else None
    return recipe == "input-reduction" or str(path).rpartition(".")[2] == "Unchanged"


def _labelled(record: Any) -> bool:
    """Return True for a record of one predicted class with its label."""
    if not isinstance(record, Mapping):
        return False
    # Not `isinstance`: a bool is an int, too.
    return type(record.get("label")) is int and type(record.get("prediction")) is int


def _share(value: float, count: int | None) -> IntervalEstimate:
    """Return a share of so many texts; with a count of 0 and no interval if it is unknown."""
    if not count:
        return IntervalEstimate(value, value, value, 0)
    return wilson(max(0, min(count, round(value * count))), count)


def _figure(
    name: str,
    title: str,
    estimate: IntervalEstimate,
    *references: Reference,
    kind: FigureKind,
    note: str = "",
    count: int | None = None,
    doubted: bool = False,
) -> VerdictFigure:
    """Return a figure of an estimate; `count` is the number of its texts, if it is another."""
    low, high = (estimate.low, estimate.high) if estimate.count else (None, None)
    return VerdictFigure(
        name=name,
        kind=kind,
        title=title,
        value=estimate.value,
        low=low,
        high=high,
        count=count or estimate.count or None,
        references=references,
        note=note,
        doubted=doubted,
    )


def _count(estimate: IntervalEstimate) -> str:
    """Return the number of texts, with a space; "" if it is unknown."""
    return f"{estimate.count:,} " if estimate.count else ""
