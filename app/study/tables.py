"""Tables and notes of a study, from the content of its `study.json` alone.

A `corpus` is the name of a single corpus; None means all.
"""

import csv
import io
import textwrap
from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Any, Literal

from app.study.study_json import BOOTSTRAPPED, ENDS, find
from app.study.table_formats import COLLAPSED, DOUBT, DOWN, PAPER, UP, WIDTH, Table, latex, markdown
from measure.uncertainty import FEWEST_SEEDS

Content = Mapping[str, Any]
Format = Literal["markdown", "latex", "csv"]
LEVEL = 0.05
"""A difference is significant if its p, corrected by Holm, is lower."""
NOT_RUN, NOT_FINITE, NONE = "not run", "not finite", "–"
_CSV = (
    *("kind", "corpus", "row", "against", "column", "value", "sd", "low", "high", "seeds"),
    *("texts", "p_texts", "p_seeds", "p", "p_holm", "unreliable", "collapsed"),
)


def render(content: Content, form: Format) -> str:
    """Return all tables of a study with their notes."""
    if form == "csv":
        return as_csv(content)
    tables = [*main_tables(content), *comparisons(content), *matched(content)]
    if form == "latex":
        return latex(tables, notes(content), label=content["study"]["name"])
    return "\n\n".join([*map(markdown, tables), note_list(content)]) + "\n"


def note_list(content: Content) -> str:
    """Return the notes as a Markdown list."""
    return "\n".join(
        textwrap.fill(
            line,
            # A note has up to four signs of three bytes, and some editors count bytes.
            WIDTH - 8,
            initial_indent="- ",
            subsequent_indent="  ",
            break_long_words=False,
            break_on_hyphens=False,
        )
        for line in notes(content)
    )


def _titles(content: Content, kind: str) -> dict[str, str]:
    return {item["name"]: item["title"] for item in content[kind]}


# Main tables


def main_tables(content: Content, corpus: str | None = None) -> list[Table]:
    """Return the tables of figures: one for each corpus, or one where the columns name corpora.

    A corpus without any run is left out, unless no corpus has one.
    """
    corpora = _titles(content, "corpora") or {"": ""}
    columns = content["columns"]
    # A column per corpus: a single table has them all.
    if columns and all(column["corpus"] for column in columns):
        return [_main_table(content, "", columns)]
    measured = {figure["corpus"] for figure in content["figures"]}
    selected = [name for name in corpora if corpus in (None, name)]
    return [
        _main_table(
            content, name, [c for c in columns if c["corpus"] in (None, name)], corpora[name]
        )
        for name in selected
        # A new study has a table of `not run` for each corpus.
        if name in measured or measured.isdisjoint(selected)
        if any(not row["corpora"] or name in row["corpora"] for row in content["rows"])
    ]


def _main_table(
    content: Content, corpus: str, columns: Sequence[Mapping[str, Any]], title: str = ""
) -> Table:
    paper = (content["paper"] or {}).get("figures", {})
    rows = [row for row in content["rows"] if not corpus or corpus in row["corpora"]]
    with_counts = _common_seeds(content) is None
    header, lines = [""], [[row["title"]] for row in rows]
    for column in columns:
        name, position = column["name"], column["corpus"] or corpus
        published = [paper.get(row["name"], {}).get(position, {}).get(name) for row in rows]
        # A column of the paper only where it has a figure.
        in_paper = any(value is not None for value in published)
        header += [column["title"], PAPER] if in_paper else [column["title"]]
        for line, row, value in zip(lines, rows, published, strict=True):
            line.append(_cell(content, row, position, column, with_counts=with_counts))
            if in_paper:
                line.append(NONE if value is None else number(value, column["digits"]))
    return Table(title=title, header=header, rows=lines)


