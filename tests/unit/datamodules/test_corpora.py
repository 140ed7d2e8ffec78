"""The corpora in their layout on disk, and on the real files where these are present."""

import inspect
import re
from collections import Counter
from pathlib import Path
from typing import Any, Literal

import pytest
from jsonargparse import ArgumentError, ArgumentParser

import datamodules
from datamodules import Corpus, DataError, Example, TextDataModule, TextFiles
from datamodules.sources.rows import Split
from datamodules.user_files import UserFiles
from text import WordTokenizer

CORPORA = [
    ("SST2", "sst2", ("sentence",), 2),
    ("YelpPolarity", "yelp_polarity", ("text",), 2),
    ("IMDB", "imdb", ("text",), 2),
    ("AGNews", "ag_news", ("text",), 4),
    ("SmsSpam", "sms_spam", ("text",), 2),
    ("PromptInjections", "prompt_injections", ("text",), 2),
    ("HateOffensive", "hate_offensive", ("text",), 3),
    ("SNLI", "snli", ("premise", "hypothesis"), 3),
    ("QQP", "qqp", ("question1", "question2"), 2),
    ("QNLI", "qnli", ("question", "sentence"), 2),
    ("RTE", "rte", ("sentence1", "sentence2"), 2),
    ("MRPC", "mrpc", ("sentence1", "sentence2"), 2),
    ("PAWSQQP", "paws_qqp", ("sentence1", "sentence2"), 2),
]


@pytest.mark.parametrize(("name", "folder", "columns", "classes"), CORPORA)
def test_layout_on_disk(
    tmp_path: Path, name: str, folder: str, columns: tuple[str, ...], classes: int
) -> None:
    (tmp_path / folder).mkdir()
    header = "\t".join([*columns, "label"])
    rows = ["\t".join([*(f"{c} {i}" for c in columns), str(i % classes)]) for i in range(40)]
    for split in ("train", "test"):
        (tmp_path / folder / f"{split}.tsv").write_text("\n".join([header, *rows, ""]))
    module: TextDataModule = getattr(datamodules, name)(data_dir=str(tmp_path), batch_size=4)
    if not module.holdout:
        (tmp_path / folder / "validation.tsv").write_text("\n".join([header, *rows[:2], ""]))
    module.setup("fit")
    module.setup("test")
    assert (module.corpus, module.num_classes) == (folder, classes)
    assert module.pairs == (len(columns) == 2)
    held_out = max(1, round(40 * module.holdout))
    assert len(module.examples("validation")) == (held_out if module.holdout else 2)
    assert len(module.examples("train")) == 40 - (held_out if module.holdout else 0)
    assert module.examples("test")[3].label == 3 % classes
    module.tokenizer = WordTokenizer.build(module.train_texts())
    batch = next(iter(module.train_dataloader()))
    assert len(batch) == 4
    assert (batch.segment_ids is not None) == module.pairs


def test_one_class_against_the_rest(tmp_path: Path) -> None:
    rows = "text\tlabel\na\thate\nb\tneither\nc\toffensive\nd\thate\n"
    (tmp_path / "hate_offensive").mkdir()
    (tmp_path / "hate_offensive" / "test.tsv").write_text(rows)
    file = tmp_path / "own.tsv"
    file.write_text(rows)
    corpora: list[TextDataModule] = [
        datamodules.HateOffensive(data_dir=str(tmp_path), against_rest="Hate"),
        TextFiles(train=str(file), test=str(file), min_rows_per_class=0, against_rest="hate"),
    ]
    for corpus in corpora:
        corpus.setup("test")
        corpus.setup("predict")  # merges nothing twice
        assert corpus.class_names == ["rest", "hate"]
        assert [example.label for example in corpus.examples("test")] == [1, 0, 0, 1]
        assert corpus.own_synonyms == ()
    # A study reads rows without a setup.
    unset = datamodules.HateOffensive(data_dir=str(tmp_path), against_rest="hate")
    for split in ("train", "validation"):
        (tmp_path / "hate_offensive" / f"{split}.tsv").write_text(rows)
    assert [example.label for example in unset.training_rows()] == [1, 0, 0, 1]
    wrong = datamodules.HateOffensive(data_dir=str(tmp_path), against_rest="hat")
    with pytest.raises(DataError, match=r"against_rest 'hat'.*'neither'\]; did you mean hate\?"):
        wrong.setup("test")


