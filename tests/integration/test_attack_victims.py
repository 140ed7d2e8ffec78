"""`attack --victim`: models from elsewhere, by the real command line."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.faults.program import Piped
from tests.integration.conftest import Steadfast, lines
from tests.unit.attacks.victims.service import Service, serving
from text import FrontEnd, FrontEndSettings

WORDS = "good bad plain odd dull warm slow".split()
ROWS = [
    (f"a {WORDS[i % 7]} and {WORDS[(i * 3 + 1) % 7]} film number {i}", ["neg", "pos"][i % 2])
    for i in range(24)
]


@pytest.fixture
def texts(here: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    path = here / "texts.tsv"
    path.write_text("sentence\tlabel\n" + "".join(f"{text}\t{label}\n" for text, label in ROWS))
    return path


@pytest.fixture
def service(texts: Path) -> Iterator[Service]:
    del texts
    with serving(Service()) as made:
        yield made


def of_http(service: Service, *more: str) -> list[str]:
    return [
        "attack",
        f"--victim=http:{service.url}",
        "--dataset=texts.tsv",
        "--classes=neg,pos",
        "--attack=deepwordbug",
        "--attack.in_flight=2",
        "--http.wait=0.01",
        *more,
    ]


def records(out: str) -> list[dict[str, Any]]:
    """Records without what depends on the clock."""
    return [
        {key: value for key, value in line.items() if key != "seconds"}
        for line in lines(f"{out}/attacks/deepwordbug.jsonl")
    ]


def test_an_attack_on_a_service_that_was_killed_goes_on(
    service: Service, steadfast: Steadfast
) -> None:
    whole = steadfast(of_http(service, "--output=whole", "--attack.show=1"))
    assert whole.status == 0, whole.err
    assert "deepwordbug" in whole.out
    expected = records("whole")
    assert {line["outcome"] for line in expected} == {"succeeded", "failed", "skipped"}
    count, texts = len(service.bodies), sorted(service.answered)

    service.bodies.clear()
    service.answered.clear()
    child = Piped(*of_http(service, "--output=cut"))
    service.after = lambda number: child.kill() if number == count // 2 else None
    _, said = child.communicate()
    assert child.returncode == -9, said
    assert not Path("cut/attacks/deepwordbug.jsonl").exists()
    before = len(service.bodies)
    assert before >= count // 2

    service.after = lambda _: None
    again = steadfast(of_http(service, "--output=cut"))
    assert again.status == 0, again.err
    assert records("cut") == expected
    # Of all answers that came, at most the one at the moment of the kill is asked for again.
    assert len(set(service.answered)) == len(set(texts))
    assert len(service.bodies) <= count + 1
    assert before < len(service.bodies)

    asked = len(service.bodies)
    assert steadfast(of_http(service, "--output=cut")).status == 0
    assert len(service.bodies) == asked


def test_a_service_that_fails_leaves_what_is_done(service: Service, steadfast: Steadfast) -> None:
    service.spoil = lambda number, answer: answer if number < 20 else (500, {}, b"down")
    failed = steadfast(of_http(service, "--output=out", "--http.tries=2"))
    assert failed.status == 1
    assert "status 500" in failed.err
    assert "Traceback" not in failed.err
    service.spoil = lambda _, answer: answer
    assert steadfast(of_http(service, "--output=out")).status == 0
    assert len(records("out")) == len(ROWS)
    # Nothing is asked for twice, but for the last look at each success.
    again = len(service.answered) - len(set(service.answered))
    assert again == sum(record["outcome"] == "succeeded" for record in records("out"))


def test_other_settings_of_the_same_folder_are_refused(
    service: Service, steadfast: Steadfast
) -> None:
    assert steadfast(of_http(service, "--output=out", "--num_samples=2")).status == 0
    other = steadfast(of_http(service, "--output=out", "--seed=1"))
    assert other.status == 1
    assert "seed 0 -> 1" in other.err
    more = steadfast(of_http(service, "--output=out", "--num_samples=4"))
    assert more.status == 0, more.err
    assert len(records("out")) == 4


def test_a_victim_behind_a_front_end(
    service: Service, steadfast: Steadfast, checkpoint: str, here: Path
) -> None:
    known = [*WORDS, "a", "and", "film", "number", *map(str, range(24))]
    (here / "words.txt").write_text("\n".join(known))
    words = ["--words.front_end=spelling", "--words.vocabulary=words.txt"]
    outcome = steadfast(of_http(service, *words, "--num_samples=8", "--output=out"))
    assert outcome.status == 0, outcome.err
    front_end = FrontEnd.of_words(known, FrontEndSettings(front_end="spelling"))
    assert service.answered
    assert all(front_end(text) == text for text in service.answered)
    # The attack has typed other words, and found no other text for the service by many of them.
    typed = [line["adversarial"] for line in records("out") if line["adversarial"]]
    assert any(front_end(text) != text for text in typed)
    # The records belong to this front end.
    other = steadfast(of_http(service, "--num_samples=8", "--output=out"))
    assert other.status == 1
    assert "front_end" in other.err

    command = ["attack", f"--victim={checkpoint}", "--dataset=texts.tsv", "--attack=deepwordbug"]
    command += ["--label_names=pos=POS,neg=NEG", "--num_samples=3", "--device=cpu"]
    outcome = steadfast([*command, *words])
    assert outcome.status == 0, outcome.err
    plain = steadfast(command)
    assert plain.status == 0, plain.err
    assert len(list(Path("attacked").iterdir())) == 2
    for wrong, message in (
        (["--words.front_end=spelling"], "expected a run or a file as vocabulary"),
        ([*words[:1], "--words.vocabulary=nosuch"], "nosuch"),
    ):
        outcome = steadfast([*command, *wrong])
        assert outcome.status in (1, 2)
        assert message in outcome.err


@pytest.fixture
def checkpoint(here: Path) -> str:
    import torch
    from transformers import BertConfig, BertForSequenceClassification, BertTokenizer

    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *WORDS, "a", "and", "film", "number"]
    (here / "vocab.txt").write_text("\n".join(words))
    tokenizer = BertTokenizer(str(here / "vocab.txt"), model_max_length=16)
    torch.manual_seed(3)
    config = BertConfig(
        vocab_size=len(words),
        hidden_size=8,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=8,
        max_position_embeddings=16,
        id2label={0: "POS", 1: "NEG"},
        label2id={"POS": 0, "NEG": 1},
    )
    BertForSequenceClassification(config).save_pretrained(here / "bert")
    tokenizer.save_pretrained(here / "bert")
    return "hf:bert"


def test_the_labels_of_a_checkpoint_are_used(
    texts: Path, checkpoint: str, steadfast: Steadfast
) -> None:
    del texts
    line = ["attack", f"--victim={checkpoint}", "--dataset=texts.tsv", "--attack=deepwordbug"]
    found = steadfast(*line, "--output=out", "--device=cpu")
    assert found.status == 0, found.err
    labels = {record["text"]: record["label"] for record in records("out")}
    assert labels == {text: int(name == "neg") for text, name in ROWS}
    assert json.loads(Path("out/attacks/deepwordbug.json").read_text())["about"]["classes"] == [
        "POS",
        "NEG",
    ]
    page = Path("out/attacks/deepwordbug.html").read_text()
    assert "hf:bert" in page


def test_a_checkpoint_without_a_trained_head_is_refused(
    texts: Path, checkpoint: str, steadfast: Steadfast
) -> None:
    del texts, checkpoint
    from transformers import BertModel

    BertModel.from_pretrained("bert").save_pretrained("bert")
    found = steadfast("attack", "--victim=hf:bert", "--dataset=texts.tsv")
    assert found.status == 1
    assert "whose weights lack classifier" in found.err


def test_a_run_of_ours_on_a_file(trained: Path, steadfast: Steadfast) -> None:
    del trained
    rows = "The food was excellent.\tpositive\nThe food was awful.\tnegative\n"
    Path("mine.tsv").write_text("text\tlabel\n" + rows)
    line = ["attack", "--victim=run:done", "--dataset=mine.tsv", "--attack=deepwordbug"]
    found = steadfast(*line, "--output=out", "--device=cpu")
    assert found.status == 0, found.err
    assert len(records("out")) == 2


def test_functions(texts: Path, steadfast: Steadfast) -> None:
    Path("mine_scores.py").write_text(
        "def scores(texts):\n    return [[1.0, 2.0 * ('good' in t)] for t in texts]\n"
        "def labels(texts):\n    return ['pos' if 'good' in t else 'neg' for t in texts]\n"
    )
    line = ["attack", "--dataset=texts.tsv", "--classes=neg,pos", "--attack=deepwordbug"]
    found = steadfast(*line, "--victim=python:mine_scores:scores", "--output=out")
    assert found.status == 0, found.err
    assert "python:mine_scores:scores on texts.tsv" in found.out
    refused = steadfast(*line, "--victim=python:mine_scores:labels", "--outputs=labels")
    assert refused.status == 1
    assert "gives no scores" in refused.err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--victim=python:nowhere:at"], "without --classes"),
        (["--victim=python:nowhere:at", "--classes=neg,pos"], "cannot be imported"),
        (["--victim=model"], "expected hf:FOLDER_OR_ID, http:URL"),
        (["--victim=hf:no/such/folder"], "from which no classifier could be loaded"),
        (["--victim=python:json:dumps", "--classes=a,b"], "--label_names LABEL=CLASS"),
        (["--victim=x", "--attack.split=test"], "got --attack.split with --victim"),
        (["--victim=x", "--attack.shard=3/2"], "got shard '3/2', expected I/N"),
        (["--victim=python:json:dumps", "--classes=a,b", "--columns=body"], "--columns TEXT"),
        (["--victim=x", "--atack=pwws"], "--atack"),
        (["--victim=x", "--seed=many"], "--seed many, expected a whole number"),
    ],
)
def test_wrong_command_lines_are_one_line(
    texts: Path, steadfast: Steadfast, words: list[str], message: str
) -> None:
    del texts
    found = steadfast("attack", "--dataset=texts.tsv", *words)
    assert found.status in (1, 2)
    assert message in found.err
    assert found.err.count("\n") == 1
