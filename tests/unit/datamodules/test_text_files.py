from pathlib import Path
from typing import Any

import pytest

from datamodules import DataError, TextFiles
from text import WordTokenizer


def make(folder: Path, **files: str) -> None:
    for name, content in files.items():
        (folder / name.replace("_", ".")).write_text(content, encoding="utf-8")


def texts(module: TextFiles, split: Any) -> list[tuple[Any, ...]]:
    return [example[:3] for example in module.examples(split)]


def test_named_columns_of_three_formats(tmp_path: Path) -> None:
    make(
        tmp_path,
        a_tsv='id\treview\tmood\n1\tall "good\tglad\n2\tbad\tsad\n',
        b_csv='mood,review\nsad,"not good, no"\n',
        c_jsonl='{"mood": "glad", "review": "fine"}\n',
    )
    module = TextFiles(
        train="a.tsv",
        validation="b.csv",
        test="c.jsonl",
        text_column="review",
        label_column="mood",
        name="moods",
        data_dir=str(tmp_path),
    )
    module.setup()
    assert (module.corpus, module.class_names, module.pairs) == ("moods", ["glad", "sad"], False)
    assert texts(module, "train") == [('all "good', 0, 0), ("bad", 1, 1)]
    assert texts(module, "validation") == [("not good, no", 1, 0)]
    assert texts(module, "test") == [("fine", 0, 0)]


def test_classes_that_the_user_names(tmp_path: Path) -> None:
    make(tmp_path, a_tsv="text\tlabel\nx\t1\ny\t0\n")
    module = TextFiles(train="a.tsv", test="a.tsv", classes=["no", "yes"], data_dir=str(tmp_path))
    module.setup("test")
    assert module.class_names == ["no", "yes"]
    assert texts(module, "test") == [("x", 1, 0), ("y", 0, 1)]


def test_classes_are_inferred_in_the_order_of_numbers(tmp_path: Path) -> None:
    make(tmp_path, a_tsv="text\tlabel\n" + "".join(f"x\t{i}\n" for i in (10, 9, -1, 10)))
    module = TextFiles(train="a.tsv", test="a.tsv", data_dir=str(tmp_path))
    module.setup("test")
    assert module.class_names == ["-1", "9", "10"]
    assert [label for _, label, _ in texts(module, "test")] == [2, 1, 0, 2]


def test_a_tenth_validates_where_there_is_no_file_for_it(tmp_path: Path) -> None:
    make(tmp_path, a_csv="text,label\n" + "".join(f"t{i},{i % 2}\n" for i in range(50)))
    modules = [TextFiles(train="a.csv", seed=seed, data_dir=str(tmp_path)) for seed in (0, 1)]
    for module in modules:
        module.setup("fit")
    first, second = modules
    assert len(first.examples("validation")) == 5
    assert first.examples("validation") == second.examples("validation")
    together = {text for split in ("train", "validation") for text, *_ in texts(first, split)}
    assert len(together) == 50
    for split in ("train", "validation"):
        ids = [sample for *_, sample in texts(first, split)]
        assert ids == list(range(len(ids)))
    make(tmp_path, b_csv="text,label\na,0\n")
    alone = TextFiles(train="b.csv", classes=["0", "1"], data_dir=str(tmp_path))
    with pytest.raises(DataError, match="validate"):
        alone.setup("fit")


def test_a_test_file_without_labels_can_be_predicted_but_not_tested(tmp_path: Path) -> None:
    make(tmp_path, a_tsv="text\tlabel\nx\t\ny\t-1\n")
    module = TextFiles(test="a.tsv", classes=["no", "yes"], data_dir=str(tmp_path))
    module.setup("predict")
    module.tokenizer = WordTokenizer.build(["x y"])
    (batch,) = module.predict_dataloader()
    assert batch.labels is None
    with pytest.raises(DataError, match="test split without labels"):
        module.test_dataloader()