def test_command_lines_list_corpora_and_no_base_class_but_their_own() -> None:
    parser = ArgumentParser()
    parser.add_subclass_arguments(Corpus, "data")
    listed = "".join(parser.format_help().split()).partition("knownsubclasses:")[2].rstrip(")")
    names = {name.rpartition(".")[2] for name in listed.split(",") if name[:11] == "datamodules"}
    assert names == {*datamodules.CORPORA, "Corpus"}


@pytest.mark.parametrize("name", sorted(datamodules.CORPORA))
def test_help_tells_files_and_columns(name: str) -> None:
    kind = datamodules.CORPORA[name]
    parser = ArgumentParser()
    parser.add_class_arguments(kind, "data")
    # Without the places where lines were broken.
    help_text = "".join(parser.format_help().split())
    assert "--data.data_dir" in help_text
    if not issubclass(kind, TextDataModule) or issubclass(kind, UserFiles | datamodules.Reviews):
        return
    assert f"folderDIRwith`{kind.corpus}/" in help_text
    endings = "|".join(ending[1:] for ending in kind.endings)
    assert (f".<{endings}>[.gz]`" if "|" in endings else f".{endings}[.gz]`") in help_text
    if kind.task in ("classification", "regression"):
        for column in (*kind.text_columns, kind.label_column):
            assert f"`{column}`" in help_text
    if kind.task == "classification" and kind.label_column == "label":
        assert f"`label`({','.join(kind().class_names)})".replace(" ", "") in help_text
    hub = ",".join(part for part in (kind.hub_id, kind.hub_config) if part)
    assert (f"comefromthehub({hub})" if hub else "notonthehub") in help_text
    tested = "Without`test`,`validation`istestedon" in help_text
    assert tested == (kind.hub_splits["test"] == "validation")
    assert ("Without`validation`,one" in help_text) == (kind.holdout > 0)


@pytest.mark.parametrize("name", sorted(datamodules.CORPORA))
def test_settings_are_declared_once_and_explained(name: str) -> None:
    kind = datamodules.CORPORA[name]
    declared: dict[str, Any] = {}
    for base in reversed(kind.__mro__[: kind.__mro__.index(Corpus) + 1]):
        if "__init__" not in vars(base):
            continue
        doc = inspect.cleandoc(base.__doc__ or "").split("Args:")[1]
        explained = re.findall(r"^    (\w+): ((?:.+\n?)(?: {8}.+\n?)*)", doc, flags=re.MULTILINE)
        texts = {setting: " ".join(text.split()) for setting, text in explained}
        parameters = list(inspect.signature(vars(base)["__init__"]).parameters.values())[1:]
        assert all(p.kind in (p.KEYWORD_ONLY, p.VAR_KEYWORD) for p in parameters)
        for parameter in parameters:
            assert parameter.annotation is not parameter.empty
            if parameter.name != "base":
                declaration = (parameter.default, texts[parameter.name])
                # Declared again only where another default, or another meaning, is said.
                assert declared.get(parameter.name) != declaration
                declared[parameter.name] = declaration
    parser = ArgumentParser(exit_on_error=False)
    parser.add_class_arguments(kind, "data")
    help_of = {action.dest: action.help for action in parser._actions}
    assert all(help_of.get(f"data.{setting}") for setting in declared)
    with pytest.raises(ArgumentError, match="nonsense"):
        parser.parse_args(["--data.nonsense", "1"])
    with pytest.raises(TypeError, match="nonsense"):
        kind(nonsense=1)  # type: ignore[call-arg] # what a user may write


def test_unlabelled_pairs_of_snli_are_counted(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "snli").mkdir()
    (tmp_path / "snli" / "test.csv").write_text("premise,hypothesis,label\na,b,-1\nc,d,2\n")
    module = datamodules.SNLI(data_dir=str(tmp_path))
    with caplog.at_level("INFO"):
        module.setup("test")
    assert [example[:3] for example in module.examples("test")] == [(("c", "d"), 2, 0)]
    assert "1 row without label left out" in caplog.text


