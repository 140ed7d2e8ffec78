"""Reports of a gate: a table, Markdown for a pull request, JUnit XML, and the baseline file."""

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, NotRequired, TypedDict
from xml.etree import ElementTree

from attacks.paired_shares import paired_shares
from measure.attack_report import class_name, columns, compare, flat, join_pieces
from measure.gate import Criterion, GateExample, GateReport
from run_files import atomic
from run_files.terminal import harmless
from text.bounded_files import read_json
from text.estimates import aligned, markdown_table
from text.json_shapes import check_shape
from text.plural import plural
from text.subjects import differences, joined

_LONGEST = 400
"""Characters of a text in a report."""
_OUTCOMES = {True: "1", False: "0"}
"""Outcomes of texts in a baseline; other characters stand for texts that were not checked."""
_ESCAPES = str.maketrans({**{mark: f"\\{mark}" for mark in "\\`*_[]|#"}, "<": "&lt;", ">": "&gt;"})
"""Marks of Markdown and HTML in a cell of a table."""


class CriterionBaseline(TypedDict):
    """A criterion in a baseline; `outcomes` has a character for each text of the data."""

    outcomes: str
    subject: NotRequired[str]


class GateBaseline(TypedDict):
    """The parts of a baseline that a comparison reads."""

    about: dict[str, Any]
    criteria: dict[str, CriterionBaseline]


def summarise_gate(report: GateReport) -> str:
    """Return the outcome in one sentence."""
    judged = [c for c in report.criteria if c.limit is not None or c.change is not None or c.lost]
    if not (failures := report.failures()):
        allowed = [c.name for c in judged if report.status(c) == "not checked"]
        rest = f"; not checked: {', '.join(allowed)}" if allowed else ""
        return f"Holds: {len(judged) - len(allowed)} of {len(judged)} criteria{rest}."
    reasons = "; ".join(reason(report, criterion) for criterion in failures)
    return f"Fails: {len(failures)} of {len(judged)} criteria: {reasons}."


def reason(report: GateReport, criterion: Criterion) -> str:
    """Return why a criterion fails or was not checked."""
    share = "" if criterion.share is None else f" {criterion.share.value:.3f}"
    if criterion.void:
        return f"{criterion.name}: {criterion.void}"
    if report.status(criterion) == "not checked":
        why = criterion.reason if criterion.total else "the data have no such text"
        return f"{criterion.name} not checked on {plural(criterion.unchecked, 'text')} ({why})"
    if criterion.change is not None and criterion.regressed:
        change = criterion.change
        return (
            f"{criterion.name}{share} is worse than the baseline ({change.lost} texts lost, "
            f"{change.gained} gained of {change.first.count})"
        )
    bound = criterion.bound.replace(">=", "below").replace("<=", "above")
    if report.settings.decide == "interval":
        bound = f"{criterion.bound} not shown by its interval"
    return f"{criterion.name}{share} ({bound})"


def _rows(report: GateReport) -> Iterator[list[str]]:
    """Yield the cells of each criterion."""
    for criterion in report.criteria:
        share = criterion.share
        status = report.status(criterion)
        notes = []
        if criterion.close and status in ("holds", "fails"):
            notes.append("the limit is inside the interval")
        if criterion.unchecked:
            notes.append(f"{criterion.unchecked} not checked: {criterion.reason}")
        if criterion.change is not None:
            difference = criterion.change.difference
            worse = "worse" if criterion.regressed else "not clearly worse"
            ends = f"[{difference.low:+.3f}, {difference.high:+.3f}]"
            notes.append(f"{worse} than the baseline ({difference.value:+.3f} {ends})")
        yield [
            criterion.name,
            "-" if share is None else f"{share.value:.3f}",
            "-" if share is None else f"{share.low:.3f} - {share.high:.3f}",
            f"{criterion.hits} of {len(criterion.outcomes)}",
            criterion.bound or "-",
            _label(criterion, status),
            "; ".join(notes),
        ]


def _label(criterion: Criterion, status: str) -> str:
    """Return the outcome of a criterion; without a limit, the baseline decides."""
    if status != "no limit":
        return status
    return "-" if criterion.change is None else "holds"


