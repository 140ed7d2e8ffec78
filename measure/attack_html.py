"""Write an attack as one HTML file: figures, and all texts side by side."""

from collections.abc import Iterator, Mapping, Sequence
from html import escape
from pathlib import Path

from attacks.interface import Outcome
from attacks.outcome import AttackRecord
from attacks.summary import figure_columns, remarks
from measure.attack_report import Piece, class_name, join_pieces, pairs
from run_files import atomic
from run_files.terminal import harmless
from text.estimates import IntervalEstimate, interval
from text.plural import plural

LIMIT = 2000
"""Rows of the page, so that browsers can open it; adversarial pairs come first."""

# The policy forbids scripts and network access: the texts on the page are adversarial.
_HEAD = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title>
<style>
:root {{ color-scheme: light dark; --line: #8884; --old: #c62828; --new: #1b7f3b; --dim: #777; }}
@media (prefers-color-scheme: dark) {{ :root {{ --old: #ff8a80; --new: #7ddf9a; --dim: #aaa; }} }}
body {{ font: 16px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 90rem;
  padding: 0 1rem; }}
table {{ border-collapse: collapse; width: 100%; }}
th, td {{ border-bottom: 1px solid var(--line); padding: .5rem .75rem; text-align: start;
  vertical-align: top; overflow-wrap: anywhere; }}
.figures, .facts {{ width: auto; margin-bottom: 1.5rem; }}
.figures td {{ overflow-wrap: normal; }} .facts th {{ font-weight: normal; color: var(--dim); }}
.facts th, .facts td {{ padding: .125rem .75rem; border: none; }}
.figures td + td {{ font-variant-numeric: tabular-nums; }}
.texts {{ table-layout: fixed; }} .texts th:first-child {{ width: 13rem; }}
.texts td p {{ margin: 0 0 .5rem; white-space: pre-wrap; }}
thead th {{ position: sticky; top: 0; background: Canvas; }}
del, ins {{ font-weight: 600; text-decoration-thickness: 1px; }}
del {{ color: var(--old); }} ins {{ color: var(--new); text-decoration: underline; }}
@media (max-width: 50rem) {{
  .texts th:first-child {{ width: 24%; }} th, td {{ padding: .375rem; }}
}}
.dim {{ color: var(--dim); font-size: .875rem; }} .doubt {{ color: var(--old); }}
</style>
</head>
<body>
"""


def page(outcome: Outcome, names: Sequence[str], facts: Mapping[str, str]) -> Iterator[str]:
    """Yield the lines of the file; `facts` are run, model, corpus and so on, by name."""
    title = " ".join(filter(None, [outcome.name, facts.get("run", "")]))
    yield _HEAD.format(title=_text(f"{title}: adversarial texts"))
    yield f"<h1>{_text(outcome.name)}</h1>"
    yield '<table class="facts"><tbody>'
    for name, fact in facts.items():
        yield f"<tr><th>{_text(name)}</th><td>{_text(fact)}</td></tr>"
    yield "</tbody></table>"
    for remark in remarks(outcome.name, outcome.summary):
        yield f'<p class="doubt">{_text(remark)}</p>'
    yield from _figures(outcome)
    # The page may be cut at LIMIT: the interesting samples come first.
    order = {"succeeded": 0, "failed": 1, "error": 2, "skipped": 3}
    records = sorted(outcome.records, key=lambda record: (order[record.outcome], record.sample_id))
    yield f"<h2>{plural(len(records), 'sample')}</h2>"
    if len(records) > LIMIT:
        yield f'<p class="dim">The first {LIMIT}; all of them are in the .jsonl next to this.</p>'
    yield '<table class="texts"><thead><tr><th>sample</th><th>clean</th><th>attacked</th></tr>'
    yield "</thead><tbody>"
    for record in records[:LIMIT]:
        yield from _row(record, names)
    yield "</tbody></table>\n</body>\n</html>\n"


def write_page(
    path: Path, outcome: Outcome, names: Sequence[str], facts: Mapping[str, str]
) -> None:
    """Write the file in one step."""
    with atomic.replacing(path) as stream:
        stream.writelines(f"{line}\n".encode() for line in page(outcome, names, facts))


def _figures(outcome: Outcome) -> Iterator[str]:
    yield '<table class="figures"><tbody>'
    for title, field, digits in figure_columns([outcome.summary]):
        estimate: IntervalEstimate | None = getattr(outcome.summary, field)
        if estimate is None:
            continue
        yield (
            f"<tr><td>{title}</td><td>{estimate.value:.{digits}f}</td>"
            f'<td class="dim">{interval(estimate, digits)} (95 %, {estimate.count} samples)</td>'
            "</tr>"
        )
    yield "</tbody></table>"


def _row(record: AttackRecord, names: Sequence[str]) -> Iterator[str]:
    classes = class_name(record.prediction, names)
    if record.outcome == "succeeded" and record.adversarial_prediction is not None:
        classes += f" → {class_name(record.adversarial_prediction, names)}"
    facts = [
        f"gold {class_name(record.label, names)}",
        f"{record.words_changed} of {record.words} words",
        f"{plural(record.queries, 'query')}, {record.unique_queries} different",
        *([] if record.similarity is None else [f"similarity {record.similarity:.3f}"]),
        *(["budget used up"] if record.exhausted else []),
        *(["does not succeed when asked again"] if record.holds is False else []),
        *([] if record.reason is None else [record.reason]),
    ]
    yield f"<tr><td>{record.sample_id}: {record.outcome}<br>{_text(classes)}"
    yield f'<div class="dim">{"<br>".join(map(_text, facts))}</div></td>'
    before, after = marked_texts(record)
    yield f"<td>{before}</td>"
    yield f"<td>{after}</td>" if record.adversarial is not None else '<td class="dim">-</td>'
    yield "</tr>"


def marked_texts(record: AttackRecord) -> tuple[str, str]:
    """Return the clean and the attacked text of a record as HTML, with marks at changed words."""
    # A sample has one text, or two for a pair; each becomes a paragraph.
    before, after = zip(*pairs(record), strict=True)
    return _paragraphs(before, "del"), _paragraphs(after, "ins")


def _paragraphs(texts: Sequence[Sequence[Piece]], mark: str) -> str:
    # dir=auto: a right-to-left text must not reverse the rest of the row.
    marked = (join_pieces(text, f"<{mark}>", f"</{mark}>", _text) for text in texts)
    return "".join(f'<p dir="auto">{text}</p>' for text in marked)


def _text(text: str) -> str:
    # Texts and names come from files and from models: never raw HTML.
    return escape(harmless(text))
