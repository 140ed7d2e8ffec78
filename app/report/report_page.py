"""Combines the evidence of runs, and writes the page and its pictures."""

import base64
import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

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
from app.report.page_parts import estimate_cell, format_number
from app.report.report_pictures import AccuracyCurve, Picture
from app.report.run_tables import (
    main_figures,
    notes_of,
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
from measure.verdict import RunVerdict, VerdictFigure, judge_evidence
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
    tiles: Sequence[VerdictFigure]
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
        ValueError: a file of a run has unexpected content, or several runs have one name.
    """
    check_names(runs)
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
    in_words = [
        (section.name, contradiction(certificates))
        for section in sections
        for certificates in section.in_words
        if certificates.broken
    ]
    columns = [section.evidence for section in sections]
    attacks = [run_attacks(evidence) for evidence in columns]
    html = render(
        "report.html.j2",
        SCRIPT,
        sections=sections,
        contradicted=in_words,
        facts=rows_of_runs([run_facts(evidence) for evidence in columns]),
        settings=run_settings(columns),
        figures=rows_of_runs(
            [main_figures(s.evidence, s.verdict, s.clean, s.calibration) for s in sections]
        ),
        heat=heat_maps(attacks),
        common={picture.name: picture for picture in common},
        missing=missing(sections),
    )
    atomic.write_text(page, html)
    contradictions = [
        f"run {s.name}: an attack has changed {len(s.sandwich.broken)} of "
        f"{len(s.sandwich.texts)} texts inside their certificate"
        for s in sections
        if s.sandwich is not None and s.sandwich.broken
    ]
    contradictions += [f"run {name}: {text}" for name, text in in_words]
    return ReportFiles(page, contradictions, [s.verdict for s in sections], attacks)


def check_names(runs: Sequence[RunDirectory]) -> None:
    """Raise ValueError if several runs, of different folders, have the same name."""
    names = [run.name for run in runs]
    if twice := [name for name in names if names.count(name) > 1]:
        msg = f"got several runs named {twice[0]}, expected different names"
        raise ValueError(msg)


@cache
def _template(name: str) -> "Template":
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
    environment.filters |= {"number": format_number, "estimate": estimate_cell}
    environment.filters |= {"notes": notes_of, "changes": changes_of}
    return environment.get_template(name)


def render(name: str, script: str, **parts: Any) -> str:
    """Return a page with our style and a script: its policy lets no other script run."""
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    return _template(name).render(
        style=(Path(__file__).parent / "report.css").read_text(encoding="utf-8"),
        script=script,
        script_hash=f"'sha256-{digest}'",
        **parts,
    )


def _section(evidence: Evidence, number: int, most: int) -> Section:
    sandwich = check_sandwich(evidence, number)
    in_words = list(threat_certificates(evidence))
    texts = join_texts(evidence)
    verdict, name = judge_evidence(evidence), f"certified-words-{number}"
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
        words_picture=pictures.changes_picture(name, curves) if curves else None,
        attacks=attack_part(evidence, number),
        sandwich=sandwich,
        explorer=explorer(texts, evidence.class_names, broken, most),
        remarks=[
            *verdict.cautions,
            *(notes(evidence.results).splitlines() if evidence.results is not None else ()),
            *(line for a in evidence.attacks for line in remarks(a.name, a.summary)),
        ],
    )


def missing(sections: Sequence[Section]) -> dict[str, list[str]]:
    """Return the missing measurements of all runs, each once, with the commands that make it."""
    commands: dict[str, list[str]] = {}
    for section in sections:
        for lacks, text, command in _checks(section):
            if lacks:
                name, dashes, options = command.partition(" --")
                own = f"python -m steadfast {name} --run {section.name}{dashes}{options}"
                commands.setdefault(text, []).extend([own] if command else [])
    pairs = [
        f"python -m steadfast attack pairs runs/{one.name}/attacks/"
        f"{one.evidence.attacks[0].name}.jsonl --victim run:{other.name}"
        for one in sections
        for other in sections
        if one is not other
        and one.evidence.attacks
        and one.name not in {transfer.source for transfer in other.evidence.transfers}
    ]
    return commands | (
        {"Transfer: the changed texts of one run on another": pairs} if pairs else {}
    )


def _checks(section: Section) -> Iterator[tuple[object, str, str]]:
    """Yield a condition, the measurement that is missing if it is true, and its command or ""."""
    evidence, attacks = section.evidence, section.evidence.attacks
    tested = any(name.startswith("test/") for name in evidence.metrics)
    yield not tested, "The test split", "test"
    unknown = section.training is None
    yield unknown, "Training curves: the run has no metrics of a training", ""
    if not evidence.classifies:
        task = {"choice": "multiple choice"}.get(evidence.task or "", evidence.task or "model")
        other = "" if task == "regression" else ", attacks"
        yield True, f"Confusion matrix, calibration, certificates{other}: not for a {task}", ""
        return
    reason = None if evidence.results is None else evidence.results.get("no_certificate")
    # Some methods name the command that certifies them.
    reason, _, own = (reason or "").partition(": `certify")
    threat = own.strip(" `") or "--threat synonyms --lists FILE"
    calibration = "Picture of the calibration: it needs probabilities"
    yield section.calibration is None, calibration, "predict"
    radii = f"Certified radii: {reason}" if reason else "Certified radii"
    yield evidence.certificates is None, radii, "" if reason else "certify"
    yield not section.in_words, "Certificates in words", f"certify {threat}"
    yield evidence.pgd is None and tested, "Accuracy under PGD, text by text", "test"
    yield not attacks, "Attacks that change words", "attack --attack textfooler"
    unjudged = attacks and not any(evidence.run.path.glob("**/validity/*.json"))
    meaning = "The share of attacked texts that keep their meaning"
    yield unjudged, meaning, "attack validity"
    stored = "Single texts: attacks and certificates in words store them"
    yield section.explorer is None, stored, ""
    yield True, "Other seeds: each run is one training", ""
    lengths = "Certified radii of texts with words inserted or deleted: they are about texts of as "
    yield section.sandwich is not None, f"{lengths}many tokens", ""


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
    certified, attacked = None, []
    if proven is not None and is_labelled(proven.records):
        right = [record["label"] == record["prediction"] for record in proven.records]
        certified = steps([float(record["radius"]) for record in proven.records], right)
    settings = {} if pgd is None else pgd.settings.get("pgd") or {}
    # Other norms than l2 have another axis.
    if pgd is not None and settings.get("norm") == "l2":
        hits = sum(record["label"] == record["prediction"] for record in pgd.records)
        attacked.append((0.0, wilson(hits, len(pgd.records))))
        # `test --sweep` has further radii.
        names = [name for name in pgd.records[0] if name.startswith("survived")]
        for name in names:
            survived = sum(bool(record[name]) for record in pgd.records)
            radius = float(name.partition("@")[2] or settings["epsilon"])
            attacked.append((radius, wilson(survived, len(pgd.records))))
        attacked.sort(key=lambda point: point[0])
    return AccuracyCurve(evidence.run.name, certified, attacked)
