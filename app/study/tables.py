"""Tables of a study as Markdown, LaTeX and CSV, from the content of its `study.json` alone."""

import csv
import io
import textwrap
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any, Literal

from app.study.study_json import ENDS
from app.study.uncertainty import FEWEST_SEEDS

Content = Mapping[str, Any]
Format = Literal["markdown", "latex", "csv"]
WIDTH = 120
"""Characters of a line of Markdown."""
LEVEL = 0.05
"""A difference is called significant where its p, corrected by Holm, is below."""
UP, DOWN, DOUBT, COLLAPSED = "▲", "▼", "†", "‡"
_COMPARED = ("row", "column", "difference [95 %]", "p texts", "p seeds", "p Holm")
_PAPER = "paper"
NOT_RUN, NOT_FINITE, NONE = "not run", "not finite", "–"
_SIGNS = {
    "\\": r"\textbackslash{}",
    "&": r"\&",
    "%": r"\%",
    "$": r"\$",
    "#": r"\#",
    "_": r"\_",
    "{": r"\{",
    "}": r"\}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"$<$",
    ">": r"$>$",
    "|": r"$|$",
    "±": r"$\pm$",
    "×": r"$\times$",
    "≥": r"$\geq$",
    "≤": r"$\leq$",
    "→": r"$\to$",
    "√": r"$\sqrt{}$",
    "²": r"$^2$",
    "−": "$-$",
    "–": "--",
    "…": r"\ldots{}",
    UP: r"$\blacktriangle$",
    DOWN: r"$\blacktriangledown$",
    DOUBT: r"\textsuperscript{\dag}",
    COLLAPSED: r"\textsuperscript{\ddag}",
    "“": "``",
    "”": "''",
}


@dataclass(frozen=True, kw_only=True)
class Table:
    """A table of texts.

    Attributes:
        title: above it; may be empty.
        header: names of the columns.
        rows: as many texts in each.
        left: number of first columns that are aligned left; the others are aligned right.
    """

    title: str
    header: Sequence[str]
    rows: Sequence[Sequence[str]]
    left: int = 1


def render(content: Content, form: Format) -> str:
    """Returns all tables of a study with their notes.

    Args:
        content: of its `study.json`.
        form: the format.
    """
    if form == "csv":
        return as_csv(content)
    parts = [*main_tables(content), *comparisons(content), *matched(content)]
    if form == "latex":
        return latex(parts, notes(content), label=content["study"]["name"])
    return "\n\n".join([*map(markdown, parts), noted(content)]) + "\n"


def noted(content: Content) -> str:
    """Returns the notes as a Markdown list."""
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


# What stands in the cells


def main_tables(content: Content, corpus: str | None = None) -> list[Table]:
    """Returns the tables of figures: one for each corpus, or one where the columns name corpora.

    A corpus on which nothing was run has no table as long as there is another one.

    Args:
        content: of a `study.json`.
        corpus: name of the only corpus that is wanted; all if not given.
    """
    corpora = {one["name"]: one["title"] for one in content["corpora"]} or {"": ""}
    columns = content["columns"]
    if columns and all(one["corpus"] for one in columns):
        return [_figures(content, "", columns)]
    run = {one["corpus"] for one in content["figures"]}
    wanted = [name for name in corpora if corpus in (None, name)]
    return [
        _figures(content, name, [one for one in columns if one["corpus"] in (None, name)], title)
        for name, title in corpora.items()
        if name in wanted and (name in run or run.isdisjoint(wanted))
        if any(not row["corpora"] or name in row["corpora"] for row in content["rows"])
    ]


def _figures(
    content: Content, corpus: str, columns: Sequence[Mapping[str, Any]], title: str = ""
) -> Table:
    paper = (content["paper"] or {}).get("figures", {})
    header = [""]
    shown: list[tuple[Mapping[str, Any], str, bool]] = []
    rows = [row for row in content["rows"] if not corpus or corpus in row["corpora"]]
    for column in columns:
        place = column["corpus"] or corpus
        beside = any(column["name"] in paper.get(row["name"], {}).get(place, {}) for row in rows)
        header += [column["title"], _PAPER] if beside else [column["title"]]
        shown.append((column, place, beside))
    lines = []
    counted = common_seeds(content) is None
    for row in rows:
        line = [row["title"]]
        for column, place, beside in shown:
            line.append(_cell(content, row, place, column, counted=counted))
            if beside:
                value = paper.get(row["name"], {}).get(place, {}).get(column["name"])
                line.append(NONE if value is None else number(value, column["digits"]))
        lines.append(line)
    return Table(title=title, header=header, rows=lines)