def test_rows_without_label_among_others_are_bad_rows_but_to_predict(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    make(tmp_path, a_tsv="text\tlabel\nx\t1\ny\t\nz\t2\nx\t0\n" + "y\t-1\n" * 5)
    settings: dict[str, Any] = {"test": "a.tsv", "classes": ["no", "yes"]}
    with pytest.raises(DataError) as caught:
        TextFiles(**settings, data_dir=str(tmp_path)).setup("test")
    first, *lines = str(caught.value).splitlines()
    path, bare = tmp_path / "a.tsv", "no label in column 'label' (6 of 8 rows)"
    assert "got 7 bad row(s)" in first
    assert "--data.on_bad_row skip" in first
    assert lines[0] == f"{path}, line 3: {bare}, expected one in all rows or in none"
    assert lines[1].startswith(f"{path}, line 4: unknown label '2'")
    assert lines[4].startswith(f"{path}, line 8: {bare}")
    assert lines[5] == "... and 2 more"

    module = TextFiles(**settings, on_bad_row="skip", data_dir=str(tmp_path))
    module.setup("test")
    module.tokenizer = WordTokenizer.build(["x y"])
    assert "7 bad row(s) skipped of 9" in caplog.text
    assert texts(module, "test") == [("x", 1, 0), ("x", 0, 1)]
    (batch,) = module.test_dataloader()
    assert batch.labels is not None
    module.setup("predict")
    assert [label for _, label, _ in texts(module, "test")] == [1, None, 0, *[None] * 5]
    (batch,) = module.predict_dataloader()
    assert (len(batch), batch.labels) == (8, None)
    module.setup("test")
    assert len(next(iter(module.test_dataloader()))) == 2


@pytest.mark.parametrize(
    ("settings", "stage", "message"),
    [
        ({"train": "a.tsv"}, "test", r"no test file.*--data\.test"),
        ({"test": "a.tsv"}, "test", r"--data\.classes"),
        ({"classes": ["0", "1"]}, "fit", r"no train file.*--data\.train"),
        ({"train": "none.tsv"}, "fit", r"none\.tsv, not found"),
        ({"train": "a.tsv", "label_column": "mood"}, "fit", r"no column 'mood'; the file has text"),
        ({"train": "one.tsv"}, "fit", r"got 1 distinct labels"),
    ],
)
def test_what_is_missing_is_said(
    tmp_path: Path, settings: dict[str, Any], stage: str, message: str
) -> None:
    make(tmp_path, a_tsv="text\tlabel\nx\t1\ny\t0\n", one_tsv="text\tlabel\nx\t1\ny\t1\n")
    module = TextFiles(**settings, data_dir=str(tmp_path))
    with pytest.raises(DataError, match=message):
        module.setup(stage)


@pytest.mark.parametrize("classes", [["a"], ["a", "a"]])
def test_classes_must_differ(classes: list[str]) -> None:
    with pytest.raises(ValueError, match="two different ones"):
        TextFiles(classes=classes)


def test_a_share_of_the_rows_tests(tmp_path: Path) -> None:
    make(tmp_path, a_csv="text,label\n" + "".join(f"t{i},{i % 2}\n" for i in range(50)))
    modules = [
        TextFiles(train="a.csv", test_share=0.2, seed=seed, data_dir=str(tmp_path))
        for seed in (0, 1)
    ]
    for module in modules:
        module.setup()
    splits = [
        {split: texts(module, split) for split in ("train", "validation", "test")}
        for module in modules
    ]
    assert splits[0] == splits[1]
    assert {split: len(rows) for split, rows in splits[0].items()} == {
        "train": 36,
        "validation": 4,
        "test": 10,
    }
    assert len({text for rows in splits[0].values() for text, _, _ in rows}) == 50
    # A test alone, as after the training, has the same rows.
    alone = TextFiles(train="a.csv", test_share=0.2, data_dir=str(tmp_path))
    alone.setup("test")
    assert texts(alone, "test") == splits[0]["test"]


def test_a_share_that_cannot_test(tmp_path: Path) -> None:
    make(tmp_path, a_csv="text,label\nx,0\ny,1\n")
    folder = str(tmp_path)
    with pytest.raises(ValueError, match=r"got test a.csv and test_share 0.5, expected one"):
        TextFiles(train="a.csv", test="a.csv", test_share=0.5, data_dir=folder)
    with pytest.raises(ValueError, match="test_share=1"):
        TextFiles(train="a.csv", test_share=1.0, data_dir=folder)
    with pytest.raises(DataError, match=r"got 2 rows and test_share 0.1, expected some rows"):
        TextFiles(train="a.csv", test_share=0.1, data_dir=folder).setup("test")


@pytest.mark.parametrize(
    ("name", "content", "shape"),
    [
        ("a.csv", 'text;label\n"süß; sehr";gut\nbitter;schlecht\n'.encode("latin-1"), "latin-1"),
        ("a.tsv", "text\tlabel\nsüß; sehr\tgut\nbitter\tschlecht\n".encode("utf-16"), "utf-16"),
        ("a.txt", "text|label\nsüß; sehr|gut\nbitter|schlecht\n".encode("utf-8-sig"), "order mark"),
        (
            "a.json",
            '[{"text":"süß; sehr","label":"gut"},\n{"text":"bitter","label":"schlecht"}]'.encode(),
            "",
        ),
    ],
)
def test_any_shape_is_read_alike_and_logged(
    tmp_path: Path, name: str, content: bytes, shape: str, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / name).write_bytes(content)
    module = TextFiles(train=name, test=name, data_dir=str(tmp_path))
    caplog.set_level("INFO", "datamodules")
    module.setup("test")
    assert module.class_names == ["gut", "schlecht"]
    assert texts(module, "test") == [("süß; sehr", 0, 0), ("bitter", 1, 1)]
    assert (f"{tmp_path / name}: " in caplog.text) == bool(shape)
    assert shape in caplog.text


def test_separator_and_encoding_override_what_is_found(tmp_path: Path) -> None:
    make(tmp_path, a_csv="text,x;label\nn,1;gut\nm,2;schlecht\n")
    found = TextFiles(train="a.csv", text_column="text,x", data_dir=str(tmp_path))
    with pytest.raises(
        DataError, match=r"no columns 'text,x', 'label'; the file has text, x;label"
    ):
        found.setup("fit")
    (tmp_path / "a.csv").write_bytes("text,x;label\nщ,1;gut\nm,2;schlecht\n".encode("cp1251"))
    module = TextFiles(
        train="a.csv",
        test="a.csv",
        text_column="text,x",
        separator="semicolon",
        encoding="cp1251",
        data_dir=str(tmp_path),
    )
    module.setup("test")
    assert texts(module, "test") == [("щ,1", 0, 0), ("m,2", 1, 1)]


def test_dotted_paths_name_values_of_nested_objects(tmp_path: Path) -> None:
    row = '{"meta": {"label": "%s"}, "body.text": "%s", "tags": {"a.b": 1}}\n'
    make(tmp_path, a_jsonl=row % ("gut", "süß") + row % ("schlecht", "bitter"))
    module = TextFiles(
        train="a.jsonl",
        test="a.jsonl",
        text_column="body.text",
        label_column="meta.label",
        data_dir=str(tmp_path),
    )
    module.setup("test")
    assert texts(module, "test") == [("süß", 0, 0), ("bitter", 1, 1)]
    lost = TextFiles(train="a.jsonl", label_column="meta.lable", data_dir=str(tmp_path))
    with pytest.raises(DataError, match=r"meta.label, body.text.*--data.label_column meta.label"):
        lost.setup("fit")


def test_unreadable_rows_come_before_missing_classes(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_bytes(b"text,label\n\x81,good\nb\x81,bad\n")
    with pytest.raises(DataError, match=r"got 2 unreadable rows(?s:.*)byte 0x81") as caught:
        TextFiles(train="a.csv", data_dir=str(tmp_path)).setup("fit")
    assert "right column" not in str(caught.value)


def test_slices_are_columns_of_the_test_file(tmp_path: Path) -> None:
    make(
        tmp_path,
        a_tsv="text\tlabel\nx\t1\ny\t0\n",
        b_tsv="text\tlabel\tsource\tnumber\n"
        + "".join(f"x\t{i % 2}\t{'web' if i % 2 else ''}\t{i}\n" for i in range(51)),
    )
    files: dict[str, Any] = {"train": "a.tsv", "test": "b.tsv", "data_dir": str(tmp_path)}
    module = TextFiles(**files, slices="source, label")
    module.setup()  # a file to train on does not need them
    slices = [example.slices for example in module.examples("test")]
    assert slices[:2] == [("source=missing", "label=0"), ("source=web", "label=1")]
    for column, message in {
        "sorce": r"'sorce' .*not found.*text, label, source, number: did you mean .* source`",
        "number": r"51 different values in column 'number'.*expected 50",
    }.items():
        wrong = TextFiles(**files, slices=column)
        with pytest.raises(DataError, match=message):
            wrong.setup("test")
        wrong.setup("predict")
    with pytest.raises(ValueError, match="slices"):
        TextFiles(slices="source", task="regression", target_range=[0, 1])