def _cell(
    content: Content,
    row: Mapping[str, Any],
    corpus: str,
    column: Mapping[str, Any],
    *,
    with_counts: bool = True,
) -> str:
    """Return a figure as in `79.4 ± 0.6 (3)`, with its marks and the number of seeds."""
    run = {"row": row["name"], "corpus": corpus}
    key = {**run, "column": column["name"]}
    figure = find(content["figures"], **key)
    if figure is None:
        # A finished run without this figure belongs to a method that has none.
        waits = find(content["missing"], **run) and not find(content["cells"], **run)
        return NOT_RUN if waits else NONE
    count = len(figure["seeds"])
    seeds = f" ({'1 seed' if count == 1 else count})" if with_counts else ""
    if figure["mean"] is None:
        return f"{NOT_FINITE}{seeds}"
    text = number(figure["mean"], column["digits"])
    if figure["sd"] is not None:
        text += f" ± {number(figure['sd'], column['digits'])}"
    comparison = find(content["comparisons"], **key)
    mark = "" if comparison is None else _mark(comparison)
    return f"{text}{doubts(figure)}{mark}{seeds}"


def _common_seeds(content: Content) -> int | None:
    """Return the number of seeds of all figures; None if they differ, or without figures."""
    counts = {len(figure["seeds"]) for figure in content["figures"]}
    return counts.pop() if len(counts) == 1 else None


def doubts(line: Mapping[str, Any]) -> str:
    """Return the signs of a flagged figure, and of one of a model that has collapsed."""
    return (DOUBT if line["unreliable"] else "") + (COLLAPSED if line["collapsed"] else "")


def _mark(line: Mapping[str, Any]) -> str:
    """Return the sign of a significant difference; "" for a figure that measures nothing."""
    p, effect = line["p_holm"], line["effect"]
    # A figure with a doubt gets no sign of significance.
    if p is None or p >= LEVEL or not effect or doubts(line):
        return ""
    return UP if effect > 0 else DOWN


# Single figures


def figure(content: Content, row: str, column: str, corpus: str = "") -> str | None:
    """Return a single figure as in the table; None where the table has no such cell.

    The corpus is not needed where the column names it, or the study has none.
    """
    line, head = find(content["rows"], name=row), find(content["columns"], name=column)
    if line is None or head is None:
        return None
    position = head["corpus"] or corpus
    return _cell(content, line, position, head) if position in (line["corpora"] or [""]) else None


def figures_by_seed(
    content: Content, row: str, column: str, corpus: str = "", *, mean: bool = False
) -> str | None:
    """Return the figure of each seed, or their mean; None where there are none."""
    values = list(_values(content, row, column, corpus).values())
    return _enumerate(content, column, values, mean=mean)


def differences_by_seed(
    content: Content, row: str, against: str, column: str, corpus: str = "", *, mean: bool = False
) -> str | None:
    """Return the difference of two rows at each seed of both, or their mean; None without seeds.

    They are differences of the measured figures, not of the rounded ones of the table.
    """
    first, second = (_values(content, name, column, corpus) for name in (row, against))
    values = [first[seed] - second[seed] for seed in first if seed in second]
    return _enumerate(content, column, values, mean=mean, sign=True)


def _values(content: Content, row: str, column: str, corpus: str) -> dict[int, float]:
    """Return the finite figures of a row by their seeds, in the unit of the column."""
    head = find(content["columns"], name=column)
    if head is None:
        return {}
    return {
        cell["seed"]: cell["values"][column] * head["scale"]
        for cell in content["cells"]
        if (cell["row"], cell["corpus"]) == (row, head["corpus"] or corpus)
        if cell["values"].get(column) is not None
    }


def _enumerate(
    content: Content, column: str, values: Sequence[float], *, mean: bool, sign: bool = False
) -> str | None:
    """Return numbers as in `6.1, 0.7 and 0.3`."""
    if not values:
        return None
    digits = _digits(content, column)
    numbers = [fmean(values)] if mean else values
    *texts, last = [number(value, digits, sign=sign) for value in numbers]
    return f"{', '.join(texts)} and {last}" if texts else last


# Comparisons