def figure(content: Content, row: str, column: str, corpus: str = "") -> str | None:
    """Returns a single figure as it stands in the table; None where there is no such place.

    Args:
        content: of a `study.json`.
        row: its name.
        column: its name.
        corpus: its name; not needed where the column names it, or the study has none.
    """
    rows = [one for one in content["rows"] if one["name"] == row]
    columns = [one for one in content["columns"] if one["name"] == column]
    if not rows or not columns:
        return None
    place = columns[0]["corpus"] or corpus
    known = rows[0]["corpora"] or [""]
    return _cell(content, rows[0], place, columns[0]) if place in known else None


def mean(content: Content, row: str, column: str, corpus: str = "") -> str | None:
    """Returns the mean of a single figure over its seeds; None where there is no such place."""
    values = _values(content, row, column, corpus).values()
    return _listed(content, column, [fmean(values)]) if values else None


def seeds(content: Content, row: str, column: str, corpus: str = "") -> str | None:
    """Returns a single figure of each seed; None where there is no such place."""
    values = _values(content, row, column, corpus).values()
    return _listed(content, column, list(values)) if values else None


def difference(
    content: Content, row: str, against: str, column: str, corpus: str = ""
) -> str | None:
    """Returns the mean difference of two rows over the seeds of both; None where there is none.

    It is that of the figures as they were measured, not of the rounded ones of the table.
    """
    values = _differences(content, row, against, column, corpus)
    return _listed(content, column, [fmean(values)], sign=True) if values else None


def differences(
    content: Content, row: str, against: str, column: str, corpus: str = ""
) -> str | None:
    """Returns the difference of two rows at each seed of both; None where there is none."""
    values = _differences(content, row, against, column, corpus)
    return _listed(content, column, values, sign=True) if values else None


def _values(content: Content, row: str, column: str, corpus: str) -> dict[int, float]:
    """The finite figures of a row by their seeds, in the unit of the column."""
    columns = [one for one in content["columns"] if one["name"] == column]
    place = (row, (columns[0]["corpus"] or corpus) if columns else corpus)
    return {
        cell["seed"]: cell["values"][column] * columns[0]["scale"]
        for cell in content["cells"]
        if columns and (cell["row"], cell["corpus"]) == place
        if cell["values"].get(column) is not None
    }


def _differences(content: Content, row: str, against: str, column: str, corpus: str) -> list[float]:
    first, second = (_values(content, one, column, corpus) for one in (row, against))
    return [first[seed] - second[seed] for seed in first if seed in second]


def _listed(content: Content, column: str, values: Sequence[float], *, sign: bool = False) -> str:
    """Numbers as in `6.1, 0.7 and 0.3`."""
    digits = next(one["digits"] for one in content["columns"] if one["name"] == column)
    *texts, last = [number(value, digits, sign=sign) for value in values]
    return f"{', '.join(texts)} and {last}" if texts else last


def common_seeds(content: Content) -> int | None:
    """Returns the number of seeds of all figures; None if they differ, or if there is none."""
    counts = {len(one["seeds"]) for one in content["figures"]}
    return counts.pop() if len(counts) == 1 else None


def _cell(
    content: Content,
    row: Mapping[str, Any],
    corpus: str,
    column: Mapping[str, Any],
    *,
    counted: bool = True,
) -> str:
    """A figure as in `79.4 ± 0.6 (3)`, with its marks; the number of seeds only if counted."""
    key = {"row": row["name"], "corpus": corpus, "column": column["name"]}
    found = _first(content["figures"], key)
    if found is None:
        place = {"row": row["name"], "corpus": corpus}
        # Beside a run that has ended, a figure is lacking because the method has none.
        waits = _first(content["missing"], place) and not _first(content["cells"], place)
        return NOT_RUN if waits else NONE
    count = len(found["seeds"])
    seeds = f" ({'1 seed' if count == 1 else count})" if counted else ""
    if found["mean"] is None:
        return f"{NOT_FINITE}{seeds}"
    text = number(found["mean"], column["digits"])
    if found["sd"] is not None:
        text += f" ± {number(found['sd'], column['digits'])}"
    marks = doubts(found)
    compared = _first(content["comparisons"], key)
    if compared is not None:
        marks += _mark(compared)
    return f"{text}{marks}{seeds}"


