"""Every command on classifiers of `transformers` that were trained elsewhere.

Their tokenizers are real, of four kinds; their weights are random.
"""

import json
import re
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
import torch
from tokenizers import Tokenizer, models, pre_tokenizers, processors, trainers
from transformers import (
    AutoConfig,
    AutoModelForSequenceClassification,
    BertTokenizer,
    PreTrainedTokenizerFast,
)

import steadfast as sf
from tests.faults.program import Piped
from tests.integration.conftest import QUIET, REVIEWS, Steadfast, lines, results
from tests.integration.test_export import KINDS, SMALL
from tests.integration.test_serve import asked

TEXTS = ["the soup was fresh and the staff was kind", "a rude waiter and cold coffee"]
TABLE = "text\tlabel\tfunctionality\n" + "".join(
    f"{text}\t{label}\tplain\n" for text, label in zip(TEXTS, ("positive", "negative"), strict=True)
)
CPU = "--device=cpu"


def word_pieces(folder: Path) -> Any:
    """The tokenizer of BERT: words, letters, and letters within a word."""
    words = sorted({*" ".join(TEXTS).split()})
    letters = [chr(ord("a") + i) for i in range(26)]
    pieces = [*words, *(letter for letter in letters if letter not in words)]
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    vocabulary = [*special, *pieces, *(f"##{letter}" for letter in letters)]
    (folder / "vocab.txt").write_text("\n".join(vocabulary))
    return BertTokenizer(str(folder / "vocab.txt"), model_max_length=64)


def byte_pairs() -> Any:
    """The tokenizer of RoBERTa: pairs of bytes; the space is a part of a word."""
    special = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=300, special_tokens=special, initial_alphabet=alphabet, show_progress=False
    )
    tokenizer.train_from_iterator(TEXTS * 4, trainer)
    tokenizer.post_processor = processors.RobertaProcessing(("</s>", 2), ("<s>", 0))
    names = {"bos_token": "<s>", "cls_token": "<s>", "eos_token": "</s>", "sep_token": "</s>"}
    return PreTrainedTokenizerFast(  # type: ignore[no-untyped-call] # transformers has no types
        tokenizer_object=tokenizer,
        model_max_length=64,
        pad_token="<pad>",
        unk_token="<unk>",
        mask_token="<mask>",
        **names,
    )


def unigrams() -> Any:
    """The tokenizer of ALBERT: SentencePiece's unigrams."""
    special = ["<pad>", "<unk>", "[CLS]", "[SEP]", "[MASK]"]
    tokenizer = Tokenizer(models.Unigram())
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    trainer = trainers.UnigramTrainer(
        vocab_size=60, special_tokens=special, unk_token="<unk>", show_progress=False
    )
    tokenizer.train_from_iterator(TEXTS * 4, trainer)
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]",
        pair="[CLS] $A [SEP] $B:1 [SEP]:1",
        special_tokens=[("[CLS]", 2), ("[SEP]", 3)],
    )
    return PreTrainedTokenizerFast(  # type: ignore[no-untyped-call] # transformers has no types
        tokenizer_object=tokenizer,
        model_max_length=64,
        pad_token="<pad>",
        unk_token="<unk>",
        cls_token="[CLS]",
        sep_token="[SEP]",
        mask_token="[MASK]",
    )


# The first has the pieces of words of BERT, the second those of RoBERTa.
QUICK = ("distilbert", "roberta")


@pytest.fixture(
    params=[kind if kind in QUICK else pytest.param(kind, marks=pytest.mark.slow) for kind in KINDS]
)
def hub(request: pytest.FixtureRequest, here: Path) -> str:
    """The name of a classifier in a folder that `transformers` has written."""
    kind, folder = request.param, here / "theirs"
    folder.mkdir()
    tokenizer = {"roberta": byte_pairs, "albert": unigrams}.get(kind, lambda: word_pieces(folder))()
    tokenizer.save_pretrained(folder)
    settings = KINDS[kind] if kind == "distilbert" else KINDS[kind] | SMALL
    settings = {key: value for key, value in settings.items() if key != "model_type"}
    names = {0: "negative", 1: "positive"}
    labels = {"id2label": names, "label2id": {name: i for i, name in names.items()}}
    config = AutoConfig.for_model(
        kind, vocab_size=len(tokenizer), pad_token_id=tokenizer.pad_token_id, **settings, **labels
    )
    torch.manual_seed(0)
    model: Any = AutoModelForSequenceClassification
    model.from_config(config).save_pretrained(folder)
    Path("texts.tsv").write_text(TABLE)
    return f"hf:{folder}"