def comparisons(content: Content, corpus: str | None = None) -> list[Table]:
    """Return the tables of comparisons, one for each baseline row."""
    lines = [line for line in content["comparisons"] if corpus in (None, line["corpus"])]
    labels = _labels(content, lines)
    header = [*labels, "difference [95 %]", "p texts", "p seeds", "p Holm"]
    cells: dict[str, list[list[str]]] = {}
    for line in lines:
        ps = [probability(line[name]) for name in ("p_texts", "p_seeds", "p_holm")]
        # One seed says nothing about other seeds.
        ps[1] = "1 seed" if len(line["seeds"]) == 1 else ps[1]
        effect = f"{_effect(content, line)}{doubts(line)}{_mark(line)}"
        names = [titles[line[kind]] for kind, titles in labels.items()]
        cells.setdefault(line["against"], []).append([*names, effect, *ps])
    rows = _titles(content, "rows")
    return [
        Table(title=f"Differences from: {rows[name]}", header=header, rows=part, labels=len(labels))
        for name, part in cells.items()
    ]


def matched(content: Content, corpus: str | None = None) -> list[Table]:
    """Return the table of comparisons at equal accuracy; none where the study has no line."""
    reference = content.get("matched") or {"lines": ()}
    lines = [line for line in reference["lines"] if corpus in (None, line["corpus"])]
    if not lines:
        return []
    labels = _labels(content, lines)
    cells = []
    for line in lines:
        digits = _digits(content, line["column"])
        difference = [NONE, "outside the line"]
        if line["effect"] is not None:
            difference = [number(line["line"], digits), _effect(content, line) + doubts(line)]
        at = number(line["at"], _digits(content, reference["at"]))
        figures = [str(len(line["seeds"])), at, number(line["figure"], digits)]
        names = [titles[line[kind]] for kind, titles in labels.items()]
        cells.append([*names, *figures, *difference])
    rows, columns = _titles(content, "rows"), _titles(content, "columns")
    measured = {(figure["row"], figure["corpus"]) for figure in content["figures"]}
    corpora = {line["corpus"] for line in lines}
    ends = "; ".join(
        rows[name] for name in reference["rows"] if any((name, c) in measured for c in corpora)
    )
    title = f"At equal accuracy: differences from the line through {ends}"
    header = [*labels, "seeds", columns[reference["at"]], "figure", "line", "difference [95 %]"]
    return [Table(title=title, header=header, rows=cells, labels=len(labels))]


def _labels(content: Content, lines: Sequence[Mapping[str, Any]]) -> dict[str, dict[str, str]]:
    """Return the titles of each label of a line; lines of one corpus do not name it."""
    kinds = {"corpus": "corpora", "row": "rows", "column": "columns"}
    if len({line["corpus"] for line in lines}) == 1:
        del kinds["corpus"]
    return {name: _titles(content, kind) for name, kind in kinds.items()}


def _digits(content: Content, column: str) -> int:
    return int(next(head["digits"] for head in content["columns"] if head["name"] == column))


def _effect(content: Content, line: Mapping[str, Any]) -> str:
    digits = _digits(content, line["column"])
    effect = number(line["effect"], digits, sign=True)
    if line["low"] is None:
        return effect
    return f"{effect} [{', '.join(number(line[end], digits, sign=True) for end in ENDS)}]"


def number(value: float, digits: int, *, sign: bool = False) -> str:
    """Return a number with so many digits after the point, and without a negative zero."""
    rounded = round(value, digits) + 0.0  # -0.0 + 0.0 is 0.0
    return f"{rounded:+.{digits}f}" if sign and rounded else f"{rounded:.{digits}f}"


def probability(p: float | None) -> str:
    """Return a p with three digits; a dash for None."""
    if p is None:
        return NONE
    return "< 0.001" if p < 0.001 else f"{p:.3f}"


# Notes


