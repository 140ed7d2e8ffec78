"""Combines the evidence of runs, and writes the page and its pictures."""

import base64
import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from app.report import report_pictures as pictures
from app.report.attack_part import AttackPart, attack_part
from app.report.clean_part import (
    Calibration,
    CleanFigures,
    calibrate,
    count_clean,
    detection_picture,
    is_labelled,
)
from app.report.heat_maps import RunAttacks, heat_maps, run_attacks
from app.report.page_parts import format_number
from app.report.report_pictures import AccuracyCurve, Picture
from app.report.run_tables import (
    Tile,
    main_figures,
    rows_of_runs,
    run_facts,
    run_settings,
    tiles,
    trade_off,
)
from app.report.sandwich_part import SandwichCheck, check_sandwich
from app.report.text_explorer import BYTES, SCRIPT, Explorer, explorer
from app.report.text_facts import GroupPart, group_part, join_texts
from app.report.training_part import training_picture
from app.report.words_part import ThreatCertificates, changes_of, contradiction, threat_certificates
from attacks.summary import remarks
from measure.evidence import Evidence, read_evidence
from measure.radius_sandwich import steps
from measure.verdict import RunVerdict, judge_evidence
from run_files import atomic
from run_files.run_directory import RunDirectory
from run_files.summary_table import notes
from run_files.terminal import harmless
from text.estimates import wilson

if TYPE_CHECKING:
    from jinja2 import Template

PAGE = "report.html"


@dataclass(frozen=True)
class Section:
    """The contents of the page about one run; None for parts that were not measured."""

    number: int
    evidence: Evidence
    verdict: RunVerdict
    tiles: Sequence[Tile]
    detection: Picture | None
    training: Picture | None
    clean: CleanFigures | None
    calibration: Calibration | None
    groups: GroupPart | None
    in_words: Sequence[ThreatCertificates]
    words_picture: Picture | None
    attacks: AttackPart | None
    sandwich: SandwichCheck | None
    explorer: Explorer | None
    remarks: Sequence[str]

    @property
    def name(self) -> str:
        """Name of the run."""
        return self.evidence.run.name

    @property
    def pictures(self) -> list[Picture]:
        """The pictures of the run alone."""
        parts = (self.calibration, self.sandwich, self.groups, self.attacks)
        drawn = [part.picture for part in parts if part is not None]
        costs = None if self.attacks is None else self.attacks.costs
        every = (self.detection, self.training, self.words_picture, costs, *drawn)
        return [picture for picture in every if picture is not None]


class Missing(NamedTuple):
    """A measurement that runs lack, with the commands that make it, if there are any."""

    text: str
    commands: Sequence[str]


class ReportFiles(NamedTuple):
    """The HTML page, a sentence for each contradicted certificate, and facts of each run."""

    page: Path
    contradictions: Sequence[str]
    verdicts: Sequence[RunVerdict]
    attacks: Sequence[RunAttacks]


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
    most = BYTES // len(runs)
    sections = [_section(read_evidence(run), i, most) for i, run in enumerate(runs, 1)]
    common = list(_common_pictures(sections))
    # The page embeds its pictures; the files are for papers and slides.
    for picture in [*common, *(picture for section in sections for picture in section.pictures)]:
        atomic.write_text(folder / f"{picture.name}.svg", picture.svg)
    page = folder / PAGE
    broken = [s for s in sections if s.sandwich is not None and s.sandwich.broken]
    in_words = [
        (section.name, contradiction(certificates))
        for section in sections
        for certificates in section.in_words
        if certificates.broken
    ]
    columns = [section.evidence for section in sections]
    attacks = [run_attacks(evidence) for evidence in columns]
    html = template("report.html.j2").render(
        sections=sections,
        broken=broken,
        contradicted=in_words,
        facts=rows_of_runs([run_facts(evidence) for evidence in columns]),
        settings=run_settings(columns),
        figures=rows_of_runs(
            [main_figures(s.evidence, s.verdict, s.clean, s.calibration) for s in sections]
        ),
        heat=heat_maps(attacks),
        common={picture.name: picture for picture in common},
        missing=missing(sections),
        style=style(),
        script=SCRIPT,
        script_hash=script_hash(SCRIPT),
    )
    atomic.write_text(page, html)
    contradictions = [
        f"run {section.name}: an attack has changed {len(section.sandwich.broken)} of "
        f"{len(section.sandwich.texts)} texts inside their certificate"
        for section in broken
        if section.sandwich is not None
    ]
    contradictions += [f"run {name}: {text}" for name, text in in_words]
    return ReportFiles(page, contradictions, [s.verdict for s in sections], attacks)


@cache
def template(name: str) -> "Template":
    """Return a template of this package; all values are escaped but our own pictures and style."""
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    # The texts are untrusted.
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
    return environment.get_template(name)


def style() -> str:
    """Return the style sheet of the pages."""
    return (Path(__file__).parent / "report.css").read_text(encoding="utf-8")


def script_hash(script: str) -> str:
    """Return the source of a script as a policy names it: no other script runs on the page."""
    digest = hashlib.sha256(script.encode()).digest()
    return f"'sha256-{base64.b64encode(digest).decode()}'"