def doubts(line: Mapping[str, Any]) -> str:
    """Returns the signs of a flagged figure, and of one of a model that has collapsed."""
    return (DOUBT if line["unreliable"] else "") + (COLLAPSED if line["collapsed"] else "")


def _mark(line: Mapping[str, Any]) -> str:
    """The sign of a significant difference; none of a figure that measures nothing."""
    p, effect = line["p_holm"], line["effect"]
    if p is None or p >= LEVEL or not effect or doubts(line):
        return ""
    return UP if effect > 0 else DOWN


def _first(lines: Sequence[Mapping[str, Any]], key: Mapping[str, str]) -> Mapping[str, Any] | None:
    return next(
        (line for line in lines if all(line[name] == value for name, value in key.items())), None
    )


def comparisons(content: Content, corpus: str | None = None) -> list[Table]:
    """Returns the tables of comparisons, one for each row that others are compared with.

    Args:
        content: of a `study.json`.
        corpus: name of the only corpus that is wanted; all if not given.
    """
    lines = [one for one in content["comparisons"] if corpus in (None, one["corpus"])]
    rows = {one["name"]: one["title"] for one in content["rows"]}
    named = len({line["corpus"] for line in lines}) > 1
    return [
        Table(
            title=f"Differences from: {rows[against]}",
            header=[*(["corpus"] if named else []), *_COMPARED],
            rows=[_compared(content, one, named) for one in lines if one["against"] == against],
            left=3 if named else 2,
        )
        for against in dict.fromkeys(line["against"] for line in lines)
    ]


def _compared(content: Content, line: Mapping[str, Any], named: bool) -> list[str]:
    rows, corpora, columns = (
        {one["name"]: one for one in content[kind]} for kind in ("rows", "corpora", "columns")
    )
    column = columns[line["column"]]
    effect = number(line["effect"], column["digits"], sign=True)
    if line["low"] is not None:
        ends = [number(line[end], column["digits"], sign=True) for end in ENDS]
        effect += f" [{', '.join(ends)}]"
    ps = [probability(line[name]) for name in ("p_texts", "p_seeds", "p_holm")]
    ps[1] = "1 seed" if len(line["seeds"]) == 1 else ps[1]
    where = [corpora[line["corpus"]]["title"]] if named else []
    names = [*where, rows[line["row"]]["title"], column["title"]]
    return [*names, f"{effect}{doubts(line)}{_mark(line)}", *ps]


def matched(content: Content, corpus: str | None = None) -> list[Table]:
    """Returns the table of comparisons at equal accuracy; none where the study has no line.

    Args:
        content: of a `study.json`.
        corpus: name of the only corpus that is wanted; all if not given.
    """
    found = content.get("matched")
    lines = [one for one in (found or {}).get("lines", ()) if corpus in (None, one["corpus"])]
    if not found or not lines:
        return []
    rows, corpora, columns = (
        {one["name"]: one for one in content[kind]} for kind in ("rows", "corpora", "columns")
    )
    at = columns[found["at"]]
    named = len({line["corpus"] for line in lines}) > 1
    texts = []
    for line in lines:
        column = columns[line["column"]]
        figures = [number(line["at"], at["digits"]), number(line["figure"], column["digits"])]
        where = [corpora[line["corpus"]]["title"]] if named else []
        names = [*where, rows[line["row"]]["title"], column["title"]]
        seeds = str(len(line["seeds"]))
        texts.append([*names, seeds, *figures, *_beside(line, column["digits"])])
    titles = "; ".join(rows[name]["title"] for name in found["rows"])
    header = ["row", "column", "seeds", at["title"], "figure", "line", "difference [95 %]"]
    return [
        Table(
            title=f"At equal accuracy: differences from the line through {titles}",
            header=[*(["corpus"] if named else []), *header],
            rows=texts,
            left=3 if named else 2,
        )
    ]


