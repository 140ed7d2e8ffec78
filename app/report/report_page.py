"""Brings the evidence of runs together, and writes the page and its pictures."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from app.attack.attack_report import class_name, pairs
from app.cli.terminal import harmless
from app.report import report_pictures as pictures
from app.report.clean_figures import (
    Bin,
    ClassFigures,
    calibration_error,
    class_figures,
    confidence,
    confusion,
    macro_f1,
    reliability,
)
from app.report.evidence import PROVEN, Attacked, Evidence, Measured, read_evidence
from app.report.page_parts import (
    WORST,
    Cell,
    Worst,
    estimate_cell,
    interval,
    share_cell,
    shortened,
    shown,
)
from app.report.report_pictures import Curve, Picture
from app.report.sandwich import Ball, Found, Layers, sandwich, steps
from app.report.words_part import InWords, contradiction, in_words
from app.runs import atomic
from app.runs.run_directory import RunDirectory
from app.runs.sample_records import Record
from app.runs.summary_table import notes
from app.runs.weights import SHORT
from attacks.outcome import AttackRecord
from attacks.summary import mean, remarks, wilson

if TYPE_CHECKING:
    from jinja2 import Template

PAGE = "report.html"
_OTHERS = ("f1", "spearman", "pearson", "bits_per_character", "loss")
"""Figures of `test` that are shown without an interval."""


@dataclass(frozen=True)
class Clean:
    """The answers to texts as they are.

    Attributes:
        file: the records they are from.
        names: of the classes.
        counts: `[C, C]`, see `confusion`.
        figures: of each class.
        macro: mean F1.
    """

    file: str
    names: Sequence[str]
    counts: Sequence[Sequence[int]]
    figures: Sequence[ClassFigures]
    macro: float | None


@dataclass(frozen=True)
class Calibration:
    """The confidence of predictions.

    Attributes:
        bins: of the reliability diagram.
        error: expected calibration error.
        count: texts.
        picture: the diagram.
    """

    bins: Sequence[Bin]
    error: float
    count: int
    picture: Picture


@dataclass(frozen=True)
class TextAttack:
    """A text attack against the certificates.

    Attributes:
        name: of the attack.
        changed: certified texts whose prediction it has changed.
        comparable: those among them whose embedded texts have a known distance.
        inside: those among them inside their certificate.
        why: reason that nothing could be compared; "" where it could.
    """

    name: str
    changed: int
    comparable: int
    inside: int
    why: str = ""


@dataclass
class Checked:
    """The sandwich of a run.

    Attributes:
        layers: of each certified text.
        epsilon: radius of PGD; None where PGD is not comparable.
        pgd_why: reason for that.
        proven: texts whose certificate reaches beyond `epsilon`.
        changed: texts that PGD has changed.
        attacks: text attacks.
        picture: of all texts; None where nothing is certified.
        distances: of attacked texts, by attack and sample.
    """

    layers: Sequence[Layers]
    epsilon: float | None = None
    pgd_why: str = ""
    proven: int = 0
    changed: int = 0
    attacks: list[TextAttack] = field(default_factory=list)
    picture: Picture | None = None
    distances: dict[tuple[str, int], float] = field(default_factory=dict)

    @property
    def broken(self) -> list[Layers]:
        """The texts that an attack has changed inside their certificate."""
        return [one for one in self.layers if one.broken]

    @property
    def compared(self) -> bool:
        """True if there is an attack that certificates could be held against."""
        return self.epsilon is not None or any(not one.why for one in self.attacks)

    @property
    def rounded(self) -> int:
        """Texts at which only rounding could tell."""
        return sum(one.rounded > 0 and not one.broken for one in self.layers)

    @property
    def tightest(self) -> list[Layers]:
        """Texts whose certificate reaches nearest to the next known change."""
        known = [one for one in self.layers if one.above is not None and one.ball.radius > 0]
        known = [one for one in known if one.above is not None and one.above.distance > 0]
        return sorted(
            known,
            key=lambda one: (_ratio(one) * -1, one.ball.sample_id),
        )[:WORST]


@dataclass(frozen=True)
class Section:
    """All that the page says of one run.

    Attributes:
        evidence: the run.
        clean: answers to texts as they are; None where not known.
        calibration: None where not known.
        checked: the sandwich; None without certificates.
        in_words: certificates in words.
        worst: pairs of each attack, by its name.
        missing: what was not measured, and the command that measures it ("" if none does).
        remarks: on the figures.
    """

    evidence: Evidence
    clean: Clean | None
    calibration: Calibration | None
    checked: Checked | None
    in_words: Sequence[InWords]
    worst: Mapping[str, Sequence[Worst]]
    missing: Sequence[tuple[str, str]]
    remarks: Sequence[str]

    @property
    def name(self) -> str:
        """Name of the run."""
        return self.evidence.run.name


class Written(NamedTuple):
    """A report that has been written.

    Attributes:
        page: the HTML file.
        contradictions: a sentence for each run with a text that an attack changes inside its
            certificate.
    """

    page: Path
    contradictions: Sequence[str]


def write_report(runs: Sequence[RunDirectory], folder: Path | None = None) -> Written:
    """Writes the page and its pictures.

    Args:
        runs: at least one; they stand side by side.
        folder: its place; `report` in the first run if not given, for several runs
            `report_with_` and the names of the others.

    Raises:
        ValueError: a file of a run holds something else than it should.
        OSError: the files cannot be written.
    """
    if folder is None:
        others = "_".join(run.name for run in runs[1:])
        folder = runs[0].path / (f"report_with_{others}" if others else "report")
    if folder.is_dir():
        atomic.sweep(folder, older_than=600)
    sections = [_section(read_evidence(run), i) for i, run in enumerate(runs)]
    common = list(_common(sections))
    every = common + [
        picture
        for one in sections
        for picture in (
            one.calibration and one.calibration.picture,
            one.checked and one.checked.picture,
        )
        if picture
    ]
    for picture in every:
        atomic.write_text(folder / f"{picture.name}.svg", picture.svg)
    page = folder / PAGE
    atomic.write_text(page, _rendered(sections, {one.name: one for one in common}))
    said = [
        f"run {one.name}: an attack has changed {len(one.checked.broken)} of "
        f"{len(one.checked.layers)} texts inside their certificate"
        for one in sections
        if one.checked is not None and one.checked.broken
    ]
    said += [
        f"run {one.name}: {contradiction(found)}"
        for one in sections
        for found in one.in_words
        if found.broken
    ]
    return Written(page, said)


@cache
def _template() -> "Template":
    """The page, compiled."""
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    # Texts come from strangers: everything is escaped, but for our own pictures and style.
    environment = Environment(
        loader=FileSystemLoader(Path(__file__).parent),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=lambda one: harmless(one) if type(one) is str else one,
    )
    environment.filters["number"] = shown
    environment.filters["ratio"] = _ratio
    return environment.get_template("report.html.j2")


def _rendered(sections: Sequence[Section], common: Mapping[str, Picture]) -> str:
    style = (Path(__file__).parent / "report.css").read_text(encoding="utf-8")
    return _template().render(
        sections=sections,
        broken=[one for one in sections if one.checked is not None and one.checked.broken],
        contradicted=[
            (one.name, contradiction(found))
            for one in sections
            for found in one.in_words
            if found.broken
        ],
        facts=_facts(sections),
        settings=_settings(sections),
        figures=_figures(sections),
        attacks=_attack_rows(sections),
        common=common,
        style=style,
    )


# One run


def _section(evidence: Evidence, number: int) -> Section:
    clean = _clean(evidence)
    calibration = _calibration(evidence, number)
    checked = _checked(evidence, number)
    return Section(
        evidence=evidence,
        clean=clean,
        calibration=calibration,
        checked=checked,
        in_words=list(in_words(evidence)),
        worst={one.name: _worst(evidence, one, checked) for one in evidence.attacks},
        missing=list(_missing(evidence)),
        remarks=list(_remarks(evidence)),
    )


def _answered(evidence: Evidence) -> Measured | None:
    """The records with the answer to each text of the test split, and its class."""
    every = (evidence.pgd, evidence.predictions, evidence.certificates)
    return next((one for one in every if one is not None and _labelled(one.records)), None)


def _labelled(records: Sequence[Record]) -> bool:
    """True if each sample has one class and one prediction."""
    return all(
        type(record.get("label")) is int and type(record.get("prediction")) is int
        for record in records
    )


def _clean(evidence: Evidence) -> Clean | None:
    found = _answered(evidence) if evidence.classifies else None
    if found is None:
        return None
    labels = [record["label"] for record in found.records]
    predictions = [record["prediction"] for record in found.records]
    counts = confusion(labels, predictions, len(evidence.class_names))
    names = [evidence.class_name(i) for i in range(len(counts))]
    figures = class_figures(counts)
    return Clean(found.file, names, counts, figures, macro_f1(figures))


def _calibration(evidence: Evidence, number: int) -> Calibration | None:
    found = evidence.predictions
    if found is None or not evidence.classifies or not _labelled(found.records):
        return None
    if not all(_finite(record.get("logits")) for record in found.records):
        return None
    sure = [confidence(record["logits"]) for record in found.records]
    bins = reliability(sure, [one["label"] == one["prediction"] for one in found.records])
    error = calibration_error(bins)
    if error is None:
        return None
    picture = pictures.reliability_picture(f"reliability-{number + 1}", bins, error)
    return Calibration(bins, error, len(sure), picture)


def _finite(logits: Any) -> bool:
    return (
        isinstance(logits, list)
        and len(logits) > 1
        and all(isinstance(one, int | float) and math.isfinite(one) for one in logits)
    )


# The sandwich


def _checked(evidence: Evidence, number: int) -> Checked | None:
    proven = evidence.certificates
    if proven is None:
        return None
    balls = [
        Ball(
            one["sample_id"],
            one["prediction"],
            float(one["radius"]),
            math.inf if one["lipschitz"] is None else float(one["lipschitz"]),
        )
        for one in proven.records
    ]
    found = Checked([])
    points = [*_pgd_points(evidence, balls, found), *_text_points(evidence, balls, found)]
    found.layers = sandwich(balls, points)
    if any(ball.radius > 0 for ball in balls):
        found.picture = pictures.sandwich_picture(f"sandwich-{number + 1}", found.layers)
    return found


def _pgd_points(evidence: Evidence, balls: Sequence[Ball], found: Checked) -> Iterator[Found]:
    pgd, proven = evidence.pgd, evidence.certificates
    if pgd is None or proven is None:
        found.pgd_why = "PGD was not run"
        return
    about = pgd.about.get("pgd") or {}
    if about.get("norm") != "l2" or not isinstance(about.get("epsilon"), int | float):
        found.pgd_why = "PGD was not run in the l2 norm of certificates"
        return
    if pgd.rows is None or pgd.rows != proven.rows:
        found.pgd_why = "PGD and certificates are not of the same rows"
        return
    epsilon = found.epsilon = float(about["epsilon"])
    of = {ball.sample_id: ball for ball in balls}
    found.proven = sum(ball.radius > epsilon for ball in balls)
    for one in pgd.records:
        sample, ball = one["sample_id"], of.get(one["sample_id"])
        found.changed += ball is not None and one["pgd_prediction"] != ball.prediction
        yield Found(sample, "no attack, in float32", 0.0, one["prediction"])
        yield Found(sample, "PGD", epsilon, one["pgd_prediction"])


def _text_points(evidence: Evidence, balls: Sequence[Ball], found: Checked) -> Iterator[Found]:
    of = {ball.sample_id: ball for ball in balls}
    proven = evidence.certificates
    for attack in evidence.attacks:
        changed = [
            one
            for one in attack.records
            if one.adversarial_prediction is not None
            and one.sample_id in of
            and one.adversarial_prediction != of[one.sample_id].prediction
        ]
        if attack.rows is None or proven is None or attack.rows != proven.rows:
            why = "not of the same rows as the certificates"
            found.attacks.append(TextAttack(attack.name, len(changed), 0, 0, why))
            continue
        for one in attack.records:
            if one.prediction is not None:
                yield Found(one.sample_id, f"{attack.name}, clean text", 0.0, one.prediction)
        distances, why = _distances(evidence, changed)
        known = [
            Found(one.sample_id, attack.name, distance, one.adversarial_prediction)
            for one, distance in zip(changed, distances, strict=True)
            if distance is not None and one.adversarial_prediction is not None
        ]
        found.distances |= {(attack.name, one.sample_id): one.distance for one in known}
        inside = sum(one.distance < of[one.sample_id].radius for one in known)
        found.attacks.append(TextAttack(attack.name, len(changed), len(known), inside, why))
        yield from known


def _distances(
    evidence: Evidence, records: Sequence[AttackRecord]
) -> tuple[list[float | None], str]:
    """Distances of the embedded texts, and why there are none."""
    if not records:
        return [], ""
    if not evidence.run.chosen.is_file():
        return [None] * len(records), "the checkpoint is not in the run"
    from app.report.embedded_distances import embedded_distances

    try:
        return embedded_distances(evidence.run.chosen, records), ""
    # A backbone, a resource or a class of one's own may not be here.
    except Exception as error:
        return [None] * len(records), f"the model cannot be loaded ({error})"


def _ratio(layers: Layers) -> float:
    """The certified radius over the distance of the nearest known change."""
    if layers.above is None or layers.above.distance <= 0:
        return math.inf
    return layers.ball.radius / layers.above.distance


# Texts


def _worst(evidence: Evidence, attack: Attacked, checked: Checked | None) -> list[Worst]:
    radii = {} if checked is None else {one.ball.sample_id: one.ball for one in checked.layers}
    inside = {
        (point.by, one.ball.sample_id)
        for one in ([] if checked is None else checked.broken)
        for point in one.broken
    }

    def order(one: AttackRecord) -> tuple[bool, float, int, int]:
        share = one.words_changed / one.words if one.words else 0.0
        return (attack.name, one.sample_id) not in inside, share, one.queries, one.sample_id

    made = []
    succeeded = [one for one in attack.records if one.outcome == "succeeded"]
    for one in sorted(succeeded, key=order)[:WORST]:
        facts = [f"{one.words_changed} of {one.words} words", f"{one.queries} queries"]
        if one.similarity is not None:
            facts.append(f"similarity {one.similarity:.3f}")
        distance = None if checked is None else checked.distances.get((attack.name, one.sample_id))
        if distance is not None:
            radius = radii[one.sample_id].radius
            facts.append(f"distance {distance:.3g}, certified radius {radius:.3g}")
        before, after = zip(*pairs(one), strict=True)
        classes = [one.prediction, one.adversarial_prediction]
        named = [class_name(c, evidence.class_names) for c in classes if c is not None]
        made.append(
            Worst(
                title=f"sample {one.sample_id}: {' → '.join(named)}",
                facts=facts,
                before=[shortened(pieces) for pieces in before],
                after=[shortened(pieces) for pieces in after],
                broken=(attack.name, one.sample_id) in inside,
            )
        )
    return made


# What is missing


def _missing(evidence: Evidence) -> Iterator[tuple[str, str]]:
    run, metrics = evidence.run.name, evidence.metrics
    if not any(name.startswith("test/") for name in metrics):
        yield "The test split", f"python -m steadfast test --run {run}"
    if not evidence.classifies:
        yield (
            f"Confusion matrix, calibration, certificates, attacks: not for a {_task(evidence)}",
            "",
        )
        return
    if evidence.predictions is None:
        yield "Calibration: it needs probabilities", f"python -m steadfast predict --run {run}"
    if evidence.certificates is None:
        reason = None if evidence.results is None else evidence.results.get("no_certificate")
        if reason is None:
            yield "Certified radii", f"python -m steadfast certify --run {run}"
        else:
            yield f"Certified radii: {reason}", ""
    if evidence.pgd is None and any(name.startswith("test/") for name in metrics):
        yield "Accuracy under PGD, text by text", f"python -m steadfast test --run {run}"
    if not evidence.attacks:
        yield (
            "Attacks that change words",
            f"python -m steadfast attack --run {run} --attack textfooler",
        )


def _task(evidence: Evidence) -> str:
    return {"choice": "multiple choice"}.get(evidence.task or "", evidence.task or "model")


def _remarks(evidence: Evidence) -> Iterator[str]:
    if evidence.results is not None:
        yield from notes(evidence.results).splitlines()
    for attack in evidence.attacks:
        yield from remarks(attack.name, attack.summary)


# Tables with a column for each run


Row = tuple[str, list[Cell | None]]


def _facts(sections: Sequence[Section]) -> list[Row]:
    every = [_facts_of(one.evidence) for one in sections]
    names = dict.fromkeys(name for facts in every for name in facts)
    return [(name, [_cell(facts.get(name)) for facts in every]) for name in names]


def _cell(text: str | None) -> Cell | None:
    return None if text is None else Cell(text)


def _facts_of(evidence: Evidence) -> dict[str, str]:
    results, settings = evidence.results, evidence.settings
    stage = next((one for one in evidence.about.values() if "step" in one), {})
    facts = {
        "method": results["method"] if results else _class(settings, "model"),
        "trained on": results["corpus"] if results else _class(settings, "data"),
        "task": evidence.task or "unknown",
        "classes": ", ".join(evidence.class_names),
        "seed": str(results["seed"] if results else settings.get("seed_everything", "unknown")),
        "weights": evidence.run.chosen.name if evidence.run.chosen.is_file() else "not in the run",
        "epoch, step": f"{stage['epoch']}, {stage['step']}" if stage else "",
        "SHA-256 of the weights": evidence.weights[:SHORT],
    }
    if results is not None:
        seconds = results["seconds"]
        facts["training"] = f"{seconds['fit']:.0f} s" if "fit" in seconds else "has not ended"
        rows = {
            found
            for one in evidence.about.values()
            for found in [(one.get("rows") or {}).get("test")]
            if found
        }
        facts["rows of the test"] = ", ".join(sorted(one[:SHORT] for one in rows))
        versions = results["versions"]
        wanted = ("steadfast", "revision", "torch", "python")
        facts["measured with"] = ", ".join(f"{k} {versions[k]}" for k in wanted if k in versions)
    return {name: fact for name, fact in facts.items() if fact}


def _class(settings: Mapping[str, Any], part: str) -> str:
    found = settings.get(part)
    path = found.get("class_path") if isinstance(found, Mapping) else found
    return str(path).rpartition(".")[2] if path else "unknown"


def _settings(sections: Sequence[Section]) -> list[tuple[str, list[str], bool]]:
    """Settings of model, data and trainer: name, value in each run, True if they differ."""
    from app.study.reuse import HARMLESS, leaves

    parts = ("model", "data", "trainer", "early_stopping")
    every = [
        leaves({key: one.evidence.settings[key] for key in parts if key in one.evidence.settings})
        for one in sections
    ]
    found = []
    for name in dict.fromkeys(name for one in every for name in one):
        if name in HARMLESS:
            continue
        values = [str(one[name]) if name in one else "–" for one in every]
        differ = len(set(values)) > 1
        # Lightning has many settings that nobody has set.
        if name.startswith("trainer.") and values == ["None"] * len(values):
            continue
        found.append((name.replace(".init_args", ""), values, differ))
    return found


def _figures(sections: Sequence[Section]) -> list[Row]:
    every = [_figures_of(one) for one in sections]
    names = dict.fromkeys(name for figures in every for name in figures)
    return [(name, [figures.get(name) for figures in every]) for name in names]


def _titled(name: str, evidence: Evidence) -> str:
    """Returns the title of a figure; F1 is of a class, or of the entities of a tagging."""
    if name != "f1" or not evidence.classifies:
        return name.replace("_", " ")
    of_class = None if evidence.results is None else evidence.results.get("positive")
    if of_class is None and len(evidence.class_names) == 2:
        of_class = evidence.class_names[1]
    return "F1" if of_class is None else f"F1 of {of_class}"


def _figures_of(section: Section) -> dict[str, Cell]:
    evidence, found = section.evidence, {}
    metrics = evidence.metrics
    if "test/accuracy" in metrics:
        answered = _answered(evidence) if evidence.classifies else None
        count = 0 if answered is None else len(answered.records)
        found["accuracy"] = share_cell(metrics["test/accuracy"], count)
    macro = metrics.get("test/macro_f1") if section.clean is None else section.clean.macro
    if macro is not None:
        found["F1, mean of the classes"] = Cell(shown(macro))
    for name in _OTHERS:
        if f"test/{name}" in metrics:
            found[_titled(name, evidence)] = Cell(shown(metrics[f"test/{name}"]))
    if section.calibration is not None:
        error = section.calibration.error
        found["expected calibration error"] = Cell(shown(error))
    epsilon = metrics.get("test/pgd_epsilon")
    if "test/pgd_accuracy" in metrics:
        count = len(evidence.pgd.records) if evidence.pgd is not None else 0
        title = "accuracy under PGD" + (f", eps {epsilon:g}" if epsilon is not None else "")
        found[title] = share_cell(metrics["test/pgd_accuracy"], count)
    found |= _certified_figures(evidence) | _figures_in_words(evidence)
    if evidence.attacks:
        lowest = min(evidence.attacks, key=lambda one: one.summary.accuracy.value)
        found["accuracy under the strongest text attack"] = Cell(
            f"{shown(lowest.summary.accuracy.value)} ({lowest.name})",
            interval(lowest.summary.accuracy),
        )
        # Not that of all texts: an attack may be about few of them.
        clean = estimate_cell(lowest.summary.clean_accuracy)
        found["accuracy on the texts of that attack, before it"] = clean
    return found


def _certified_figures(evidence: Evidence) -> dict[str, Cell]:
    if evidence.certificates is None:
        return {}
    found, records = {}, evidence.certificates.records
    if _labelled(records):
        right = [one["radius"] * (one["label"] == one["prediction"]) for one in records]
        found["mean certified radius, 0 where wrong"] = estimate_cell(mean(right))
    else:
        radii = [float(one["radius"]) for one in records]
        found["mean certified radius, right or wrong"] = estimate_cell(mean(radii))
    for name, value in evidence.metrics.items():
        stage, _, radius = name.partition("/accuracy@")
        if radius and stage in PROVEN:
            found[f"certified accuracy at radius {radius}"] = share_cell(value, len(records))
    return found


def _figures_in_words(evidence: Evidence) -> dict[str, Cell]:
    """Accuracy and certified accuracy of each `certify --threat` on the test split."""
    found = {}
    for stage, about in evidence.about.items():
        count = evidence.metrics.get(f"{stage}/samples")
        if "threat" not in about or about.get("split") != "test" or count is None:
            continue
        name, around = stage.removeprefix("certify_"), about.get("around") or {}
        sure = f", with confidence {1 - around['alpha']:g}" if "alpha" in around else ""
        for key in ("accuracy", *(f"accuracy@{k}" for k in about["k"])):
            k = key.partition("@")[2]
            title = f"certified accuracy, k = {k}{sure}" if k else key
            if k and "bound" in around:
                title = f"accuracy, k = {k}, by a formula as printed (no guarantee)"
            found[f"{name}: {title}"] = share_cell(
                evidence.metrics.get(f"{stage}/{key}"), int(count)
            )
    return found


class AttackRow(NamedTuple):
    """A row of the table of attacks.

    Attributes:
        attack: its name.
        run: name of the run.
        accuracy: under attack.
        clean: accuracy of the same texts without attack.
        success: share of the attacked texts that it has changed.
        words: mean share of the words changed, of the changed texts.
        queries: per attacked text.
        unreliable: True if the accuracy is no measure of robustness.
    """

    attack: str
    run: str
    accuracy: Cell
    clean: Cell
    success: Cell
    words: Cell
    queries: str
    unreliable: bool


def _attack_rows(sections: Sequence[Section]) -> list[AttackRow]:
    rows = [
        AttackRow(
            attack=one.name,
            run=section.name,
            accuracy=estimate_cell(one.summary.accuracy),
            clean=estimate_cell(one.summary.clean_accuracy),
            success=estimate_cell(one.summary.success_rate),
            words=estimate_cell(one.summary.words_changed),
            queries="–" if one.summary.queries is None else f"{one.summary.queries.value:.1f}",
            unreliable=one.summary.unreliable,
        )
        for section in sections
        for one in section.evidence.attacks
    ]
    return sorted(rows, key=lambda row: row.attack)  # of one attack, runs keep their order


# Pictures of all runs


def _common(sections: Sequence[Section]) -> Iterator[Picture]:
    curves = [_curve(one.evidence) for one in sections]
    curves = [one for one in curves if one.steps is not None or one.attacked]
    if curves:
        yield pictures.curve_picture("accuracy-over-radius", curves)
    attacks = {
        one.name: {attack.name: attack.summary.accuracy for attack in one.evidence.attacks}
        for one in sections
        if one.evidence.attacks
    }
    if attacks:
        yield pictures.attacks_picture("attacks", attacks)


def _curve(evidence: Evidence) -> Curve:
    proven, pgd, attacked = evidence.certificates, evidence.pgd, []
    certified = None
    if proven is not None and _labelled(proven.records):
        right = [one["label"] == one["prediction"] for one in proven.records]
        certified = steps([float(one["radius"]) for one in proven.records], right)
    about = {} if pgd is None else pgd.about.get("pgd") or {}
    if pgd is not None and about.get("norm") == "l2":
        hits = sum(one["label"] == one["prediction"] for one in pgd.records)
        standing = sum(bool(one["survived"]) for one in pgd.records)
        count = len(pgd.records)
        attacked = [(0.0, wilson(hits, count)), (float(about["epsilon"]), wilson(standing, count))]
    return Curve(evidence.run.name, certified, attacked)