def _section(evidence: Evidence, number: int, most: int) -> Section:
    sandwich = check_sandwich(evidence, number)
    in_words = list(threat_certificates(evidence))
    texts = join_texts(evidence)
    verdict = judge_evidence(evidence)
    curves = {certificates.name: certificates.curve for certificates in in_words}
    broken = {sample for certificates in in_words for sample in certificates.broken}
    if sandwich is not None:
        broken |= {text.ball.sample_id for text in sandwich.broken}
    return Section(
        number=number,
        evidence=evidence,
        verdict=verdict,
        tiles=tiles(verdict),
        detection=detection_picture(evidence, number),
        training=training_picture(evidence, number),
        clean=count_clean(evidence),
        calibration=calibrate(evidence, number),
        groups=group_part(evidence, texts, number),
        in_words=in_words,
        words_picture=pictures.changes_picture(f"certified-words-{number}", curves)
        if curves
        else None,
        attacks=attack_part(evidence, number),
        sandwich=sandwich,
        explorer=explorer(texts, evidence.class_names, broken, most),
        remarks=[
            *verdict.cautions,
            *(notes(evidence.results).splitlines() if evidence.results is not None else ()),
            *(line for a in evidence.attacks for line in remarks(a.name, a.summary)),
        ],
    )


def missing(sections: Sequence[Section]) -> list[Missing]:
    """Return the missing measurements of all runs, each once, with its commands."""
    commands: dict[str, list[str]] = {}
    for section in sections:
        for text, command in _missing(section):
            commands.setdefault(text, []).extend([command] if command else [])
    pairs = [
        f"python -m steadfast attack pairs runs/{one.name}/attacks/"
        f"{one.evidence.attacks[0].name}.jsonl --victim run:{other.name}"
        for one in sections
        for other in sections
        if one is not other
        and one.evidence.attacks
        and one.name not in {transfer.source for transfer in other.evidence.transfers}
    ]
    if pairs:
        commands["Transfer: the changed texts of one run on another"] = pairs
    return [Missing(text, several) for text, several in commands.items()]


def _missing(section: Section) -> Iterator[tuple[str, str]]:
    """Yield the missing measurements of a run, each with its command ("" if there is none)."""
    evidence = section.evidence
    command = f"python -m steadfast {{}} --run {evidence.run.name}"
    tested = any(name.startswith("test/") for name in evidence.metrics)
    if not tested:
        yield "The test split", command.format("test")
    if section.training is None:
        yield "Training curves: the run has no metrics of a training", ""
    if not evidence.classifies:
        task = {"choice": "multiple choice"}.get(evidence.task or "", evidence.task or "model")
        attacks = "" if task == "regression" else ", attacks"
        yield f"Confusion matrix, calibration, certificates{attacks}: not for a {task}", ""
        return
    yield from _missing_of_classes(section, command, tested=tested)


def _missing_of_classes(
    section: Section, command: str, *, tested: bool
) -> Iterator[tuple[str, str]]:
    """Yield what a classification lacks."""
    evidence = section.evidence
    if section.calibration is None:
        yield "Picture of the calibration: it needs probabilities", command.format("predict")
    reason = None if evidence.results is None else evidence.results.get("no_certificate")
    # Some methods name the command that certifies them.
    reason, _, own = (reason or "").partition(": `certify")
    if evidence.certificates is None and reason:
        yield f"Certified radii: {reason}", ""
    elif evidence.certificates is None:
        yield "Certified radii", command.format("certify")
    if not section.in_words:
        threat = own.strip(" `") or "--threat synonyms --lists FILE"
        yield "Certificates in words", f"{command.format('certify')} {threat}"
    if evidence.pgd is None and tested:
        yield "Accuracy under PGD, text by text", command.format("test")
    if not evidence.attacks:
        yield "Attacks that change words", f"{command.format('attack')} --attack textfooler"
    elif not any(evidence.run.path.glob("**/validity/*.json")):
        text = "The share of attacked texts that keep their meaning"
        yield text, command.format("attack validity")
    if section.explorer is None:
        yield "Single texts: attacks and certificates in words store them", ""
    yield "Other seeds: each run is one training", ""
    if section.sandwich is not None:
        text = "Certified radii of texts with words inserted or deleted"
        yield f"{text}: they are about texts of as many tokens", ""


def _common_pictures(sections: Sequence[Section]) -> Iterator[Picture]:
    curves = [_curve(section.evidence) for section in sections]
    curves = [curve for curve in curves if curve.steps is not None or curve.attacked]
    if curves:
        yield pictures.curve_picture("accuracy-over-radius", curves)
    if len(sections) > 1:
        verdicts: Mapping[str, RunVerdict] = {s.name: s.verdict for s in sections}
        if (picture := trade_off("clean-against-robust", verdicts)) is not None:
            yield picture


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
        # `test --sweep` has further radii.
        for name in pgd.records[0]:
            if name.startswith("survived@"):
                survived = sum(bool(record[name]) for record in pgd.records)
                attacked.append((float(name.partition("@")[2]), wilson(survived, count)))
        attacked.sort(key=lambda point: point[0])
    return AccuracyCurve(evidence.run.name, certified, attacked)