def notes(content: Content) -> list[str]:
    """Return the notes below the tables, a sentence or two each."""
    figures, compared = content["figures"], content["comparisons"]
    lines = []
    seeds = _common_seeds(content)
    if seeds is not None and seeds > 1:
        lines.append(f"Mean ± standard deviation over {seeds} seeds.")
    elif any(figure["sd"] is not None for figure in figures):
        lines.append("Mean ± standard deviation over seeds; their number in brackets.")
    if any(len(figure["seeds"]) == 1 for figure in figures):
        one = "One seed" if seeds == 1 else "“1 seed”"
        lines.append(f"{one}: chance among seeds is not known.")
    if any(line["unreliable"] for line in [*figures, *compared]):
        lines.append(
            f"{DOUBT} The attack could not see its way (its score is flat): the figure is no "
            "measure of robustness."
        )
    if any(line["collapsed"] for line in [*figures, *compared]):
        runs = [cell["run"] for cell in content["cells"] if cell["collapsed"]]
        lines.append(
            f"{COLLAPSED} A model that gives all texts the same answer is among the seeds "
            f"({', '.join(runs)}): a training that has failed, of which robustness says nothing."
        )
    if compared:
        lines += _test_notes(content)
    if matched(content):
        lines.append(
            "At equal accuracy: straight lines join the rows of one kind, and each other row is "
            "held against them at its own accuracy. Only seeds that the row and all of the line "
            "have count. Intervals are those of the bootstrap over texts, without chance among "
            "seeds, and are not corrected for the number of rows. “outside the line”: less, or "
            "more accurate than all of it."
        )
    rows, columns = _titles(content, "rows"), _titles(content, "columns")
    lines += [
        f"{columns[pair['column']]}: {rows[pair['row']]} and {rows[pair['against']]} are not "
        f"compared: {pair['reason']}."
        for pair in content["refused"]
    ]
    if content["missing"]:
        lines.append(_missing(content))
    if any(PAPER in table.header for table in main_tables(content)):
        lines.append(f"“paper”: {content['paper']['source']}.")
    if content["cells"]:
        lines.append(_revisions(content))
    if figures and content["outcomes"] is None:
        tested = any(line["p_texts"] is not None for line in compared)
        end = ": tests over texts are as measured" if tested else ""
        lines.append(f"The outcomes of single texts are not kept{end}.")
    return [*lines, *content["remarks"], *content["study"]["notes"]]


def _revisions(content: Content) -> str:
    """Return the sentence on the programs that trained and measured the runs."""
    runs = [cell["revisions"] for cell in content["cells"]]
    program = content["versions"].get("revision")  # older files have it
    revisions = sorted({revision for run in runs for revision in run})
    dirty = any(revision.endswith("-dirty") for revision in revisions or [program or ""])
    end = " (-dirty: with changes that are in no commit)" if dirty else ""
    if not revisions:
        line = "The revisions of the runs were not recorded"
        return f"{line}; {program} first made the tables{end}." if program else f"{line}."
    some = "" if all(runs) else ", not recorded of others"
    kind = "mixed revisions:" if len(revisions) > 1 else "revision"
    return f"Runs of {kind} {', '.join(revisions)}{some}{end}."