def _beside(line: Mapping[str, Any], digits: int) -> list[str]:
    """The height of the line at a row, and the row's difference from it."""
    if line["effect"] is None:
        return [NONE, "outside the line"]
    effect = number(line["effect"], digits, sign=True)
    if line["low"] is not None:
        effect += f" [{', '.join(number(line[end], digits, sign=True) for end in ENDS)}]"
    return [number(line["line"], digits), effect + doubts(line)]


def number(value: float, digits: int, *, sign: bool = False) -> str:
    """Returns a number with so many digits after the point, and no negative zero."""
    rounded = round(value, digits) + 0.0
    return f"{rounded:+.{digits}f}" if sign and rounded else f"{rounded:.{digits}f}"


def probability(p: float | None) -> str:
    """Returns a p with three digits; a dash where there is none."""
    if p is None:
        return NONE
    return "< 0.001" if p < 0.001 else f"{p:.3f}"


def notes(content: Content) -> list[str]:
    """Returns what a reader has to know, a sentence or two each."""
    figures, compared = content["figures"], content["comparisons"]
    lines = []
    seeds = common_seeds(content)
    if seeds is not None and seeds > 1:
        lines.append(f"Mean ± standard deviation over {seeds} seeds.")
    elif any(one["sd"] is not None for one in figures):
        lines.append("Mean ± standard deviation over seeds; their number in brackets.")
    if seeds == 1:
        lines.append("One seed: chance among seeds is not known.")
    elif any(len(one["seeds"]) == 1 for one in figures):
        lines.append("“1 seed”: chance among seeds is not known.")
    if any(one["unreliable"] for one in [*figures, *compared]):
        lines.append(
            f"{DOUBT} The attack could not see its way (saturated probabilities): the figure is no "
            "measure of robustness."
        )
    if any(one["collapsed"] for one in [*figures, *compared]):
        lines.append(_collapsed(content))
    if compared:
        lines += _tests(content)
    if matched(content):
        lines.append(
            "At equal accuracy: straight lines join the rows of one kind, and each other row is "
            "held against them at its own accuracy. Only seeds that the row and all of the line "
            "have count. Intervals are those of the bootstrap over texts, without chance among "
            "seeds, and are not corrected for the number of rows. “outside the line”: less, or "
            "more accurate than all of it."
        )
    lines += [_refused(content, one) for one in content["refused"]]
    if content["missing"]:
        lines.append(_missing(content))
    if content["paper"] is not None:
        lines.append(f"“paper”: {content['paper']['source']}.")
    if content["cells"]:
        lines.append(_revisions(content))
    if figures and content["outcomes"] is None:
        lines.append("The outcomes of single texts are not kept: tests over texts are as measured.")
    return [*lines, *content["remarks"], *content["study"]["notes"]]


def _collapsed(content: Content) -> str:
    runs = [cell["run"] for cell in content["cells"] if cell["collapsed"]]
    return (
        f"{COLLAPSED} A model that gives all texts the same answer is among the seeds "
        f"({', '.join(runs)}): a training that has failed, of which robustness says nothing."
    )


def _revisions(content: Content) -> str:
    """The programs that trained and measured the runs."""
    runs = [tuple(cell["revisions"]) for cell in content["cells"]]
    program = content["versions"].get("revision")  # older files have it
    known = sorted({one for of in runs for one in of})
    dirty = " (-dirty: with changes that are in no commit)"
    if not known:
        line = "The revisions of the runs were not recorded"
        end = dirty if program and program.endswith("-dirty") else ""
        return f"{line}; {program} first made the tables{end}." if program else f"{line}."
    end = dirty if any(one.endswith("-dirty") for one in known) else ""
    some = "" if all(runs) else ", not recorded of others"
    kind = f"mixed revisions: {', '.join(known)}" if len(known) > 1 else f"revision {known[0]}"
    return f"Runs of {kind}{some}{end}."


