"""Files of records, in Python."""

import csv
from pathlib import Path

from steadfast.record_tables import PredictionTable


def test_a_text_with_a_line_end_of_any_kind_stays_one_row(tmp_path: Path) -> None:
    texts = ["one\rtwo", "one\ntwo", "one\r\ntwo", 'a "quoted", text', "plain"]
    table = PredictionTable([{"text": text, "radius": None, "margin": 1.5} for text in texts])
    with table.save(tmp_path / "records.csv").open(newline="") as stream:
        rows = list(csv.reader(stream, strict=True))
    assert rows == [["text", "radius", "margin"], *([text, "", "1.5"] for text in texts)]
