"""`attack --victim` on a tagger, by the real command line."""

import json
from pathlib import Path

import pytest
import torch

from tests.integration.conftest import Steadfast, lines

TAGS = ("O", "B-X", "I-X")
WORDS = "good bad film a in paris york smith".split()


def figures_of(folder: str) -> dict[str, float]:
    metrics: dict[str, float] = json.loads(Path(folder, "results.json").read_text())["metrics"]
    return metrics


@pytest.fixture
def tagger(here: Path) -> list[str]:
    """A random tagger, and sentences whose gold tags are its own, but for free words at the end."""
    from transformers import BertConfig, BertForTokenClassification, BertTokenizer

    from measure.named_victims import task_victim

    vocabulary = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *WORDS]
    (here / "vocab.txt").write_text("\n".join(vocabulary))
    torch.manual_seed(1)
    config = BertConfig(
        vocab_size=len(vocabulary),
        hidden_size=16,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=16,
        max_position_embeddings=24,
        initializer_range=0.5,
        id2label=dict(enumerate(TAGS)),
    )
    BertForTokenClassification(config).save_pretrained(here / "tagger")
    BertTokenizer(str(here / "vocab.txt"), model_max_length=24).save_pretrained(here / "tagger")
    victim = task_victim("tagger", "cpu")
    sentences = [[WORDS[(i * k + k) % 8] for k in range(1, 6)] for i in range(12)]
    answers = victim.logits([" ".join(words) for words in sentences])
    rows = []
    for words, answer in zip(sentences, answers, strict=True):
        tags = [TAGS[tag] for tag in answer.logits.argmax(axis=1)]
        rows.append("\n".join(f"{word}\t{tag}" for word, tag in zip(words, tags, strict=True)))
    (here / "test.conll").write_text("\n\n".join(rows) + "\n")
    return ["attack", "--victim=hf:tagger", "--dataset=test.conll", "--attack=deepwordbug"]


def test_a_tagger_is_attacked_in_shards_and_resumed(
    tagger: list[str], steadfast: Steadfast
) -> None:
    whole = steadfast(tagger, "--output=whole", "--attack.csv=true", "--attack.show=2")
    assert whole.status == 0, whole.err
    assert "F1 under attack" in whole.out
    figures = {k.rpartition("/")[2]: v for k, v in figures_of("whole").items()}
    assert figures["clean_f1"] == figures["clean_accuracy"] == 1
    assert 0 < figures["success_rate"] == pytest.approx(1 - figures["accuracy"])
    assert figures["f1"] < 1

    assert steadfast(tagger, "--output=parts", "--num_samples=3").status == 0
    assert steadfast(tagger, "--output=parts").status == 0
    for shard in ("1/2", "2/2"):
        assert steadfast(tagger, "--output=shards", f"--attack.shard={shard}").status == 0
    merged = steadfast("attack", "merge", "--output=shards")
    assert merged.status == 0, merged.err
    expected = [{**line, "seconds": 0} for line in lines("whole/attacks/deepwordbug.jsonl")]
    for folder in ("parts", "shards"):
        found = lines(f"{folder}/attacks/deepwordbug.jsonl")
        assert [{**line, "seconds": 0} for line in found] == expected
        assert figures_of(folder)["attack/deepwordbug/f1"] == figures["f1"]

    table = Path("texts.tsv")
    table.write_text("text\tlabel\na film\t1\n")
    wrong: list[tuple[tuple[str, ...], str]] = [
        ((f"--dataset={table}",), "got 'a film', expected a list of words without spaces"),
        (("--attack.delta=1",), "got --attack.delta 1.0 for a model of tagging"),
        (("--attack.goal=O",), "got --attack.goal O"),
        (("--label_names=O=O",), "got --label_names for a model of tagging"),
        (("--words.front_end=canonical",), "got --words.front_end for a model of tagging"),
        (("--columns=words",), "expected neither: it has no columns"),
    ]
    rows = {"short": ["O"], "strange": ["O", "B-Y"]}
    for name, tags in rows.items():
        Path(f"{name}.jsonl").write_text(json.dumps({"tokens": ["a", "film"], "tags": tags}))
    wrong += [
        (("--dataset=short.jsonl",), "row 1: got 1 tags for 2 words"),
        (("--dataset=strange.jsonl",), "row 1: got tags B-Y, expected those of the victim"),
    ]
    for options, message in wrong:
        outcome = steadfast(tagger, *options, "--output=wrong")
        assert outcome.status != 0
        assert message in outcome.err
        assert "Traceback" not in outcome.err
