import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from app.cli.data_files import check_user_data, file_words
from app.cli.main import entry
from app.commands.inspect import describe, next_command
from datamodules.sources.inspection import DataInspection, assign_splits, inspect_files
from datamodules.sources.readers import read_rows
from datamodules.sources.rows import Row
from tests.unit.app.commands.messy_files import FILES, ROWS, table
from text.bounded_files import DataError

Settings = dict[str, Any]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("messy")
    for name, content in FILES.items():
        (folder / name).write_bytes(content)
    return folder


def inspect(folder: Path, *names: str, **settings: Any) -> DataInspection:
    return inspect_files([folder / name for name in names], settings)


# For each file: what `inspect` says, and what the check of a training says, which is nothing for
# a file that can be trained on with the command that `inspect` prints.
CASES: dict[str, tuple[list[str], str | None]] = {
    "plain.csv": (["separator comma, encoding utf-8\n", "2 labels: neg 60, pos 60"], None),
    "bom.csv": (["encoding utf-8 (byte order mark)"], None),
    "semicolon.csv": (
        ["separator semicolon", "';' between its columns", "Bewertung (text), Urteil (label)"],
        None,
    ),
    "latin.csv": (["encoding latin-1 (not UTF-8 in line 5, which reads 'café')"], None),
    "hard_space.csv": (["encoding latin-1", r"reads 'the\xa0bill'"], None),
    "windows.csv": (["encoding cp1252", "reads '“the'"], None),
    "utf16.tsv": (["separator tab, encoding utf-16 (byte order mark)"], None),
    "utf16_no_mark.tsv": (["encoding utf-16-le (every second byte is zero)"], None),
    "mixed.csv": (
        ["encoding utf-8\n", "1 row in another encoding than UTF-8, which others have"],
        "line 122: broken encoding: byte 0xe9",
    ),
    "nested.jsonl": (["JSON lines", "id, body.text (text), meta.label (label)"], None),
    "array.json": (["JSON array, encoding utf-8"], None),
    "object.json": (["cannot be read"], "one JSON object over several lines, expected an array"),
    "pipe.txt": (["separator pipe"], None),
    "packed.csv.gz": (["rows        120"], None),
    "floats.csv": (["score (label)", "numbers from 1 to 5 (a regression)"], None),
    "decimal.csv": (["numbers with a decimal comma (1,0)"], None),
    "lists.jsonl": (
        ["several labels in one row, which are not supported"],
        r"line 1: got label \['neg', 'short'\].*multi-label.*write one label in each row",
    ),
    "one_list.jsonl": (
        ["several labels in one row", "got 4 bad row(s)"],
        r"line 1: got label \['neg', 'short'\].*(?s:\n.*line 122: got columns \['text'\]"
        ".*line 123: column 'text' holds int.*line 124: column 'text' holds list"
        ".*line 125: not a JSON value)",
    ),
    "joined.csv": (["40 rows have several labels in one, such as 'joy|fear'"], None),
    "none.csv": (["14 rows have the label 'None'", """'["neg", "pos"]' --data.on_bad_row"""], None),
    "minus.csv": (["14 rows have the label '-1'", """--data.classes '["0", "1"]'"""], None),
    "skewed.csv": (["70% of the rows are 'sport'", "val/macro_f1"], None),
    "leak.csv": (["30 rows with a label: figures on the test rows will be unc"], None),
    "empty.csv": (["problems, which stop a training"], "got an empty file"),
    "header.csv": (["rows        0"], "got no rows after the names of the columns"),
    "no_header.csv": (["add a line before it"], "first line that looks like a row"),
    "empty_texts.csv": (["got 18 bad row"], r"got 18 bad row(?s:.*)line 2: empty text in column"),
    "emoji.csv": (["10 to 10 words"], None),
    "html.csv": (["120 texts have HTML ('<p>')"], None),
    "long.csv": (["9 to 20,000 words", "100,000 char", "1 text has more than 1,000 words"], None),
    "pairs.csv": (["premise (text), hypothesis (text)", "pairs of texts, 2 labels"], None),
    "commas.csv": (
        ["1 row with another number of fields", "needs double quotes"],
        "line 9: got 3 fields, expected 2",
    ),
    "typo.csv": (["differ in case alone: 'pos', 'Pos'"], r"1 of 'Pos' \(a typo of 'pos'\?\)"),
    "swapped.csv": (
        ["120 labels"],
        "are text and label swapped.*--data.text_column label --data.label_column text",
    ),
    "one_class.csv": (["1 label: pos 120"], "'pos' in all rows; add rows of other classes"),
    "repeated.csv": (["21 texts occur again, 1 of them with another label"], None),
    "tags.conll": (["tagged sentences", "tags: dish 120"], None),
    "book.xlsx": (["cannot be read"], "which is a zip archive or a workbook.*save the sheet"),
}


