"""Regression, tagging and multiple choice: from files to batches, and what files may hold."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch

from datamodules import (
    DREAM,
    STSB,
    WNUT17,
    DataError,
    HellaSwag,
    TaggedFiles,
    TextDataModule,
    TextFiles,
)
from datamodules.batching.examples import target
from text import IGNORED, Choices, PretrainedTokenizer, Words, train_word_piece

TEXTS = ["the walls of the old town were high", "who walked to town", "she was walking there"]


@pytest.fixture(scope="module")
def tokenizer() -> PretrainedTokenizer:
    return train_word_piece(TEXTS * 20, 60, max_length=16)


def put(folder: Path, name: str, content: str) -> None:
    path = folder / name
    path.parent.mkdir(exist_ok=True)
    path.write_text(content, encoding="utf-8")


def scores(*rows: tuple[str, str, str]) -> str:
    return "".join(f"{a}\t{b}\t{c}\n" for a, b, c in (("score", "sentence1", "sentence2"), *rows))


# Regression


@pytest.mark.parametrize(
    ("value", "number"),
    [("2.50", 2.5), (3, 3.0), (0.0, 0.0), ("5e0", 5.0), (" 1 ", 1.0), ("", None), (None, None)],
)
def test_targets(value: Any, number: float | None) -> None:
    assert target(value, (0.0, 5.0)) == number


@pytest.mark.parametrize(
    "value",
    ["good", "nan", "inf", "1e999", "-0.1", 5.1, "1_0", True, [1], float("nan"), "1,5", 10**400],
)
def test_targets_that_are_none(value: Any) -> None:
    with pytest.raises(ValueError, match=r"got target .*, expected a number from 0 to 5"):
        target(value, (0.0, 5.0))


def test_bad_scores_are_told_by_file_and_line(tmp_path: Path) -> None:
    good = scores(("1.5", "a", "b"))
    put(tmp_path, "stsb/validation.tsv", good)
    bad = ("text", "nan", "", "5.01", "-1", "1.0.0")
    put(tmp_path, "stsb/train.tsv", scores(*((value, "a", "b") for value in bad)))
    with pytest.raises(DataError) as caught:
        STSB(data_dir=str(tmp_path)).setup("fit")
    message = str(caught.value)
    path = tmp_path / "stsb" / "train.tsv"
    assert "got 6 bad row(s)" in message
    assert f"{path}, line 2: got target 'text', expected a number from 0 to 5" in message
    assert f"{path}, line 3: got target 'nan'" in message
    assert f"{path}, line 4: no label in column 'score'" in message
    assert message.endswith("... and 1 more")


def test_scores_are_targets(tmp_path: Path, tokenizer: PretrainedTokenizer) -> None:
    rows = [(f"{i / 4:.3f}", "the town", "the " * (i + 1)) for i in range(9)]
    for split in ("train", "validation"):
        put(tmp_path, f"stsb/{split}.tsv", scores(*rows))
    module = STSB(data_dir=str(tmp_path), batch_size=4)
    module.setup("fit")
    module.tokenizer = tokenizer
    assert (module.task, module.class_names, module.pairs) == ("regression", [], True)
    assert module.target_range == (0.0, 5.0)
    seen: dict[int, float] = {}
    for batch in module.train_dataloader():
        assert batch.labels is not None
        assert batch.labels.dtype == torch.float32
        assert batch.labels.shape == (len(batch),)
        seen |= dict(zip(batch.sample_ids.tolist(), batch.labels.tolist(), strict=True))
    assert seen == {i: i / 4 for i in range(9)}
    # The test pairs of the hub have no scores: validation stands for them.
    module.setup("test")
    assert len(module.examples("test")) == 9


def test_regression_on_own_files(tmp_path: Path, tokenizer: PretrainedTokenizer) -> None:
    put(tmp_path, "a.csv", "text,stars\ngood,4\nbad,1\n")
    settings: dict[str, Any] = {
        "train": "a.csv",
        "validation": "a.csv",
        "test": "a.csv",
        "label_column": "stars",
        "data_dir": str(tmp_path),
    }
    module = TextFiles(**settings, task="regression", target_range=[1, 5])
    module.setup()
    module.tokenizer = tokenizer
    assert module.examples("test")[0].label == 4.0
    assert module.class_names == []
    (batch,) = module.test_dataloader()
    assert batch.labels is not None
    assert sorted(batch.labels.tolist()) == [1.0, 4.0]
    assert batch.labels.dtype == torch.float32
    with pytest.raises(DataError, match=r"line 3: got target '1', expected .* from 2 to 5"):
        TextFiles(**settings, task="regression", target_range=[2, 5]).setup()


@pytest.mark.parametrize(
    "settings",
    [
        {"task": "regression"},
        {"task": "regression", "target_range": [1]},
        {"task": "regression", "target_range": [5, 1]},
        {"task": "regression", "target_range": [0, float("inf")]},
        {"target_range": [0, 1]},
        {"task": "regression", "target_range": [0, 1], "classes": ["a", "b"]},
        {"task": "tagging"},
    ],
)
def test_settings_of_regression(settings: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="got "):
        TextFiles(**settings)


# Tagging

CONLL = "the\tO\nold\tB-location\ntown\tI-location\n\nwalking\tO\nwho\tB-person\n"


def test_tags_stand_at_the_first_token_of_each_word(
    tmp_path: Path, tokenizer: PretrainedTokenizer
) -> None:
    put(tmp_path, "wnut17/test.conll", CONLL)
    module = WNUT17(data_dir=str(tmp_path))
    module.setup("test")
    module.tokenizer = tokenizer
    assert (module.task, module.pairs, module.num_classes) == ("tagging", False, 13)
    assert module.class_names[:3] == ["O", "B-corporation", "I-corporation"]
    inside, person = map(module.class_names.index, ("I-location", "B-person"))
    first, second = module.examples("test")
    assert first.text == Words(("the", "old", "town"))
    assert first.label == (0, inside - 1, inside)
    (batch,) = module.test_dataloader()
    assert batch.labels is not None
    assert batch.labels.shape == batch.input_ids.shape
    for row, sample in enumerate(batch.sample_ids.tolist()):
        (coded,) = tokenizer.encode_words([(first, second)[sample].text])  # type: ignore[list-item] # of a tagging corpus
        tags = dict(zip(coded.starts, ((0, inside - 1, inside), (0, person))[sample], strict=True))
        assert batch.labels[row].tolist() == [
            tags.get(place, IGNORED) for place in range(batch.labels.shape[1])
        ]


def test_words_that_are_cut_off_are_counted(
    tmp_path: Path, tokenizer: PretrainedTokenizer, caplog: pytest.LogCaptureFixture
) -> None:
    put(tmp_path, "wnut17/test.conll", "the\tO\n\n" + "the\tB-person\n" * 20)
    module = WNUT17(data_dir=str(tmp_path))
    module.setup("test")
    module.tokenizer = tokenizer
    (batch,) = module.test_dataloader()
    assert (
        "wnut17: 1 of 2 test texts cut to 16 tokens: 6 of 21 words are cut off, which training "
        "does not see and figures count as wrong" in caplog.text
    )
    assert batch.labels is not None
    assert (batch.labels != IGNORED).sum() == 15
    person = module.class_names.index("B-person")
    rows = {0: [IGNORED] * 6, 1: [person] * 6}
    assert batch.cut_tags is not None
    assert batch.cut_tags.tolist() == [rows[sample] for sample in batch.sample_ids.tolist()]


def test_bad_tags_are_told_by_file_and_line(tmp_path: Path) -> None:
    bad = "one\tO\tO\n\ntwo\tB-city\n\nthree\n\n"
    put(tmp_path, "wnut17/train.conll", CONLL + "\n" + bad)
    put(tmp_path, "wnut17/validation.conll", CONLL)
    path = tmp_path / "wnut17" / "train.conll"
    with pytest.raises(DataError) as caught:
        WNUT17(data_dir=str(tmp_path)).setup("fit")
    message = str(caught.value)
    assert f"{path}, line 8: got 3 fields, expected 2, a word and its tag" in message
    assert f"{path}, line 10: got tag 'B-city', expected one of ['O', 'B-corporation'" in message
    assert f"{path}, line 12: no label in column 'tags'" in message
    module = WNUT17(data_dir=str(tmp_path), on_bad_row="skip")
    module.setup("fit")
    assert len(module.examples("train")) == 2


def test_own_tagged_files(tmp_path: Path, tokenizer: PretrainedTokenizer) -> None:
    sentence = "who\tB-b\nwalked\tI-a\nto\tO\ntown\tO\n\n"
    put(tmp_path, "a.txt", sentence * 20)
    put(tmp_path, "new.txt", "who\nwalked\n\nthere\n")
    module = TaggedFiles(train="a.txt", test="new.txt", name="mine", data_dir=str(tmp_path))
    module.setup("fit")
    module.setup("predict")
    module.tokenizer = tokenizer
    assert module.class_names == ["O", "B-a", "I-a", "B-b", "I-b"]
    assert module.corpus == "mine"
    assert set(module._content() or ()) == {"train rows", "validation rows"}
    assert [len(module.examples(s)) for s in ("train", "validation", "test")] == [18, 2, 2]
    assert next(iter(module.train_texts())) == "who walked to town"
    (batch,) = module.predict_dataloader()
    assert batch.labels is None
    with pytest.raises(DataError, match="test split without labels"):
        module.test_dataloader()


def test_tags_that_the_user_names(tmp_path: Path) -> None:
    put(tmp_path, "a.txt", "who\tB-b\n")
    named = TaggedFiles(test="a.txt", classes=["O", "B-b", "I-b"], data_dir=str(tmp_path))
    named.setup("test")
    assert named.examples("test")[0].label == (1,)
    with pytest.raises(DataError, match=r"a\.txt, line 1: got tag 'B-b'"):
        TaggedFiles(test="a.txt", classes=["O", "B-a"], data_dir=str(tmp_path)).setup("test")
    put(tmp_path, "b.txt", "who\tO\n")
    nameless: list[dict[str, Any]] = [{"train": "b.txt"}, {"test": "a.txt"}]
    for settings in nameless:
        with pytest.raises(DataError, match=r"no tag but O|--data\.classes"):
            TaggedFiles(**settings, data_dir=str(tmp_path)).setup("test")
    for classes in (["B-a", "O"], ["O", "noun"], ["O"], ["O", "O"]):
        with pytest.raises(ValueError, match=r"expected O, and behind it|two different"):
            TaggedFiles(classes=classes)


# Multiple choice


def question(text: str, *choices: str, answer: str | None = None) -> dict[str, Any]:
    return {"question": text, "choice": list(choices), "answer": answer or choices[0]}


def dream(folder: Path, split: str, *entries: Any) -> None:
    put(folder, f"dream/{split}.json", json.dumps(entries))


DIALOGUE = ["M: who walked to town?", "W: she was there."]


def test_questions_about_dialogues(tmp_path: Path, tokenizer: PretrainedTokenizer) -> None:
    questions = [
        question("who?", "she", "M", "W", answer="M"),
        question("where?", "town", "old", "on"),
    ]
    dream(tmp_path, "test", [DIALOGUE, questions, "1-1"], [["W: no."], [questions[0]], "1-2"])
    module = DREAM(data_dir=str(tmp_path), eval_batch_size=2)
    module.setup("test")
    module.tokenizer = tokenizer
    assert (module.task, module.pairs, module.class_names) == ("choice", True, ["A", "B", "C"])
    first, second, third = module.examples("test")
    context = "M: who walked to town? W: she was there."
    assert first.text == Choices(context, ("who? she", "who? M", "who? W"))
    assert [first.label, second.label, third.label] == [1, 0, 1]
    assert [third.text[0], third.sample_id] == ["W: no.", 2]
    encoded = module._encode("test")
    rows = [tokenizer.encode(e.text.pairs) for e in (first, second, third)]  # type: ignore[union-attr] # of a choice corpus
    # The longest row is what padding goes by.
    assert encoded.lengths.tolist() == [max(len(r.input_ids) for r in three) for three in rows]
    assert encoded.truncated == 2
    labels = []
    for batch in module.test_dataloader():
        assert batch.choices == 3
        assert batch.input_ids.shape[0] == 3 * len(batch)
        assert batch.labels is not None
        assert batch.segment_ids is not None
        for i, sample in enumerate(batch.sample_ids.tolist()):
            labels.append((sample, batch.labels[i].item()))
            for k in range(3):
                row = 3 * i + k
                real = batch.mask[row]
                assert batch.input_ids[row, real].tolist() == rows[sample][k].input_ids
                assert batch.segment_ids[row, real].tolist() == rows[sample][k].segment_ids
    assert sorted(labels) == [(0, 1), (1, 0), (2, 1)]


GOOD = [DIALOGUE, [question("who?", "she", "M", "W")], "1-1"]


@pytest.mark.parametrize(
    ("entry", "problem"),
    [
        ([DIALOGUE, [question("who?", "she", "M")], "x"], "question 1: got 2 choices in column"),
        ([DIALOGUE, [question("who?", *"abcd")], "x"], "question 1: got 4 choices in column"),
        ([DIALOGUE, [question("who?", *"abc", answer="d")], "x"], "question 1: got answer 'd'"),
        ([DIALOGUE, [question("who?", *"aab", answer="a")], "x"], "question 1: got answer 'a'"),
        ([DIALOGUE, [{"question": "who?"}], "x"], "question 1: got {'question': 'who?'}, expec"),
        ([DIALOGUE, [question("who?", "a", "", "c")], "x"], "question 1: got "),
        ([DIALOGUE, [question("who?", "a", "b", 3)], "x"], "question 1: got "),  # type: ignore[arg-type] # what a file may hold
        ([[], [], "x"], "got [[], [], 'x'], expected [dialogue turns, questions, id]"),
        ([[" "], [question("who?", *"abc")], "x"], "empty text in column 'dialogue'"),
        ([[7], [question("who?", *"abc")], "x"], "got [[7], [{'question': 'who?', 'choice'"),
        ({"question": "who?"}, "got {'question': 'who?'}, expected [dialogue turns"),
        (None, "got None, expected [dialogue turns"),
        ("text", "got 'text', expected [dialogue turns"),
    ],
)
def test_bad_entries_are_told_by_their_number(tmp_path: Path, entry: Any, problem: str) -> None:
    put(tmp_path, "dream/train.json", f"[{json.dumps(GOOD)},\n{json.dumps(entry)}]")
    dream(tmp_path, "validation", GOOD)
    with pytest.raises(DataError) as caught:
        DREAM(data_dir=str(tmp_path)).setup("fit")
    assert f"{tmp_path / 'dream' / 'train.json'}, entry 2, line 2: {problem}" in str(caught.value)
    module = DREAM(data_dir=str(tmp_path), on_bad_row="skip")
    module.setup("fit")
    assert len(module.examples("train")) == 1


def swag(*rows: dict[str, Any]) -> str:
    return "".join(json.dumps(row) + "\n" for row in rows)


def test_endings(tmp_path: Path, tokenizer: PretrainedTokenizer) -> None:
    four = ["walked to town", "was high", "was old", "walls"]
    rows = [{"ctx": "she", "endings": four, "label": label, "ind": 1} for label in (3, "1", 0)]
    put(tmp_path, "hellaswag/validation.jsonl", swag(*rows))
    module = HellaSwag(data_dir=str(tmp_path))
    module.setup("test")
    module.tokenizer = tokenizer
    assert module.class_names == ["A", "B", "C", "D"]
    assert [example.label for example in module.examples("test")] == [3, 1, 0]
    assert module.examples("test")[0].text == Choices("she", tuple(four))
    (batch,) = module.test_dataloader()
    assert (len(batch), batch.choices, batch.input_ids.shape[0]) == (3, 4, 12)
    assert list(module.examples("test")[0].text.pairs)[1] == ("she", "was high")  # type: ignore[union-attr] # of a choice corpus


@pytest.mark.parametrize("label", [None, "", -1])
def test_test_texts_without_label_can_be_predicted(
    tmp_path: Path, tokenizer: PretrainedTokenizer, label: Any
) -> None:
    put(
        tmp_path,
        "hellaswag/test.jsonl",
        swag({"ctx": "a", "endings": list("abcd"), "label": label}),
    )
    module = HellaSwag(data_dir=str(tmp_path))
    module.setup("predict")
    module.tokenizer = tokenizer
    (batch,) = module.predict_dataloader()
    assert (batch.labels, batch.choices) == (None, 4)
    with pytest.raises(DataError, match="test split without labels"):
        module.test_dataloader()


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"endings": ["a", "b", "c"]}, "got 3 choices in column 'endings', expected 4 in each row"),
        ({"endings": ["a", "b", "c", "d", "e"]}, "got 5 choices in column 'endings', expected 4"),
        ({"endings": "abcd"}, "column 'endings' holds str, expected a list of texts"),
        ({"endings": ["a", "b", "c", None]}, "column 'endings' holds NoneType, expected text"),
        ({"endings": ["a", "b", "c", " "]}, "empty text in column 'endings'"),
        ({"endings": ["a", "b", "c", "\ud800"]}, "broken encoding"),
        ({"ctx": ""}, "empty text in column 'ctx'"),
        ({"label": 4}, "unknown label '4', expected one of ['A', 'B', 'C', 'D'] or 0 ... 3"),
        ({"label": None}, "no label in column 'label'"),
    ],
)
def test_bad_endings_are_told_by_line(tmp_path: Path, change: dict[str, Any], problem: str) -> None:
    good = {"ctx": "she", "endings": list("abcd"), "label": 1}
    put(tmp_path, "hellaswag/train.jsonl", swag(good, good | change))
    put(tmp_path, "hellaswag/validation.jsonl", swag(good))
    with pytest.raises(DataError) as caught:
        HellaSwag(data_dir=str(tmp_path)).setup("fit")
    path = tmp_path / "hellaswag" / "train.jsonl"
    assert f"{path}, line 2: {problem}" in str(caught.value)


@pytest.mark.parametrize(
    ("kind", "name", "content", "problem"),
    [
        (STSB, "stsb/test.tsv", scores(("1.5", "a", "b"), ("", "c", "d")), "line 3: .* 'score'"),
        (WNUT17, "wnut17/test.conll", "who\tO\n\nwalked\nto\n", "line 3: .* 'tags'"),
        (
            HellaSwag,
            "hellaswag/test.jsonl",
            swag(*({"ctx": "a", "endings": list("abcd"), "label": label} for label in (3, ""))),
            "line 2: .* 'label'",
        ),
    ],
)
def test_a_test_row_without_label_among_others_is_a_bad_row(
    tmp_path: Path, kind: type[TextDataModule], name: str, content: str, problem: str
) -> None:
    put(tmp_path, name, content)
    with pytest.raises(DataError, match=rf"{name}, {problem} \(1 of 2 rows\)"):
        kind(data_dir=str(tmp_path)).setup("test")
    module = kind(data_dir=str(tmp_path), on_bad_row="skip")
    module.setup("test")
    assert len(module.examples("test")) == 1
    module.setup("predict")
    assert len(module.examples("test")) == 2


@pytest.mark.parametrize("kind", [STSB, WNUT17, DREAM])
def test_what_a_folder_is_looked_through_for(tmp_path: Path, kind: type[TextDataModule]) -> None:
    module = kind(data_dir=str(tmp_path))
    (tmp_path / kind.corpus).mkdir()
    assert module.look()["train"] == "absent"
    ending = ".tsv" if kind is STSB else kind.endings[0]
    put(tmp_path, f"{kind.corpus}/train{ending}", "[1] 2 3")
    problem = "got 3 fields" if kind is WNUT17 else "got 1, expected [dialogue turns"
    assert ("got columns" if kind is STSB else problem) in str(module.look()["train"])