def _tests(content: Content) -> list[str]:
    compared = content["comparisons"]
    titles = {one["name"]: one["title"] for one in content["columns"]}
    lines = []
    count = sum(one["p_holm"] is not None for one in compared)
    if any(map(_mark, compared)):
        rows = {one["name"]: one["title"] for one in content["rows"]}
        against = list(dict.fromkeys(rows[one["against"]] for one in compared))
        beside = against[0] if len(against) == 1 else "the row that it is compared with"
        lines.append(
            f"{UP} {DOWN} significantly above or below {beside} (p < {LEVEL:g} after Holm's "
            f"correction for {count} comparisons)."
        )
    elif count:
        lines.append(
            f"No difference is significant (p < {LEVEL:g} after Holm's correction for {count} "
            "comparisons)."
        )
    tests = {one["texts_test"] for one in compared}
    by = {
        "McNemar": "McNemar's exact test where there is one seed",
        "permutation": "a permutation test that swaps all answers to a text together",
    }
    named = [text for name, text in by.items() if name in tests]
    said = [f"“p texts” is from {'; otherwise '.join(named)}."] if named else []
    if any(one["p_seeds"] is not None for one in compared):
        said.append("“p seeds” is from the paired t test.")
    if count:
        said.append(
            "“p Holm” is about both kinds of chance at once: no smaller than either p, and than "
            "that of their joined statistics (min F')."
        )
    if said:
        start = "Both rows answer the same texts with the same seeds."
        lines.append(" ".join([start, *said]))
    if any(len(one["seeds"]) < FEWEST_SEEDS for one in compared):
        lines.append("Differences of one or two seeds are not tested as a whole, and get no mark.")
    if any(one["low"] is not None for one in compared):
        lines.append(
            "Intervals: Student's over seeds, within the bounds of the figure; of one seed the "
            "percentile bootstrap over texts."
        )
    alone = sorted({titles[one["column"]] for one in compared if _by_seeds(one)})
    if alone:
        lines.append(f"Tested over seeds alone, for want of a figure per text: {'; '.join(alone)}.")
    return lines


def _by_seeds(line: Mapping[str, Any]) -> bool:
    """True where chance among texts has no part in a test."""
    return line["p_texts"] is None and line["p_holm"] is not None


def _refused(content: Content, one: Mapping[str, Any]) -> str:
    rows = {row["name"]: row["title"] for row in content["rows"]}
    columns = {column["name"]: column["title"] for column in content["columns"]}
    return (
        f"{columns[one['column']]}: {rows[one['row']]} and {rows[one['against']]} are not "
        f"compared: {one['reason']}."
    )


def _missing(content: Content) -> str:
    rows = {row["name"]: row["title"] for row in content["rows"]}
    corpora = {one["name"]: one["title"] for one in content["corpora"]}
    seeds: dict[str, list[int]] = {}
    for one in content["missing"]:
        where = f" on {corpora[one['corpus']]}" if one["corpus"] else ""
        seeds.setdefault(f"{rows[one['row']]}{where}", []).append(one["seed"])
    said = [
        f"{name} (seed{'s' if len(which) > 1 else ''} {', '.join(map(str, which))})"
        for name, which in seeds.items()
    ]
    return f"Not run: {'; '.join(said)}."


# The formats


def markdown(table: Table) -> str:
    """Returns a table as Markdown, with columns that are aligned in plain text, too.

    A table of more than `WIDTH` characters is continued below: some of its columns, then the rest.
    """
    cells = [[_one_line(text).replace("|", "\\|") for text in row] for row in _lines(table)]
    widths = [max(3, *map(len, column)) for column in zip(*cells, strict=True)]
    head = [f"**{_one_line(table.title)}**"] if table.title else []
    parts = [_aligned(cells, widths, table.left, part) for part in _parts(table, widths)]
    return "\n\n".join([*head, *parts])


def _parts(table: Table, widths: Sequence[int]) -> list[list[int]]:
    """The columns of each part that is narrow enough; a figure stays with the paper's beside it."""
    first = list(range(table.left))
    room = WIDTH - 1 - sum(widths[i] + 3 for i in first)
    parts: list[list[int]] = []
    left = 0
    for i in range(table.left, len(widths)):
        if table.header[i] == _PAPER:
            continue
        group = [i, i + 1] if table.header[i + 1 : i + 2] == [_PAPER] else [i]
        needed = sum(widths[j] + 3 for j in group)
        if not parts or needed > left:
            parts.append([*first])
            left = room
        parts[-1] += group
        left -= needed
    return parts or [first]


