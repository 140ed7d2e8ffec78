"""A table of texts, and its forms: Markdown and LaTeX."""

import textwrap
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass

WIDTH = 120
"""Characters of a line of Markdown."""
PAPER = "paper"
"""Header of a column that stays next to the column on its left."""
UP, DOWN, DOUBT, COLLAPSED = "▲", "▼", "†", "‡"
_LATEX = {
    "\\": r"\textbackslash{}",
    **{sign: rf"\{sign}" for sign in "&%$#_{}"},
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    **{sign: f"${sign}$" for sign in "<>|"},
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
    """A table of texts, whose first `labels` columns are aligned left, the others right."""

    title: str
    header: Sequence[str]
    rows: Sequence[Sequence[str]]
    labels: int = 1


def markdown(table: Table) -> str:
    """Return a table as Markdown whose columns are also aligned in plain text.

    A table of more than `WIDTH` characters is continued below: some of its columns, then the rest.
    """
    rows = [table.header, *table.rows]
    lines = [[_one_line(text).replace("|", "\\|") for text in row] for row in rows]
    widths = [max(3, *map(len, column)) for column in zip(*lines, strict=True)]
    sides = "<" * table.labels + ">" * (len(widths) - table.labels)
    lines.insert(
        1,
        [
            "-" * (w - 1) + ("-" if side == "<" else ":")
            for w, side in zip(widths, sides, strict=True)
        ],
    )
    title = f"**{_one_line(table.title)}**"
    parts = [textwrap.fill(title, WIDTH, break_on_hyphens=False)] if table.title else []
    for columns in _split_columns(table, widths):
        cells = [[f"{line[i]:{sides[i]}{widths[i]}}" for i in columns] for line in lines]
        parts.append("\n".join(f"| {' | '.join(row)} |" for row in cells))
    return "\n\n".join(parts)


def _split_columns(table: Table, widths: Sequence[int]) -> list[list[int]]:
    """Return the columns of each part that is narrow enough; each part repeats the labels."""
    labels = list(range(table.labels))
    # Each column takes three characters more than its text: "| " and " ".
    space = WIDTH - 1 - sum(widths[i] + 3 for i in labels)
    parts: list[list[int]] = []
    remaining = 0
    for i in range(table.labels, len(widths)):
        if table.header[i] == PAPER:
            continue
        # A column of the paper stays next to ours.
        group = [i, i + 1] if table.header[i + 1 : i + 2] == [PAPER] else [i]
        needed = sum(widths[j] + 3 for j in group)
        if not parts or needed > remaining:
            parts.append([*labels])
            remaining = space
        parts[-1] += group
        remaining -= needed
    return parts or [labels]


def latex(tables: Sequence[Table], notes: Sequence[str], *, label: str) -> str:
    """Return tables and notes as LaTeX for `booktabs` and `amssymb`, labelled `tab:LABEL-1` ..."""
    parts = ["% \\usepackage{booktabs, amssymb}"]
    for i, table in enumerate(tables, 1):
        alignment = "l" * table.labels + "r" * (len(table.header) - table.labels)
        head, *rows = [
            " & ".join(map(escape_latex, row)) + r" \\" for row in [table.header, *table.rows]
        ]
        lines = [
            r"\begin{table}",
            r"\centering",
            *([rf"\caption{{{escape_latex(table.title)}}}"] if table.title else []),
            rf"\label{{tab:{label}-{i}}}",
            rf"\begin{{tabular}}{{{alignment}}}",
            r"\toprule",
            head,
            r"\midrule",
            *rows,
            r"\bottomrule",
            r"\end{tabular}",
            r"\end{table}",
        ]
        parts.append("\n".join(lines))
    return "\n\n".join([*parts, *map(escape_latex, notes)]) + "\n"


def escape_latex(text: str) -> str:
    """Return a text for LaTeX."""
    return "".join(_LATEX.get(sign, _greek(sign)) for sign in _one_line(text))


def _greek(sign: str) -> str:
    """Return a Greek letter by its name in LaTeX; any other sign unchanged."""
    kind, _, name = unicodedata.name(sign, "").partition(" LETTER ")
    if kind not in ("GREEK SMALL", "GREEK CAPITAL") or " " in name:
        return sign
    name = name.lower().replace("lamda", "lambda")  # Unicode spells it "lamda"
    return rf"$\{name.capitalize() if kind.endswith('CAPITAL') else name}$"


def _one_line(text: str) -> str:
    return " ".join(text.split())