def _test_notes(content: Content) -> list[str]:
    compared = content["comparisons"]
    lines = []
    # Holm counts only comparisons with a p.
    count = sum(line["p_holm"] is not None for line in compared)
    correction = f"(p < {LEVEL:g} after Holm's correction for {count} comparisons)."
    if any(map(_mark, compared)):
        rows = _titles(content, "rows")
        baselines = list(dict.fromkeys(rows[line["against"]] for line in compared))
        baseline = baselines[0] if len(baselines) == 1 else "the row that it is compared with"
        if len({(line["row"], line["corpus"], line["column"]) for line in compared}) < len(
            compared
        ):
            baseline += ", in the tables of figures the first of several"
        lines.append(f"{UP} {DOWN} significantly above or below {baseline} {correction}")
    elif count:
        # Without a mark, a difference of a flagged figure may still have a low p.
        low = any(line["p_holm"] is not None and line["p_holm"] < LEVEL for line in compared)
        but = f", except of figures with {DOUBT} or {COLLAPSED}" if low else ""
        lines.append(f"No difference is significant{but} {correction}")
    used = {line["texts_test"] for line in compared}
    tests = {
        "McNemar": "McNemar's exact test where there is one seed",
        "permutation": "a permutation test that swaps all answers to a text together",
    }
    named = [text for name, text in tests.items() if name in used]
    sentences = [f"“p texts” is from {'; otherwise '.join(named)}."] if named else []
    if any(line["p_seeds"] is not None for line in compared):
        sentences.append("“p seeds” is from the paired t test.")
    if count:
        sentences.append(
            "“p Holm” is about both kinds of chance at once: no smaller than either p, and than "
            "that of their joined statistics (min F')."
        )
    if sentences:
        seeds = {(cell["row"], cell["corpus"], cell["seed"]) for cell in content["cells"]}
        paired = all(
            (line["against"], line["corpus"], seed) in seeds
            for line in compared
            for seed in line["seeds"]
        )
        end = "" if paired else ", or are single runs"
        start = f"Both rows answer the same texts with the same seeds{end}."
        lines.append(" ".join([start, *sentences]))
    if any(len(line["seeds"]) < FEWEST_SEEDS for line in compared):
        lines.append("Differences of one or two seeds are not tested as a whole, and get no mark.")
    if any(line["low"] is not None for line in compared):
        # Such differences have no t statistic.
        equal = any(
            len(line["seeds"]) > 1 and line["p_seeds"] in BOOTSTRAPPED and line["low"] is not None
            for line in compared
        )
        also = ", or where all seeds have the same difference," if equal else ""
        lines.append(
            f"Intervals: Student's over seeds, within the bounds of the figure; of one seed{also} "
            "the percentile bootstrap over texts."
        )
    titles = _titles(content, "columns")
    by_seeds = [c for c in compared if c["p_texts"] is None and c["p_holm"] is not None]
    if by_seeds:
        columns = "; ".join(sorted({titles[line["column"]] for line in by_seeds}))
        lines.append(f"Tested over seeds alone, for want of a figure per text: {columns}.")
    return lines


def _missing(content: Content) -> str:
    rows, corpora = _titles(content, "rows"), _titles(content, "corpora")
    seeds: dict[str, list[str]] = {}
    for cell in content["missing"]:
        corpus = f" on {corpora[cell['corpus']]}" if cell["corpus"] else ""
        seeds.setdefault(f"{rows[cell['row']]}{corpus}", []).append(str(cell["seed"]))
    runs = [
        f"{name} (seed{'s' if len(numbers) > 1 else ''} {', '.join(numbers)})"
        for name, numbers in seeds.items()
    ]
    return f"Not run: {'; '.join(runs)}."


def as_csv(content: Content) -> str:
    """Return a line for each figure, figure of the paper and difference, in the columns' unit."""
    lines = [{**line, "kind": "figure", "value": line["mean"]} for line in content["figures"]]
    lines += [
        {"kind": "paper", "row": row, "corpus": corpus, "column": column, "value": value}
        for row, corpora in (content["paper"] or {}).get("figures", {}).items()
        for corpus, values in corpora.items()
        for column, value in values.items()
    ]
    differences = {
        "difference": content["comparisons"],
        "at equal accuracy": (content.get("matched") or {}).get("lines", ()),
    }
    for kind, compared in differences.items():
        lines += [{**line, "kind": kind, "value": line["effect"]} for line in compared]
    lines += [{**cell, "kind": "not run", "seeds": [cell["seed"]]} for cell in content["missing"]]
    stream = io.StringIO()
    writer = csv.DictWriter(stream, _CSV, extrasaction="ignore", lineterminator="\n")
    writer.writeheader()
    for line in lines:
        # Of a figure, the seeds that have collapsed.
        flag = {"collapsed": bool(line["collapsed"])} if "collapsed" in line else {}
        writer.writerow({**line, **flag, "seeds": " ".join(map(str, line.get("seeds", ())))})
    return stream.getvalue()