def _aligned(
    cells: Sequence[Sequence[str]], widths: Sequence[int], left: int, part: Sequence[int]
) -> str:
    lines = [
        [row[i].ljust(widths[i]) if i < left else row[i].rjust(widths[i]) for i in part]
        for row in cells
    ]
    rule = ["-" * widths[i] if i < left else f"{'-' * (widths[i] - 1)}:" for i in part]
    return "\n".join(f"| {' | '.join(line)} |" for line in [lines[0], rule, *lines[1:]])


def latex(tables: Sequence[Table], notes: Sequence[str], *, label: str) -> str:
    """Returns tables as LaTeX for the packages `booktabs` and `amssymb`.

    Args:
        tables: the tables.
        notes: beneath the last one.
        label: `tab:LABEL-1` refers to the first one.
    """
    parts = ["% \\usepackage{booktabs, amssymb}"]
    for i, table in enumerate(tables, 1):
        kinds = "l" * table.left + "r" * (len(table.header) - table.left)
        head, *rows = [" & ".join(map(escaped, row)) + r" \\" for row in _lines(table)]
        caption = [rf"\caption{{{escaped(table.title)}}}"] if table.title else []
        parts.append(
            "\n".join(
                [
                    r"\begin{table}",
                    r"\centering",
                    *caption,
                    rf"\label{{tab:{label}-{i}}}",
                    rf"\begin{{tabular}}{{{kinds}}}",
                    r"\toprule",
                    head,
                    r"\midrule",
                    *rows,
                    r"\bottomrule",
                    r"\end{tabular}",
                    r"\end{table}",
                ]
            )
        )
    parts += [escaped(line) for line in notes]
    return "\n\n".join(parts) + "\n"


def escaped(text: str) -> str:
    """Returns a text for LaTeX."""
    return "".join(_SIGNS.get(sign, _greek(sign)) for sign in _one_line(text))


def _greek(sign: str) -> str:
    """A Greek letter by its name in LaTeX; any other sign as it is."""
    kind, _, name = unicodedata.name(sign, "").partition(" LETTER ")
    if kind not in ("GREEK SMALL", "GREEK CAPITAL") or " " in name:
        return sign
    name = name.lower().replace("lamda", "lambda")
    return rf"$\{name.capitalize() if kind.endswith('CAPITAL') else name}$"


def as_csv(content: Content) -> str:
    """Returns a line for each figure, figure of the paper and difference, in the columns' unit."""
    names = (
        *("kind", "corpus", "row", "against", "column", "value", "sd", "low", "high", "seeds"),
        *("texts", "p_texts", "p_seeds", "p", "p_holm", "unreliable"),
    )
    stream = io.StringIO()
    writer = csv.DictWriter(stream, names, lineterminator="\n")
    writer.writeheader()
    for one in content["figures"]:
        writer.writerow(_line("figure", one, names) | {"value": one["mean"]})
    for row, corpora in ((content["paper"] or {}).get("figures", {})).items():
        for corpus, values in corpora.items():
            for column, value in values.items():
                where = {"row": row, "corpus": corpus, "column": column}
                writer.writerow(_line("paper", where, names) | {"value": value})
    for one in content["comparisons"]:
        writer.writerow(_line("difference", one, names) | {"value": one["effect"]})
    for one in (content.get("matched") or {}).get("lines", ()):
        writer.writerow(_line("at equal accuracy", one, names) | {"value": one["effect"]})
    for one in content["missing"]:
        writer.writerow(_line("not run", {**one, "seeds": [one["seed"]]}, names))
    return stream.getvalue()


def _line(kind: str, one: Mapping[str, Any], names: Sequence[str]) -> dict[str, Any]:
    known = {name: one[name] for name in names if name in one}
    seeds = " ".join(map(str, known.get("seeds", ())))
    return {**known, "kind": kind, "seeds": seeds}


def _lines(table: Table) -> list[Sequence[str]]:
    return [table.header, *table.rows]


def _one_line(text: str) -> str:
    return " ".join(text.split())