def put_pairs(folder: Path, *parts: str, rows: int = 2) -> None:
    """A file for each part of a corpus of premises, hypotheses and three classes."""
    folder.mkdir(exist_ok=True)
    for part in parts:
        lines = [f"{part} {i}\tb\t{i % 3}" for i in range(rows)]
        (folder / f"{part}.tsv").write_text("\n".join(["premise\thypothesis\tlabel", *lines, ""]))


def premises(module: TextDataModule, split: Split) -> list[str]:
    return [str(example.text[0]) for example in module.examples(split)]


def test_mnli_is_tested_on_either_validation_split(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    put_pairs(tmp_path / "mnli", "train", "validation_matched", "validation_mismatched", "test")
    choices: tuple[Literal["matched", "mismatched"], ...] = ("matched", "mismatched")
    for tested in choices:
        module = datamodules.MNLI(tested=tested, data_dir=str(tmp_path))
        module.setup()
        assert premises(module, "train") == ["train 0", "train 1"]
        assert premises(module, "validation") == ["validation_matched 0", "validation_matched 1"]
        assert premises(module, "test") == [f"validation_{tested} 0", f"validation_{tested} 1"]
        assert "mnli: no labelled test split" in caplog.text
    with pytest.raises(ValueError, match="expected 'matched' or 'mismatched'"):
        datamodules.MNLI(tested="both")  # type: ignore[arg-type] # what a user may write


def test_rounds_of_anli_follow_each_other(tmp_path: Path) -> None:
    splits = ("train", "validation", "test")
    put_pairs(tmp_path / "anli", *(f"{split}_r{i}" for split in splits for i in (1, 2, 3)))
    module = datamodules.ANLI(rounds=[3, 1], data_dir=str(tmp_path))
    module.setup()
    assert premises(module, "test") == ["test_r3 0", "test_r3 1", "test_r1 0", "test_r1 1"]
    assert [example.sample_id for example in module.examples("train")] == [0, 1, 2, 3]
    validated = datamodules.ANLI(tested="validation", data_dir=str(tmp_path))
    validated.setup("test")
    assert premises(validated, "test")[::2] == [f"validation_r{i} 0" for i in (1, 2, 3)]
    for rounds in ([], [1, 1], [4]):
        with pytest.raises(ValueError, match="expected some of 1, 2 and 3"):
            datamodules.ANLI(rounds=rounds)
    with pytest.raises(ValueError, match="expected 'test' or 'validation'"):
        datamodules.ANLI(tested="train")  # type: ignore[arg-type] # what a user may write


@pytest.mark.parametrize(
    ("name", "file", "way"),
    [
        ("PAWSQQP", "paws_qqp/train.tsv", "google-research-datasets/paws"),
        ("WNUT17", "wnut17/train.conll", "leondz/emerging_entities_17"),
        ("DREAM", "dream/train.json", "nlpdata/dream"),
    ],
)
def test_corpora_without_a_hub_dataset_say_where_they_are(
    tmp_path: Path, name: str, file: str, way: str
) -> None:
    module: TextDataModule = getattr(datamodules, name)(data_dir=str(tmp_path))
    with pytest.raises(DataError, match=rf"put it into a folder DIR as {file}.*{way}"):
        module.prepare_data()


@pytest.mark.parametrize("label", ["entailment", "0"])
def test_a_label_is_a_name_or_an_index(tmp_path: Path, label: str) -> None:
    (tmp_path / "qnli").mkdir()
    content = f"index\tquestion\tsentence\tlabel\n0\twho?\tme\t{label}\n"
    (tmp_path / "qnli" / "validation.tsv").write_text(content)
    module = datamodules.QNLI(data_dir=str(tmp_path))
    module.setup("test")  # there is neither a test nor a training file
    assert module.examples("test") == [Example(("who?", "me"), 0, 0)]


@pytest.mark.long
@pytest.mark.data
@pytest.mark.parametrize(
    ("name", "stage", "sizes"),
    [
        ("SST2", "fit", {"train": 67_349, "validation": 872}),
        ("SST2", "test", {"test": 1821}),
        ("YelpPolarity", "fit", {"train": 4260, "validation": 224}),
        pytest.param(
            "AGNews", "fit", {"train": 32_967, "validation": 1735}, marks=pytest.mark.slow
        ),
        ("AGNews", "test", {"test": 7600}),
        pytest.param("SNLI", "validate", {"validation": 9842}, marks=pytest.mark.slow),
        pytest.param("SNLI", "test", {"test": 9824}, marks=pytest.mark.slow),
        ("QNLI", "test", {"test": 5463}),
        ("ANLI", "validate", {"validation": 3198}),
        ("RTE", "fit", {"train": 2490, "validation": 277}),
        ("MRPC", "fit", {"train": 3668, "validation": 408}),
        ("MRPC", "test", {"test": 1725}),
        pytest.param("DREAM", "fit", {"train": 6116, "validation": 2040}, marks=pytest.mark.slow),
        ("DREAM", "test", {"test": 2041}),
        pytest.param(
            "HellaSwag", "fit", {"train": 8042, "validation": 2000}, marks=pytest.mark.slow
        ),
    ],
)
def test_real_files(data_dir: Path, name: str, stage: str, sizes: dict[Split, int]) -> None:
    module: TextDataModule = getattr(datamodules, name)(data_dir=str(data_dir))
    module.setup(stage)
    counts = {split: len(examples) for split, examples in module._examples.items()}
    assert {split: counts[split] for split in sizes} == sizes
    # To compare it with what is trained on.
    assert counts.keys() - sizes.keys() <= ({"test"} if stage == "fit" else set())
    for examples in module._examples.values():
        assert set(Counter(e.label for e in examples)) == set(range(module.num_classes))


@pytest.mark.data
def test_real_scores(data_dir: Path) -> None:
    module = datamodules.STSB(data_dir=str(data_dir))
    module.setup()
    sizes = [len(module.examples(split)) for split in ("train", "validation", "test")]
    assert sizes == [5749, 1500, 1379]
    scores = {example.label for example in module.examples("train")}
    assert {0.0, 5.0} <= scores
    assert all(isinstance(score, float) for score in scores)


@pytest.mark.data
def test_real_tags(data_dir: Path) -> None:
    module = datamodules.WNUT17(data_dir=str(data_dir))
    module.setup()
    sizes = [len(module.examples(split)) for split in ("train", "validation", "test")]
    assert sizes == [3394, 1009, 1287]
    counts: Counter[str] = Counter()
    for example in module.examples("test"):
        assert isinstance(example.label, tuple)
        counts.update(module.class_names[tag] for tag in example.label)
    assert (counts["O"], counts["B-person"], counts["I-creative-work"]) == (21_654, 429, 218)


@pytest.mark.slow
@pytest.mark.data
def test_real_lengths_need_little_padding(data_dir: Path) -> None:
    module = datamodules.SST2(data_dir=str(data_dir))
    module.setup("fit")
    module.tokenizer = WordTokenizer.build(module.train_texts(), max_length=64)
    padded = real = 0
    for batch in module.train_dataloader():
        padded += batch.mask.numel()
        real += int(batch.mask.sum())
    assert 1 - real / padded < 0.08  # measured: 0.054
    assert module._encode("train").truncated == 0


@pytest.mark.data
def test_real_pairs_as_text_files(data_dir: Path) -> None:
    module = TextFiles(
        train="train.tsv",
        validation="validation.tsv",
        test="test.tsv",
        text_column="sentence1",
        text_pair_column="sentence2",
        data_dir=str(data_dir / "mrpc"),
    )
    module.setup()
    assert [len(module.examples(split)) for split in ("train", "validation", "test")] == [
        3668,
        408,
        1725,
    ]


@pytest.mark.data
def test_a_split_that_is_nowhere(
    data_dir: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")
    monkeypatch.setattr("datasets.config.HF_DATASETS_CACHE", tmp_path)
    with pytest.raises(DataError, match=r"snli/train\.<jsonl\|tsv\|csv\|parquet>.*is absent"):
        datamodules.SNLI(data_dir=str(data_dir)).setup("fit")