_TITLES = ["criterion", "share", "95 % interval", "texts", "limit", "outcome", ""]


def gate_table(report: GateReport) -> str:
    """Return the report as text: table, examples of failures, one sentence."""
    lines = [f"{report.victim} on {report.data}", "", aligned([_TITLES, *_rows(report)])]
    for criterion in report.failures():
        if criterion.examples:
            lines += ["", f"{criterion.name}, the worst texts:"]
            lines += [line for e in criterion.examples for line in example_lines(report, e)]
    if report.cautions:
        lines += ["", *report.cautions]
    lines += ["", f"{_time(report)}", summarise_gate(report)]
    return harmless("\n".join(lines))


def _time(report: GateReport) -> str:
    return (
        f"{report.seconds:.1f} s, {report.victim_seconds:.1f} s of them in the model; "
        f"{report.own_seconds:.1f} s of processor time outside of it"
    )


def example_lines(report: GateReport, example: GateExample) -> list[str]:
    """Return a text that counts against a limit; of an attack as a diff, changed words marked."""
    names = report.classes
    label, prediction = (class_name(i, names) for i in (example.label, example.prediction))
    if example.changed is None:
        text = _short(" / ".join(columns(example.text)))
        return [f"  text {example.sample_id}: {label}, predicted {prediction}", f"    {text}"]
    lines = [f"  text {example.sample_id}: {label} -> {prediction}"]
    for before, after in zip(columns(example.text), columns(example.changed), strict=True):
        old, new = (_short(join_pieces(pieces, "[", "]")) for pieces in compare(before, after))
        lines += [f"  - {old}", f"  + {new}"]
    return lines


def _short(text: str) -> str:
    line = flat(text)
    return line if len(line) <= _LONGEST else f"{line[:_LONGEST]}..."


def gate_markdown(report: GateReport) -> str:
    """Return the report for a pull request."""
    rows = [
        [*cells, f"{outcome}: {note}" if note else outcome]
        for *cells, outcome, note in _rows(report)
    ]
    parts = [
        f"### Gate {'holds' if report.holds else 'fails'}",
        f"{_cell(report.victim)} on {_cell(report.data)}",
        markdown_table(_TITLES[:-1], (map(_cell, cells) for cells in rows)),
        *map(_cell, report.cautions),
    ]
    for criterion in report.failures():
        if criterion.examples:
            lines = [text for e in criterion.examples for text in example_lines(report, e)]
            parts.append(
                f"<details><summary>{_cell(criterion.name)}: the worst texts</summary>\n\n"
                # Indented: a text cannot end a block of code that has no end mark.
                + "\n".join(f"    {text}" for text in lines)
                + "\n\n</details>"
            )
    parts += [_cell(summarise_gate(report)), _time(report)]
    return "\n\n".join(parts) + "\n"


def _cell(text: str) -> str:
    """Escape a text for a cell of a Markdown table."""
    return _short(text).translate(_ESCAPES)


def gate_junit(report: GateReport) -> str:
    """Return the report as JUnit XML: a test case for each criterion with a limit.

    A criterion that was not checked is an error, or skipped if that is allowed. Source of the
    elements: the schema of Jenkins' xUnit plug-in (junit-10.xsd), which other systems read, too.
    """
    cases = []
    counts = {"failures": 0, "errors": 0, "skipped": 0}
    for criterion in report.criteria:
        case = ElementTree.Element(
            "testcase", classname="steadfast.check", name=harmless(criterion.name), time="0"
        )
        status = report.status(criterion)
        if status in ("fails", "not checked"):
            allowed = status == "not checked" and report.settings.allow_unchecked
            kind = "failure" if status == "fails" else "skipped" if allowed else "error"
            counts[f"{kind}s" if kind != "skipped" else kind] += 1
            element = ElementTree.SubElement(
                case, kind, message=harmless(reason(report, criterion))
            )
            if kind != "skipped":
                element.set("type", "limit" if kind == "failure" else "not checked")
            lines = [text for e in criterion.examples for text in example_lines(report, e)]
            element.text = harmless("\n".join([criterion.meaning, *lines]))
        elif status == "no limit" and criterion.change is None:
            continue
        cases.append(case)
    numbers = {"tests": str(len(cases))} | {name: str(count) for name, count in counts.items()}
    time = {"time": f"{report.seconds:.3f}"}
    suite = ElementTree.Element("testsuite", {"name": "steadfast check", **numbers, **time})
    properties = ElementTree.SubElement(suite, "properties")
    for name, value in (("model", report.victim), ("data", report.data)):
        ElementTree.SubElement(properties, "property", name=name, value=harmless(value))
    suite.extend(cases)
    root = ElementTree.Element("testsuites", {"name": "steadfast check", **numbers, **time})
    root.append(suite)
    ElementTree.indent(root)
    content = ElementTree.tostring(root, encoding="unicode")
    # XML 1.0 forbids these two and control characters, which `harmless` has escaped.
    content = content.replace("\ufffe", "\\ufffe").replace("\uffff", "\\uffff")
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{content}\n'


