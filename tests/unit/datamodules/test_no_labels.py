"""Files without a column of labels: there is something to predict, and nothing to test."""

import json
from pathlib import Path

import pytest
from pyarrow import parquet, table

from datamodules import DataError, TextFiles

TEXTS = ["good", "not, so good"]


def written(folder: Path, ending: str, column: str = "text") -> str:
    path = folder / f"new.{ending}"
    if ending == "parquet":
        parquet.write_table(table({column: TEXTS}), path)
    elif ending == "jsonl":
        path.write_text("".join(json.dumps({column: text}) + "\n" for text in TEXTS))
    else:
        rows = TEXTS if ending == "tsv" else [f'"{text}"' for text in TEXTS]
        path.write_text("\n".join([column, *rows]) + "\n")
    return str(path)


@pytest.mark.parametrize("ending", ["tsv", "csv", "jsonl", "parquet"])
def test_predicted_but_not_tested(tmp_path: Path, ending: str) -> None:
    corpus = TextFiles(test=written(tmp_path, ending), classes=["no", "yes"])
    corpus.setup("predict")
    assert [(example.text, example.label) for example in corpus.examples("test")] == [
        (text, None) for text in TEXTS
    ]
    with pytest.raises(DataError, match=r"\['text'\], expected \['label'\] among them"):
        corpus.setup("test")


@pytest.mark.parametrize("ending", ["tsv", "csv", "jsonl", "parquet"])
def test_texts_are_needed_all_the_same(tmp_path: Path, ending: str) -> None:
    corpus = TextFiles(test=written(tmp_path, ending, "review"), classes=["no", "yes"])
    with pytest.raises(DataError, match=r"\['review'\], expected \['text'\] among them"):
        corpus.setup("predict")
