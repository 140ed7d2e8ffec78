"""Combines the evidence of runs, and writes the page and its pictures."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from app.report import report_pictures as pictures
from app.report.clean_part import (
    Calibration,
    CleanFigures,
    calibrate,
    count_clean,
    is_labelled,
    labelled_records,
)
from app.report.page_parts import (
    WORST,
    FigureCell,
    TextPair,
    estimate_cell,
    format_interval,
    format_number,
    share_cell,
    shorten,
)
from app.report.report_pictures import AccuracyCurve, Picture
from app.report.sandwich import steps
from app.report.sandwich_part import SandwichCheck, check_sandwich
from app.report.words_part import (
    ThreatCertificates,
    changes_of,
    contradiction,
    threat_certificates,
    words_picture,
)
from attacks.outcome import AttackRecord
from attacks.summary import mean, remarks, wilson
from measure.attack_report import class_name, pairs
from measure.evidence import PROVEN, AttackEvidence, Evidence, read_evidence
from run_files import atomic
from run_files.harmless_settings import HARMLESS_IN_FIGURES
from run_files.run_directory import RunDirectory
from run_files.summary_table import notes
from run_files.terminal import harmless
from run_files.weights import SHORT
from text.plural import plural
from text.subjects import flat

if TYPE_CHECKING:
    from jinja2 import Template

T = TypeVar("T")
PAGE = "report.html"
_TEST_METRICS = ("f1", "spearman", "pearson", "bits_per_character", "loss")
"""Metrics of `test` that are shown without an interval."""


@dataclass(frozen=True)
class Section:
    """The contents of the page about one run; None for parts that were not measured."""

    evidence: Evidence
    clean: CleanFigures | None
    calibration: Calibration | None
    sandwich: SandwichCheck | None
    in_words: Sequence[ThreatCertificates]
    words_picture: Picture | None
    # Text pairs by the name of the attack.
    worst: Mapping[str, Sequence[TextPair]]
    # Missing measurements, each with its command.
    missing: Sequence[tuple[str, str]]
    remarks: Sequence[str]

    @property
    def name(self) -> str:
        """Name of the run."""
        return self.evidence.run.name


class ReportFiles(NamedTuple):
    """The HTML page, and a sentence for each contradicted certificate."""

    page: Path
    contradictions: Sequence[str]


def write_report(runs: Sequence[RunDirectory], folder: Path | None = None) -> ReportFiles:
    """Write the page and its pictures.

    Several runs are side by side. The default of `folder` is `report` in the first run, and for
    several runs `report_with_` and the names of the others.

    Raises:
        ValueError: a file of a run has unexpected content.
    """
    if folder is None:
        names = "_".join(run.name for run in runs[1:])
        folder = runs[0].path / (f"report_with_{names}" if names else "report")
    if folder.is_dir():
        # Files of a process that was killed while it wrote them.
        atomic.sweep(folder, older_than=600)
    sections = [_section(read_evidence(run), i) for i, run in enumerate(runs, 1)]
    common = list(_common_pictures(sections))
    parts = [part for s in sections for part in (s.calibration, s.sandwich) if part is not None]
    # The page embeds its pictures; the files are for papers and slides.
    of_words = (section.words_picture for section in sections)
    for picture in [*common, *of_words, *(part.picture for part in parts)]:
        if picture is not None:
            atomic.write_text(folder / f"{picture.name}.svg", picture.svg)
    page = folder / PAGE
    broken = [s for s in sections if s.sandwich is not None and s.sandwich.broken]
    in_words = [
        (section.name, contradiction(certificates))
        for section in sections
        for certificates in section.in_words
        if certificates.broken
    ]
    html = _template().render(
        sections=sections,
        broken=broken,
        contradicted=in_words,
        facts=_by_run([_facts(section.evidence) for section in sections]),
        settings=_settings(sections),
        figures=_by_run([_figures(section) for section in sections]),
        attacks=_attack_rows(sections),
        common={picture.name: picture for picture in common},
        style=(Path(__file__).parent / "report.css").read_text(encoding="utf-8"),
    )
    atomic.write_text(page, html)
    contradictions = [
        f"run {section.name}: an attack has changed {len(section.sandwich.broken)} of "
        f"{len(section.sandwich.texts)} texts inside their certificate"
        for section in broken
        if section.sandwich is not None
    ]
    return ReportFiles(page, contradictions + [f"run {name}: {text}" for name, text in in_words])


@cache
def _template() -> "Template":
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    # The texts are untrusted: all is escaped but our own pictures and style.
    environment = Environment(
        loader=FileSystemLoader(Path(__file__).parent),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=lambda value: harmless(value) if type(value) is str else value,
    )
    environment.filters["number"] = format_number
    environment.filters["changes"] = changes_of
    return environment.get_template("report.html.j2")


# One run


def _section(evidence: Evidence, number: int) -> Section:
    sandwich = check_sandwich(evidence, number)
    in_words = list(threat_certificates(evidence))
    return Section(
        evidence=evidence,
        clean=count_clean(evidence),
        calibration=calibrate(evidence, number),
        sandwich=sandwich,
        in_words=in_words,
        words_picture=words_picture(in_words, number),
        worst={attack.name: _worst(evidence, attack, sandwich) for attack in evidence.attacks},
        missing=list(_missing(evidence)),
        remarks=[
            *(notes(evidence.results).splitlines() if evidence.results is not None else ()),
            *(line for a in evidence.attacks for line in remarks(a.name, a.summary)),
        ],
    )


def _worst(
    evidence: Evidence, attack: AttackEvidence, sandwich: SandwichCheck | None
) -> list[TextPair]:
    """Return the changed texts inside their certificate, then those with the fewest changes."""
    # Samples that this attack has changed inside their certificate are `broken`.
    texts = {} if sandwich is None else {text.ball.sample_id: text for text in sandwich.texts}
    broken = {key for key, text in texts.items() if attack.name in {p.by for p in text.broken}}

    def order(record: AttackRecord) -> tuple[bool, float, int, int]:
        share = record.words_changed / record.words if record.words else 0.0
        return record.sample_id not in broken, share, record.queries, record.sample_id

    worst = []
    succeeded = [record for record in attack.records if record.outcome == "succeeded"]
    for record in sorted(succeeded, key=order)[:WORST]:
        sample = record.sample_id
        facts = [f"{record.words_changed} of {record.words} words", plural(record.queries, "query")]
        if record.similarity is not None:
            facts.append(f"similarity {record.similarity:.3f}")
        distance = None if sandwich is None else sandwich.distances.get((attack.name, sample))
        if distance is not None:
            radius = texts[sample].ball.radius
            facts.append(f"distance {distance:.3g}, certified radius {radius:.3g}")
        # A pair task has two texts per side.
        before, after = zip(*pairs(record), strict=True)
        classes = [record.prediction, record.adversarial_prediction]
        names = [class_name(c, evidence.class_names) for c in classes if c is not None]
        worst.append(
            TextPair(
                title=f"sample {sample}: {' → '.join(names)}",
                facts=facts,
                before=[shorten(pieces) for pieces in before],
                after=[shorten(pieces) for pieces in after],
                broken=sample in broken,
            )
        )
    return worst


def _missing(evidence: Evidence) -> Iterator[tuple[str, str]]:
    """Yield the missing measurements, each with its command ("" if there is none)."""
    command = f"python -m steadfast {{}} --run {evidence.run.name}"
    tested = any(name.startswith("test/") for name in evidence.metrics)
    if not tested:
        yield "The test split", command.format("test")
    if not evidence.classifies:
        task = {"choice": "multiple choice"}.get(evidence.task or "", evidence.task or "model")
        yield f"Confusion matrix, calibration, certificates, attacks: not for a {task}", ""
        return
    if evidence.predictions is None:
        yield "Calibration: it needs probabilities", command.format("predict")
    if evidence.certificates is None:
        reason = None if evidence.results is None else evidence.results.get("no_certificate")
        if reason is None:
            yield "Certified radii", command.format("certify")
        else:
            yield f"Certified radii: {reason}", ""
    if evidence.pgd is None and tested:
        yield "Accuracy under PGD, text by text", command.format("test")
    if not evidence.attacks:
        yield "Attacks that change words", f"{command.format('attack')} --attack textfooler"


# Tables with a column for each run


def _by_run(columns: Sequence[Mapping[str, T]]) -> list[tuple[str, list[T | None]]]:
    """Return rows of a name and its value in each run."""
    names = dict.fromkeys(name for column in columns for name in column)
    return [(name, [column.get(name) for column in columns]) for name in names]


def _facts(evidence: Evidence) -> dict[str, FigureCell]:
    results, settings = evidence.results, evidence.settings
    stages = evidence.subjects.values()
    stage = next((subject for subject in stages if "step" in subject), {})
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
        seconds, versions = results["seconds"], results["versions"]
        facts["training"] = f"{seconds['fit']:.0f} s" if "fit" in seconds else "has not ended"
        digests = {(subject.get("rows") or {}).get("test") for subject in stages}
        facts["rows of the test"] = ", ".join(sorted(d[:SHORT] for d in digests if d))
        names = [n for n in ("steadfast", "revision", "torch", "python") if n in versions]
        facts["measured with"] = ", ".join(f"{name} {versions[name]}" for name in names)
    return {name: FigureCell(fact) for name, fact in facts.items() if fact}


def _class(settings: Mapping[str, Any], part: str) -> str:
    setting = settings.get(part)
    path = setting.get("class_path") if isinstance(setting, Mapping) else setting
    return str(path).rpartition(".")[2] if path else "unknown"


def _settings(sections: Sequence[Section]) -> list[tuple[str, list[str], bool]]:
    """Return settings of model, data and trainer: name, value in each run, True if they differ."""
    parts = ("model", "data", "trainer", "early_stopping")
    columns = [
        flat({part: s.evidence.settings[part] for part in parts if part in s.evidence.settings})
        for s in sections
    ]
    rows = []
    for name in dict.fromkeys(name for column in columns for name in column):
        values = [str(column[name]) if name in column else "–" for column in columns]
        # Lightning has many settings that no user sets.
        unset = name.startswith("trainer.") and set(values) == {"None"}
        if name not in HARMLESS_IN_FIGURES and not unset:
            rows.append((name.replace(".init_args", ""), values, len(set(values)) > 1))
    return rows


def _figures(section: Section) -> dict[str, FigureCell]:
    evidence, metrics = section.evidence, section.evidence.metrics
    figures = {}
    if "test/accuracy" in metrics:
        measured = labelled_records(evidence)
        count = 0 if measured is None else len(measured.records)
        figures["accuracy"] = share_cell(metrics["test/accuracy"], count)
    # From the records where there are some: `results.json` may lack it.
    macro = metrics.get("test/macro_f1") if section.clean is None else section.clean.macro
    if macro is not None:
        figures["F1, mean of the classes"] = FigureCell(format_number(macro))
    if "predict/largest_class" in metrics:
        # Near 1, the model has collapsed, and its robustness is none.
        share = share_cell(metrics["predict/largest_class"], 0)
        figures["share of the most frequent prediction"] = share
    for name in _TEST_METRICS:
        if f"test/{name}" in metrics:
            value = format_number(metrics[f"test/{name}"])
            figures[_metric_title(name, evidence)] = FigureCell(value)
    if section.calibration is not None:
        error = format_number(section.calibration.error)
        figures["expected calibration error"] = FigureCell(error)
    epsilon = metrics.get("test/pgd_epsilon")
    if "test/pgd_accuracy" in metrics:
        count = 0 if evidence.pgd is None else len(evidence.pgd.records)
        title = "accuracy under PGD" + (f", eps {epsilon:g}" if epsilon is not None else "")
        figures[title] = share_cell(metrics["test/pgd_accuracy"], count)
    figures |= _word_figures(evidence) | _radius_figures(evidence)
    if evidence.attacks:
        lowest = min(evidence.attacks, key=lambda attack: attack.summary.accuracy.value)
        accuracy, clean = lowest.summary.accuracy, lowest.summary.clean_accuracy
        figures["accuracy under the strongest text attack"] = FigureCell(
            f"{format_number(accuracy.value)} ({lowest.name})", format_interval(accuracy)
        )
        # Not that of all texts: an attack may cover only a few of them.
        figures["accuracy on the texts of that attack, before it"] = estimate_cell(clean)
    return figures


def _metric_title(name: str, evidence: Evidence) -> str:
    """Return the title of a metric; F1 is of a class, or of the entities of a tagging."""
    if name != "f1" or not evidence.classifies:
        return name.replace("_", " ")
    positive = None if evidence.results is None else evidence.results.get("positive")
    if positive is None and len(evidence.class_names) == 2:
        positive = evidence.class_names[1]
    return "F1" if positive is None else f"F1 of {positive}"


def _radius_figures(evidence: Evidence) -> dict[str, FigureCell]:
    if evidence.certificates is None:
        return {}
    figures, records = {}, evidence.certificates.records
    if is_labelled(records):
        # A wrong prediction has no certified radius.
        radii = [r["radius"] * (r["label"] == r["prediction"]) for r in records]
        title = "mean certified radius, 0 where wrong"
    else:
        radii = [float(record["radius"]) for record in records]
        title = "mean certified radius, right or wrong"
    figures[title] = estimate_cell(mean(radii))
    for name, value in evidence.metrics.items():
        stage, _, radius = name.partition("/accuracy@")
        if radius and stage in PROVEN:
            figures[f"certified accuracy at radius {radius}"] = share_cell(value, len(records))
    return figures


def _word_figures(evidence: Evidence) -> dict[str, FigureCell]:
    """Return the accuracies of each `certify --threat` on the test split."""
    figures = {}
    for stage, subject in evidence.subjects.items():
        count = evidence.metrics.get(f"{stage}/samples")
        if "threat" not in subject or subject.get("split") != "test" or count is None:
            continue
        name, around = stage.removeprefix("certify_"), subject.get("around") or {}
        # Randomised smoothing certifies with probability 1 - alpha.
        with_confidence = f", with confidence {1 - around['alpha']:g}" if "alpha" in around else ""
        titles = {"accuracy": "accuracy"}
        for k in subject["k"]:
            titles[f"accuracy@{k}"] = (
                f"accuracy, k = {k}, by a formula as printed (no guarantee)"
                if "bound" in around
                else f"certified accuracy, k = {k}{with_confidence}"
            )
        for key, title in titles.items():
            value = evidence.metrics.get(f"{stage}/{key}")
            figures[f"{name}: {title}"] = share_cell(value, int(count))
    return figures


class AttackRow(NamedTuple):
    """A row of the table of attacks; `clean` is the accuracy of the attacked texts before it."""

    attack: str
    run: str
    accuracy: FigureCell
    clean: FigureCell
    # Share of the attacked texts that it has changed; of these, the share of changed words.
    success: FigureCell
    words: FigureCell
    queries: str
    unreliable: bool


def _attack_rows(sections: Sequence[Section]) -> list[AttackRow]:
    attacks = [
        (section.name, attack) for section in sections for attack in section.evidence.attacks
    ]
    rows = [
        AttackRow(
            attack=attack.name,
            run=run,
            accuracy=estimate_cell(attack.summary.accuracy),
            clean=estimate_cell(attack.summary.clean_accuracy),
            success=estimate_cell(attack.summary.success_rate),
            words=estimate_cell(attack.summary.words_changed),
            queries="–"
            if attack.summary.queries is None
            else f"{attack.summary.queries.value:.1f}",
            unreliable=attack.summary.unreliable,
        )
        for run, attack in attacks
    ]
    return sorted(rows, key=lambda row: row.attack)  # stable: runs of an attack stay in order


# Pictures of all runs


def _common_pictures(sections: Sequence[Section]) -> Iterator[Picture]:
    curves = [_curve(section.evidence) for section in sections]
    curves = [curve for curve in curves if curve.steps is not None or curve.attacked]
    if curves:
        yield pictures.curve_picture("accuracy-over-radius", curves)
    attacks = {
        section.name: {attack.name: attack.summary.accuracy for attack in section.evidence.attacks}
        for section in sections
        if section.evidence.attacks
    }
    if attacks:
        yield pictures.attacks_picture("attacks", attacks)


def _curve(evidence: Evidence) -> AccuracyCurve:
    proven, pgd = evidence.certificates, evidence.pgd
    # Other norms than l2 have another axis.
    certified, attacked = None, []
    if proven is not None and is_labelled(proven.records):
        right = [record["label"] == record["prediction"] for record in proven.records]
        certified = steps([float(record["radius"]) for record in proven.records], right)
    settings = {} if pgd is None else pgd.settings.get("pgd") or {}
    if pgd is not None and settings.get("norm") == "l2":
        count = len(pgd.records)
        hits = sum(record["label"] == record["prediction"] for record in pgd.records)
        survived = sum(bool(record["survived"]) for record in pgd.records)
        epsilon = float(settings["epsilon"])
        attacked = [(0.0, wilson(hits, count)), (epsilon, wilson(survived, count))]
    return AccuracyCurve(evidence.run.name, certified, attacked)