def write_baseline(report: GateReport, path: Path) -> None:
    """Write the outcome of each text, for later comparisons.

    Raises:
        OSError: the file cannot be written.
    """
    criteria = {}
    for criterion in report.criteria:
        last = max(criterion.outcomes, default=-1)
        criteria[criterion.name] = {
            "share": None if criterion.share is None else round(criterion.share.value, 6),
            "texts": len(criterion.outcomes),
            "least": criterion.least,
            **({"subject": criterion.subject} if criterion.subject else {}),
            # A character for each text of the data.
            "outcomes": "".join(
                _OUTCOMES[criterion.outcomes[i]] if i in criterion.outcomes else "-"
                for i in range(last + 1)
            ),
        }
    content = {"model": report.victim, "data": report.data, "about": report.subject}
    atomic.write_text(path, json.dumps({**content, "criteria": criteria}, indent=2) + "\n")


def compare_baseline(report: GateReport, baseline: GateBaseline, path: Path) -> GateReport:
    """Return a report with the change of each criterion since a baseline, the content of `path`.

    Raises:
        ValueError: the baseline is about other texts or settings.
    """
    stored, subject = baseline["about"], dict(report.subject)
    if stored.get("certificate") is None or subject.get("certificate") is None:
        # A baseline without a certificate is compared in all the rest.
        stored, subject = {**stored, "certificate": None}, {**subject, "certificate": None}
    if changes := differences(stored, subject):
        msg = (
            f"got the baseline {path} of other texts or settings ({joined(changes)}), expected the "
            "same: write a new one with --write_baseline FILE"
        )
        raise ValueError(msg)
    criteria = []
    earlier = baseline["criteria"]
    for criterion in report.criteria:
        entry = earlier.get(criterion.name, CriterionBaseline(outcomes=""))
        # Baselines of older versions do not name their attacks.
        if entry.get("subject", criterion.subject) != criterion.subject:
            msg = (
                f"got the baseline {path} with {criterion.name} of another attack of that name, "
                "expected the same: write a new one with --write_baseline FILE"
            )
            raise ValueError(msg)
        former = entry["outcomes"]
        # A text that was not checked in one of the two is left out.
        shared = [i for i in criterion.outcomes if former[i : i + 1] in _OUTCOMES.values()]
        change = None
        if shared:
            # True where the outcome counts for the limit.
            good = _OUTCOMES[criterion.least]
            before = [former[i] == good for i in shared]
            after = [criterion.outcomes[i] == criterion.least for i in shared]
            change = paired_shares(before, after)
        lost = not criterion.outcomes and not {*_OUTCOMES.values()}.isdisjoint(former)
        criteria.append(replace(criterion, change=change, lost=lost))
    cautions = [
        f"the baseline has {name}, which was not measured"
        for name in earlier
        if name not in {criterion.name for criterion in criteria}
    ]
    return replace(report, criteria=criteria, cautions=[*report.cautions, *cautions])


def read_baseline(path: Path) -> GateBaseline:
    """Read a baseline.

    Raises:
        ValueError: the file is not one.
        OSError: it cannot be read.
    """
    content: GateBaseline = read_json(path, "a baseline of `check`")
    check_shape(content, GateBaseline, path)
    return content
