"""Write the records of an attack as the CSV log of TextAttack, which `attack pairs` reads, too.

Source: QData/TextAttack 0.3, `textattack/loggers/csv_logger.py`, with its colouring style `file`.
"""

import csv
import io
import re
from collections.abc import Sequence
from pathlib import Path

from attacks.outcome import AttackRecord
from measure.attack_report import Piece, join_pieces, pairs
from run_files import atomic

COLUMNS = (
    *("original_text", "perturbed_text", "original_score", "perturbed_score", "original_output"),
    *("perturbed_output", "ground_truth_output", "num_queries", "result_type"),
)
"""The columns of TextAttack's log, in their order."""
_TYPES = {"succeeded": "Successful", "failed": "Failed", "skipped": "Skipped"}
_LINE_FEED = "<SPLIT>"
"""Signs of TextAttack for a line feed, and between the texts of a pair."""


def write_csv(path: Path, records: Sequence[AttackRecord], columns: Sequence[str]) -> None:
    """Write all records but those of an error, whole or not at all; `columns` name the texts.

    Raises:
        OSError: the file cannot be written.
    """
    stream = io.StringIO()
    writer = csv.writer(stream, quoting=csv.QUOTE_NONNUMERIC, lineterminator="\n")
    writer.writerow(COLUMNS)
    for record in records:
        if record.outcome == "error":
            continue
        before, after = zip(*pairs(record), strict=True)
        # A skipped sample has the clean text and its prediction twice.
        changed = record.adversarial is not None
        score = record.adversarial_score if changed else record.score
        output = record.adversarial_prediction if changed else record.prediction
        writer.writerow(
            [
                *(_marked(before, columns), _marked(after, columns)),
                *(record.score, score, record.prediction, output),
                *(record.label, record.queries, _TYPES[record.outcome]),
            ]
        )
    atomic.write_text(path, stream.getvalue())


def _marked(texts: Sequence[Sequence[Piece]], columns: Sequence[str]) -> str:
    """Return the text or texts of a sample, with marks at the changed words."""
    parts = [join_pieces(text, "[[", "]]") for text in texts]
    if len(parts) > 1:
        names = [re.sub(r"\W", "_", name).capitalize() for name in columns]
        parts = [f"[[[[{name}]]]]: {part}" for name, part in zip(names, parts, strict=True)]
    return _LINE_FEED.join(parts).replace("\n", _LINE_FEED)
