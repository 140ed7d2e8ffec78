"""A classifier of `transformers` behind a corrector: its lists against brute force."""

import json
from pathlib import Path

import pytest
import torch

from app.commands import certify
from certify.encoding import ListedCertifier
from certify.threats import Substitutions, Typos
from measure.listed_victim import ListedVictim
from tests.unit.certify.words.test_substitutions import VOCABULARY, typos


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    from transformers import BertConfig, BertForSequenceClassification, BertTokenizer

    path = tmp_path_factory.mktemp("hf")
    tokens = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *VOCABULARY, ",", "##d", "g", "##o"]
    (path / "vocab.txt").write_text("\n".join(tokens))
    BertTokenizer(str(path / "vocab.txt")).save_pretrained(path)
    torch.manual_seed(0)
    config = BertConfig(
        vocab_size=len(tokens),
        hidden_size=16,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=16,
        id2label={i: f"LABEL_{i}" for i in range(3)},
        label2id={f"LABEL_{i}": i for i in range(3)},
    )
    model = BertForSequenceClassification(config)
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.ndim > 1:
                parameter.mul_(20)
    model.save_pretrained(path)
    (path / "words.txt").write_text("\n".join(VOCABULARY))
    return path


def test_certificates_equal_brute_force(folder: Path) -> None:
    victim = ListedVictim.load(
        f"hf:{folder}",
        vocabulary=str(folder / "words.txt"),
        runs_dir=folder,
        device=torch.device("cpu"),
    )
    words = victim.words
    threat = Substitutions(words=words, sets=(Typos(words),))
    certifier = ListedCertifier(victim.model, threat, limit=10**4)
    model, verdicts, unknown = victim.model, set[bool](), False
    for text in ("good bat", "a gud film", "zz god , at"):
        (found,) = certifier([text], [1])
        split = threat.split(text)
        raw = {
            (*split[:at], typo, *split[at + 1 :])
            for at, word in enumerate(split)
            for typo in typos(word, splits=False)
        }
        rows = sorted({tuple(model.words.ids(one)) for one in raw})
        predictions = model.answer(model.encode(rows)).argmax(dim=1)
        verdicts.add(bool((predictions == found.prediction).all()))
        assert found.holds == (bool((predictions == found.prediction).all()),)
        assert found.kind == "exact"
        unknown |= any(model.words.unk_id in row for row in rows)
    assert unknown
    assert verdicts


def test_padding_of_a_batch_changes_nothing(folder: Path) -> None:
    victim = ListedVictim.load(
        f"hf:{folder}", vocabulary=None, runs_dir=folder, device=torch.device("cpu")
    )
    model = victim.model
    rows = [model.words.ids(text.split()) for text in ("a", "good bad film", "at a bat", "god")]
    together = model.answer(model.encode(rows))
    alone = torch.cat([model.answer(model.encode([row])) for row in rows])
    assert torch.allclose(together, alone, atol=1e-12)
    assert together.dtype == torch.float64


@pytest.mark.long
def test_the_command_certifies_a_table(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    table = tmp_path / "texts.tsv"
    table.write_text("text\tlabel\ngood bat\tLABEL_0\na film\tLABEL_1\nbad at\tLABEL_2\n")
    common = ["--victim", f"hf:{folder}", "--vocabulary", str(folder / "words.txt")]
    common += ["--threat", "typos", "--device", "cpu"]
    files = ["--dataset", str(table), "--output", str(tmp_path / "out")]
    parse = certify.parser().parse_args
    assert certify.run(parse([*common, *files, "--list", "500", "--k", "1"])) == 0
    assert "3 texts" in capsys.readouterr().out
    lines = (tmp_path / "out" / "certificates_typos.jsonl").read_text().splitlines()
    records = [json.loads(line) for line in lines]
    assert [line["kind"] for line in records] == ["exact"] * 3
    assert all(line["passes"] <= 500 for line in records)
    assert certify.run(parse([*common, "--list", "500", "--k", "1", "--text", "good bat"])) == 0
    answer = json.loads(capsys.readouterr().out)
    assert answer["holds"] == records[0]["holds"]
    with pytest.raises(ValueError, match="expected --list N without --run"):
        certify.run(parse([*common, "--text", "good bat"]))