@pytest.mark.parametrize("name", FILES)
def test_inspect_and_train_agree_on_each_file(
    folder: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    data = inspect_files([Path(name)], {})
    printed, problem = describe(data, {}), CASES[name][1]
    for part in CASES[name][0]:
        assert part in printed
    command = next_command(data, {})
    words = ["--data", name] if command is None else command.split()[4:]
    if problem is None:
        assert data.problems == []
        assert command is not None
        check_user_data(words)
    else:
        assert data.problems
        with pytest.raises(DataError, match=problem):
            check_user_data(words)


@pytest.mark.parametrize(
    ("name", "columns", "header"),
    [
        ("rows.csv", "{text},{label}", "text,label"),
        ("rows.tsv", "{number}\t{label}\t{text}", "column1<tab>label<tab>text"),
    ],
)
def test_a_table_without_header_is_trained_on_once_it_has_the_line_of_the_message(
    tmp_path: Path, name: str, columns: str, header: str
) -> None:
    path = tmp_path / name
    rows = [columns.format(number=i, text=text, label=y) for i, (text, y) in enumerate(ROWS)]
    path.write_text("\n".join(rows))
    data = inspect(tmp_path, name)
    [problem] = data.problems
    assert problem.endswith(f"add a line before it, such as {header}")
    command = next_command(data, {})
    assert command is not None
    assert "_column" not in command
    path.write_text("\n".join([header.replace("<tab>", "\t"), *rows]))
    assert next_command(inspect(tmp_path, name), {}) == command
    check_user_data(command.split()[4:])


def test_missing_columns_are_one_message(folder: Path) -> None:
    with pytest.raises(DataError) as caught:
        check_user_data(["--data", str(folder / "semicolon.csv")])
    first, last = str(caught.value).splitlines()
    assert first.endswith(
        "got no columns 'text', 'label'; the file has Bewertung, Urteil: did you mean "
        "`--data.text_column Bewertung`, `--data.label_column Urteil`?"
    )
    assert "steadfast inspect" in last
    with pytest.raises(DataError, match=r"no column 'lable'.*`--data.label_column label`"):
        check_user_data(["--data", str(folder / "plain.csv"), "--data.label_column=lable"])
    with pytest.raises(DataError, match=r"premise`, `--data.text_pair_column hypothesis`"):
        check_user_data(["--data", str(folder / "pairs.csv")])


def test_a_wrong_separator_is_the_first_problem(folder: Path) -> None:
    (problem,) = inspect(folder, "semicolon.csv", separator=",").problems
    assert "got a first line without ','" in problem
    assert problem.endswith("did you mean `--data.separator semicolon`?")


def test_all_problems_of_all_files_are_one_message(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "odd.csv").write_text(table([*ROWS[:9], ("fine", "good")]))
    files = [f"--data.validation={tmp_path / 'odd.csv'}", f"--data.test={folder / 'commas.csv'}"]
    with pytest.raises(DataError) as caught:
        check_user_data(["--data", str(folder / "plain.csv"), *files])
    message = str(caught.value)
    assert "odd.csv, line 11: unknown label 'good', expected one of ['neg', 'pos']" in message
    assert "commas.csv, line 9: got 3 fields" in message


def test_a_missing_file_is_not_sent_to_inspect(tmp_path: Path) -> None:
    table = tmp_path / "train.tsv"
    table.touch()
    with pytest.raises(DataError) as caught:
        check_user_data(["--data", f"{tmp_path}/trian.tsv"])
    message = f"got {tmp_path}/trian.tsv, not found, expected a table (there is train.tsv)"
    assert str(caught.value) == message
    with pytest.raises(DataError, match=r"empty file(?s:.*)inspect .* lists all about the data"):
        check_user_data(["--data", str(table)])


def test_bad_rows_may_be_skipped(folder: Path) -> None:
    words = ["--data", str(folder / "none.csv"), '--data.classes=["neg", "pos"]']
    with pytest.raises(DataError, match="unknown label 'None'"):
        check_user_data(words)
    check_user_data([*words, "--data.on_bad_row=skip"])


def test_a_wrong_encoding_is_the_first_problem(folder: Path) -> None:
    words = ["--data", str(folder / "latin.csv"), "--data.encoding"]
    with pytest.raises(DataError, match=r"bad row(?s:.*)broken encoding: byte 0xe9") as caught:
        check_user_data([*words, "utf-8"])
    assert "right column" not in str(caught.value)
    with pytest.raises(DataError, match=r"got bytes that are not utf-16.*name another encoding"):
        check_user_data([*words, "utf-16"])
    with pytest.raises(ValueError, match=r"--data\.encoding klingon, expected an encoding"):
        check_user_data([*words, "klingon"])
    with pytest.raises(ValueError, match=r"--data\.separator 'ab', expected a character"):
        check_user_data(["--data", str(folder / "latin.csv"), "--data.separator", "ab"])


def test_floats_are_a_regression_with_their_range(folder: Path) -> None:
    path = folder / "floats.csv"
    words = ["--data", str(path), "--data.label_column=score"]
    regression = ["--data.task=regression", "--data.target_range=[1, 5]"]
    assert [word for word in file_words(words) if word in regression] == regression
    for own in ("--data.task=classification", '--data.classes=["1", "2"]'):
        assert not {*regression} & {*file_words([*words, own])}
    plain = ["--data", str(folder / "minus.csv")]
    assert not any("task" in word for word in file_words(plain))
    grades = file_words([*plain, "--data.task=regression"])
    assert "--data.target_range=[-1, 1]" in grades


def test_leaks_between_files(folder: Path) -> None:
    data = inspect(folder, "plain.csv", "leak.csv", "skewed.csv")
    assert [(Path(leak.file).name, leak.texts, leak.first) for leak in data.leaks] == [
        ("leak.csv", 30, 1),
        ("skewed.csv", 120, 1),
        ("skewed.csv", 30, 1),
    ]
    assert "30 texts of" in describe(data, {})


def test_splits_by_name_or_order() -> None:
    def names(*files: str) -> dict[str, str]:
        return {split: path.name for split, path in assign_splits([*map(Path, files)]).items()}

    assert names("a.csv", "my_dev.csv") == {"train": "a.csv", "validation": "my_dev.csv"}
    assert names("a.csv", "b.csv") == {"train": "a.csv", "test": "b.csv"}
    assert names("a.csv", "test.csv", "b.csv") == {
        "train": "a.csv",
        "test": "test.csv",
        "validation": "b.csv",
    }
    with pytest.raises(ValueError, match="got 4 files"):
        names("a", "b", "c", "d")


def test_json_and_exit_status(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    assert entry(["inspect", "latin.csv", "--json"]) == 0
    content = json.loads(capsys.readouterr().out)
    assert content["next"] == "python -m steadfast train --config default --data latin.csv"
    assert content["files"][0]["labels"] == {"neg": 60, "pos": 60}
    assert content["files"][0]["shape"]["encoding"] == "latin-1"
    assert entry(["inspect", "one_class.csv", "--json"]) == 1
    assert len(json.loads(capsys.readouterr().out)["problems"]) == 1


SCRIPT = """
import os, sys
from app.cli.main import entry
status = entry(sys.argv[1:])
times = os.times()
loaded = [name in sys.modules for name in ("torch", "pyarrow", "numpy")]
print(status, times.user + times.system, *loaded)
"""


@pytest.mark.parametrize("words", ["inspect plain.csv", "train --data semicolon.csv --run x"])
def test_no_torch_within_a_second(folder: Path, words: str) -> None:
    root = Path(__file__).parents[4]
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, *words.split()],
        cwd=folder,
        env={"PYTHONPATH": str(root), "PATH": ""},
        capture_output=True,
        text=True,
        check=True,
    )
    status, seconds, *loaded = done.stdout.splitlines()[-1].split()
    assert status == ("0" if words.startswith("inspect") else "1"), done.stderr
    assert float(seconds) < 1
    assert loaded == ["False"] * 3


# In JSON, rows have columns of their own, so the labels alone are read once more.
@pytest.mark.parametrize(("name", "readings"), [("long.csv", 1), ("long.jsonl", 2)])
def test_a_file_is_read_once(
    tmp_path: Path, name: str, readings: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = [(f"text {i}", "pos" if i % 2 else "neg") for i in range(300)]
    lines = ["text,label", *map(",".join, rows)]
    if name.endswith("l"):
        lines = [json.dumps({"text": text, "label": label}) for text, label in rows]
    (tmp_path / name).write_text("\n".join(lines))
    ends = []

    def read(path: Path, *args: Any, **settings: Any) -> Iterator[Row]:
        yield from read_rows(path, *args, **settings)
        ends.append(path)

    monkeypatch.setattr("datamodules.sources.text_table.read_rows", read)
    data = inspect(tmp_path, name)
    assert (data.files[0].labels, data.problems) == ({"neg": 150, "pos": 150}, [])
    assert len(ends) == readings
