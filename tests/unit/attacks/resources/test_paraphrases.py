"""Paraphrases by a chat endpoint and by a sequence-to-sequence model, on disk, and the attack."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import Whitespace

import attacks
from app.cli.main import entry
from attacks.resources.paraphrases import (
    LEVELS,
    ChatParaphraser,
    SequenceParaphraser,
    read_paraphrases,
    write_paraphrases,
)
from attacks.victims.http_settings import HttpSettings
from attacks.victims.kinds import VictimError
from tests.unit.attacks.victims.service import Service, serving
from text.bounded_files import DataError

CHAT: dict[str, Any] = {"chat": "some-model", "wait": 0.01}
TEXTS = ["a good film", "a {text} in braces", "a bad one"]


def reply(body: Any) -> Any:
    """Says which instruction and which text it was given."""
    order, _, text = body["messages"][0]["content"].partition("\n\nText: ")
    number = [x for level in LEVELS.values() for x in level].index(order.partition(" Answer")[0])
    return {"choices": [{"message": {"content": f'"{number}:\n {text}"'}}]}


class Counting:
    def __init__(self) -> None:
        self.texts: list[str] = []

    def about(self) -> dict[str, Any]:
        return {"model": "counting"}

    def write(self, text: str) -> list[str]:
        self.texts.append(text)
        return [f"{text} indeed", text, " ", f"{text} indeed"]


@pytest.mark.parametrize("parallel", [1, 3])
def test_a_chat_is_asked_once_for_each_instruction(parallel: int) -> None:
    service = Service()
    service.answers = reply
    with serving(service):
        settings = HttpSettings(**CHAT, parallel=parallel)
        paraphraser = ChatParaphraser(service.url, settings, ["sentences", "words"])
        assert paraphraser.write(TEXTS[1]) == [f"{n}: {TEXTS[1]}" for n in range(3, 9)]
    assert len(service.bodies) == 6
    assert {body["model"] for body in service.bodies} == {"some-model"}
    assert {body["temperature"] for body in service.bodies} == {0}


def test_answers_that_are_none() -> None:
    service = Service()
    service.answers = lambda _: {"choices": [{"message": {"content": None}}]}
    with serving(service):
        paraphraser = ChatParaphraser(service.url, HttpSettings(**CHAT), ["words"])
        with pytest.raises(VictimError, match=r"expected a text as choices\[0\].message.content"):
            paraphraser.write("a text")


def test_a_stopped_file_resumes_after_its_last_line(tmp_path: Path) -> None:
    path, first, second = tmp_path / "a" / "texts.jsonl", Counting(), Counting()
    with pytest.raises(VictimError, match="a budget of 2 texts, which is used up"):
        write_paraphrases(path, TEXTS, first, budget=2)
    path.write_bytes(path.read_bytes() + b'{"text": "a bad')  # a kill
    assert write_paraphrases(path, [*TEXTS, TEXTS[0]], second) == 3
    assert (first.texts, second.texts) == (TEXTS[:2], TEXTS[2:])
    assert read_paraphrases(path) == {text: [f"{text} indeed"] for text in TEXTS}


def test_files_of_something_else(tmp_path: Path) -> None:
    path = tmp_path / "texts.jsonl"
    write_paraphrases(path, TEXTS, Counting())
    other = Counting()
    other.about = lambda: {"model": "another"}  # type: ignore[method-assign] # a smaller stand-in
    with pytest.raises(ValueError, match="paraphrases of another model"):
        write_paraphrases(path, TEXTS, other)
    path.write_text('{"about": {"kind": "answers"}}\n')
    with pytest.raises(DataError, match="without paraphrases"):
        read_paraphrases(path)


@pytest.fixture(scope="module")
def sequence_model(tmp_path_factory: pytest.TempPathFactory) -> str:
    from transformers import PreTrainedTokenizerFast, T5Config, T5ForConditionalGeneration

    folder = tmp_path_factory.mktemp("t5")
    words = ["[PAD]", "[UNK]", "[SEP]", *"a good film bad one in braces text".split()]
    inner = Tokenizer(WordLevel({word: i for i, word in enumerate(words)}, unk_token="[UNK]"))
    inner.pre_tokenizer = Whitespace()
    names = {"pad_token": "[PAD]", "unk_token": "[UNK]", "sep_token": "[SEP]"}
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=inner, **names)  # type: ignore[no-untyped-call] # theirs
    tokenizer.save_pretrained(folder)
    config = T5Config(
        vocab_size=len(tokenizer),
        d_model=16,
        d_kv=4,
        d_ff=16,
        num_layers=1,
        num_heads=2,
        pad_token_id=tokenizer.pad_token_id,
        eos_token_id=tokenizer.sep_token_id,
    )
    config.decoder_start_token_id = tokenizer.pad_token_id
    T5ForConditionalGeneration(config).save_pretrained(folder)
    return str(folder)


def test_a_model_writes_the_same_texts_each_time(sequence_model: str) -> None:
    first, again = (SequenceParaphraser(sequence_model, count=3) for _ in range(2))
    assert first.about() == again.about()
    assert first.write(TEXTS[0]) == again.write(TEXTS[0])
    assert len(first.write(TEXTS[0])) == 3
    assert first.about() != SequenceParaphraser(sequence_model, count=2).about()


def test_a_folder_without_such_a_model(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="no sequence-to-sequence model could be loaded"):
        SequenceParaphraser(str(tmp_path), count=2)


def classify(texts: Sequence[str]) -> list[list[float]]:
    return [[0.0, 1.0 if "good" in text else -1.0] for text in texts]


def write_lines(path: Path, lines: dict[str, list[str]]) -> None:
    rows = [{"text": text, "paraphrases": others} for text, others in lines.items()]
    content = [{"about": {"kind": "paraphrases"}}, *rows]
    path.write_text("".join(json.dumps(line) + "\n" for line in content))


def test_the_first_by_the_alphabet_that_succeeds(tmp_path: Path) -> None:
    path = tmp_path / "texts.jsonl"
    write_lines(
        path, {"a good film": ["a nice film", "a fine film", "a big good film"], "good": []}
    )
    settings: dict[str, Any] = {"paraphrases": str(path), "similarity": 0.0}
    samples = [("a good film", 1), ("good", 1)]
    first, second = attacks.attack(classify, samples, recipe="paraphrase", **settings).records
    assert (first.outcome, first.adversarial, first.queries) == ("succeeded", "a fine film", 3)
    assert (second.outcome, second.queries) == ("failed", 1)
    with pytest.raises(ValueError, match="'good film', which the file of paraphrases lacks"):
        attacks.attack(classify, [("good film", 1)], recipe="paraphrase", **settings)
    with pytest.raises(ValueError, match=r"--attack\.paraphrases FILE"):
        attacks.attack(classify, samples, recipe="paraphrase", similarity=0.0)


def test_by_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("texts.txt").write_text("\n".join([*TEXTS, "", TEXTS[0]]))
    command = ["resources", "paraphrases", "--texts=texts.txt", "--output=out.jsonl"]
    service = Service()
    service.answers = reply
    with serving(service):
        chat = [f"--url={service.url}", "--http.chat=m", "--levels=words"]
        assert entry([*command, *chat, "--num_samples=2"]) == 0
        assert len(service.bodies) == 6
        assert entry([*command, *chat]) == 0
        assert len(service.bodies) == 9
    assert "out.jsonl: 3 texts" in capsys.readouterr().out
    assert list(read_paraphrases("out.jsonl")) == TEXTS
    for words, message in (
        ([], "expected --model NAME or --url URL"),
        (["--url=http://127.0.0.1:1/"], "expected its name: --http.chat NAME"),
        (["--url=http://127.0.0.1:1/", "--http.chat=m", "--levels=tone"], "got levels tone"),
    ):
        assert entry([*command, *words]) == 1
        assert message in capsys.readouterr().err