def test_commands_on_a_folder_of_transformers(hub: str, steadfast: Steadfast) -> None:
    victim = ["--victim", hub, CPU]
    Path("words.txt").write_text("\n".join({*" ".join(TEXTS).split()}))
    listed = ["--threat=typos", "--list=4000", "--k=1", "--vocabulary=words.txt"]
    table = ["--dataset=texts.tsv", "--num_samples=1", "--output=certified"]
    for words in (
        ["attack", "--dataset=texts.tsv", "--attack=deepwordbug", "--output=attacked", *victim],
        ["certify", *listed, "--text=cold", *victim],
        ["certify", *listed, *table, *victim],
        ["check", "--data=texts.tsv", "--min_accuracy=0", *victim],
        ["functional", "texts.tsv", "--output=tested", *victim],
    ):
        outcome = steadfast(words)
        assert outcome.status == 0, (words, outcome.err)
    assert len(lines("attacked/attacks/deepwordbug.jsonl")) == len(TEXTS)
    assert len(lines("tested/functional/texts.jsonl")) == len(TEXTS)
    outcome = steadfast("certify", *listed[:-1], "--text=cold", *victim)
    assert outcome.status == 1
    assert "or a victim with --vocabulary" in outcome.err


@pytest.mark.parametrize(
    "hub",
    [
        kind if kind == "distilbert" else pytest.param(kind, marks=pytest.mark.slow)
        for kind in KINDS
    ],
    indirect=True,
)
def test_commands_on_an_adopted_folder(hub: str, steadfast: Steadfast) -> None:
    assert steadfast("export", "--victim", hub, "--output=ours").status == 0
    expected = [record["probability"] for record in sf.load(hub).predict(TEXTS)]
    evaluated = [*REVIEWS, *QUIET, "--trainer.limit_test_batches=1"]
    outcome = steadfast("test", "--ckpt_path=ours", "--run=theirs", *evaluated)
    assert outcome.status == 0, outcome.err
    # The run has no weights of its own: it finds those that it began with.
    for model in ("--ckpt_path=ours", "--run=theirs"):
        outcome = steadfast("predict", model, CPU, *(f"--text={text}" for text in TEXTS))
        answers = [json.loads(line) for line in outcome.out.splitlines()]
        assert [answer["probability"] for answer in answers] == pytest.approx(expected, abs=1e-5)
    Path("lists.json").write_text(json.dumps({"cold": ["warm", "hot"]}))
    lists = ["--threat=synonyms", "--lists=lists.json", "--k=1", CPU]
    noise = ["--smooth=mask", "--draws=20"]
    for words in (
        ["certify", "--run=theirs", *lists, "--list=100", "--text=cold"],
        ["certify", "--run=theirs", *lists, *noise, "--text=cold"],
        ["certify", "--run=theirs", *lists, *noise, "--num_samples=2", "--tag=ranmask"],
        ["attack", "--run=theirs", "--attack=deepwordbug", "--num_samples=2", *QUIET],
        ["check", "--run=theirs", CPU, "--data=texts.tsv", "--min_accuracy=0"],
        ["functional", "texts.tsv", "--run=theirs", CPU],
        ["report", "--run=theirs"],
    ):
        outcome = steadfast(words)
        assert outcome.status == 0, (words, outcome.err)
    metrics = results("theirs")["metrics"].keys()
    assert {"test/accuracy", "attack/deepwordbug/accuracy", "functional/texts/pass_rate"} <= metrics
    assert "deepwordbug" in Path("runs/theirs/report/report.html").read_text()
    Path("ours").rename("moved")
    outcome = steadfast("predict", "--run=theirs", CPU, "--text=cold")
    assert outcome.status == 1
    assert "expected the place of these weights: --ckpt_path" in outcome.err
    assert steadfast("predict", "--run=theirs", "--ckpt_path=moved", "--text=cold").status == 0


@pytest.mark.slow
@pytest.mark.parametrize("hub", ["roberta"], indirect=True)
def test_an_adopted_folder_is_served(hub: str, steadfast: Steadfast) -> None:
    assert steadfast("export", "--victim", hub, "--output=ours").status == 0
    program = Piped("serve", "--ckpt_path=ours", "--port=0", CPU)
    try:
        assert program.stdout is not None
        line = program.stdout.readline()
        found = re.fullmatch(r"ours: http://127\.0\.0\.1:(\d+)/\n", line)
        assert found is not None, line
        with ExitStack() as stack:
            response = asked(stack, int(found[1]), "/api/predict", run="ours", text=TEXTS[0])
            answer = json.loads(response.read())
    finally:
        program.kill()
        program.communicate()
    (expected,) = sf.load(hub).predict(TEXTS[:1])
    assert answer["prediction"] == expected["prediction"]
