from pathlib import Path

import pytest
import torch

from layers.attention.masking.biased import BIASABLE
from lit_modules import ASA, AdversarialTraining, FineTuning, UniBERT
from lit_modules.adversaries import FreeLB
from measure.attention.attention_maps import AttentionMaps, AttentionModel
from measure.attention.attention_text import sample_of
from tests.unit.layers.small_encoders import ARCHITECTURES
from tests.unit.lit_modules.builders import Build, make, plain
from tests.unit.measure.attention.attention_models import SETTINGS, asa, saved
from text import TaskName

CPU = torch.device("cpu")
TEXT = "it is not a good film"


def attend(path: Path, text: str = TEXT, *pairs: str, row: int | None = None) -> AttentionMaps:
    model = AttentionModel(path, device=CPU)
    return model.attend(sample_of(model.classifier, text, pairs), row)


def unibert() -> UniBERT:
    return make(UniBERT, **SETTINGS)


def test_the_maps_are_those_of_the_library(tmp_path: Path) -> None:
    module = saved(tmp_path / "a.ckpt", unibert)
    assert isinstance(module, UniBERT)
    encoder = module.network.backbone.encoder
    encoder.set_attn_implementation("eager")
    batch = module.encode_texts([TEXT])
    with torch.no_grad():
        out = encoder(batch.input_ids, attention_mask=batch.mask.long(), output_attentions=True)
        logits = module(batch)
    found = attend(tmp_path / "a.ckpt")
    assert found.attacked is None
    assert (found.layers, found.heads, found.method) == (3, 2, "UniBERT")
    assert found.tokens[0] == "[CLS]"
    for layer, expected in enumerate(out.attentions, 1):
        for head in (1, 2):
            weights = found.map(layer, head)
            assert weights is not None
            torch.testing.assert_close(weights, expected[0, head - 1])
        mean = found.map(layer, None)
        torch.testing.assert_close(mean, expected[0].mean(dim=0))
        assert found.mask(layer, None) is None
        assert found.map(layer, None, attacked=True) is None
    shown = [float(value) for _, value in found.plain.answers]
    assert shown == pytest.approx(logits[0].softmax(dim=-1).tolist(), abs=1e-4)


@pytest.mark.parametrize("per_head", [False, True])
def test_the_pass_with_the_adversary(tmp_path: Path, per_head: bool) -> None:
    saved(tmp_path / "a.ckpt", asa(per_head=per_head))
    found = attend(tmp_path / "a.ckpt")
    assert found.attacked is not None
    assert found.plain.answers != found.attacked.answers
    assert [len(masked) for masked in found.masked] == [2 if per_head else 1] * 3
    assert 0 < sum(float(masked.float().mean()) for masked in found.masked) < 3
    for layer in (1, 2, 3):
        for head in (1, 2):
            weights, mask = found.map(layer, head, attacked=True), found.mask(layer, head)
            assert weights is not None
            assert mask is not None
            assert set(mask.flatten().tolist()) <= {0.0, 1.0}
            assert not weights[mask == 1].any()
            torch.testing.assert_close(weights.sum(dim=-1), torch.ones(len(weights)))
            chance = found.chance(layer, head)
            assert chance is not None
            # Masked where it is likelier than not; but each row keeps one.
            assert (chance[mask == 1] > 0.5).all()
            assert (mask[chance < 0.5] == 0).all()
    # What the first layer is given is the same: what is left there shares what was masked.
    before, mask = found.map(1, 1), found.mask(1, 1)
    assert before is not None
    assert mask is not None
    left = before * (1 - mask)
    after = found.map(1, 1, attacked=True)
    torch.testing.assert_close(after, left / left.sum(dim=-1, keepdim=True))


def test_nothing_is_random(tmp_path: Path) -> None:
    module = saved(tmp_path / "a.ckpt", asa())
    assert isinstance(module, ASA)
    assert module.masking.settings.noise
    first = attend(tmp_path / "a.ckpt")
    torch.manual_seed(5)
    second = attend(tmp_path / "a.ckpt")
    assert first.attacked is not None
    assert second.attacked is not None
    assert first.attacked.answers == second.attacked.answers
    assert all(map(torch.equal, first.attacked.maps, second.attacked.maps))


@pytest.mark.long
def test_masks_that_are_drawn(tmp_path: Path) -> None:
    saved(tmp_path / "a.ckpt", asa())
    model = AttentionModel(tmp_path / "a.ckpt", device=CPU)
    sample = sample_of(model.classifier, TEXT, [])
    quiet, first, again, other = (model.attend(sample, seed=seed) for seed in (None, 1, 1, 2))
    assert (quiet.drawn, first.drawn) == (False, True)
    assert all(map(torch.equal, first.masked, again.masked))
    assert not all(map(torch.equal, first.masked, other.masked))
    assert not all(map(torch.equal, first.masked, quiet.masked))
    # The first layer is given the same each time: what is drawn has these chances on average.
    chance = quiet.chance(1, None)
    assert chance is not None
    torch.testing.assert_close(first.chance(1, None), chance)
    drawn = [model.attend(sample, seed=seed).mask(1, None) for seed in range(40)]
    share = torch.stack([mask for mask in drawn if mask is not None]).mean()
    assert float(share) == pytest.approx(float(chance.mean()), abs=0.05)


@pytest.mark.parametrize("masking", ["bernoulli", "magnitude"])
def test_rules_that_mask(tmp_path: Path, masking: str) -> None:
    saved(tmp_path / "a.ckpt", asa(masking=masking, share=0.4))
    found = attend(tmp_path / "a.ckpt")
    assert found.attacked is not None
    assert all(
        torch.equal(masked.float(), chance)
        for masked, chance in zip(found.masked, found.chances, strict=True)
    )
    assert 0.1 < float(found.masked[0].float().mean()) < 0.7


def test_no_adversary(tmp_path: Path) -> None:
    saved(tmp_path / "a.ckpt", asa(masking="none"))
    assert attend(tmp_path / "a.ckpt").attacked is None
    saved(tmp_path / "b.ckpt", lambda: make(FineTuning, **SETTINGS))
    assert attend(tmp_path / "b.ckpt").attacked is None


@pytest.mark.parametrize("kind", ARCHITECTURES)
def test_every_kind_of_encoder(tmp_path: Path, kind: str) -> None:
    saved(tmp_path / "a.ckpt", asa(architecture=ARCHITECTURES[kind]))
    found = attend(tmp_path / "a.ckpt")
    assert (found.layers, found.heads) == (2, 2)
    assert found.attacked is not None
    assert len(found.attacked.maps) == len(found.masked) == len(found.chances) == 2


def test_wrapped(tmp_path: Path) -> None:
    saved(
        tmp_path / "a.ckpt",
        lambda: AdversarialTraining(classifier=unibert(), adversary=FreeLB(steps=2)),
    )
    found = attend(tmp_path / "a.ckpt")
    assert (found.method, found.layers) == ("AdversarialTraining", 3)


@pytest.mark.parametrize(
    ("task", "pairs", "answers"),
    [("regression", ["not bad"], 0), ("tagging", [], 6), ("choice", ["good", "bad one", "it"], 3)],
)
def test_other_tasks(tmp_path: Path, task: TaskName, pairs: list[str], answers: int) -> None:
    saved(tmp_path / "a.ckpt", asa(), task=task, pairs=bool(pairs))
    found = attend(tmp_path / "a.ckpt", TEXT, *pairs)
    assert found.attacked is not None
    assert len(found.plain.answers) == len(found.attacked.answers) == answers
    shapes = {one.shape[1:] for one in (*found.plain.maps, *found.masked)}
    # Without the padding that a longer choice brings.
    assert shapes == {(len(found.tokens), len(found.tokens))}
    weights = found.map(1, None)
    assert weights is not None
    torch.testing.assert_close(weights.sum(dim=-1), torch.ones(len(weights)))
    if task == "tagging":
        assert [word for word, _ in found.plain.answers] == TEXT.split()
        assert len(found.plain.prediction.split()) == 6
    if task == "choice":
        assert found.plain.prediction == "ABC"[found.row]
        other = attend(tmp_path / "a.ckpt", TEXT, *pairs, row=1)
        assert other.row == 1
        assert other.plain.answers == found.plain.answers


def test_words_are_tagged_whole(tmp_path: Path) -> None:
    saved(tmp_path / "a.ckpt", asa(), task="tagging")
    words = ["goodness", "is", "not-a-good-film-and-very-long-indeed", *["long"] * 30]
    found = attend(tmp_path / "a.ckpt", " ".join(words))
    assert found.cut
    assert found.tokens[2].startswith("##")
    tagged = [word for word, _ in found.plain.answers]
    assert 3 < len(tagged) < len(words)
    assert tagged == words[: len(tagged)]
    assert len(found.plain.prediction.split()) == len(tagged)


def test_a_method_without_an_encoder(tmp_path: Path) -> None:
    build: Build = plain()
    saved(tmp_path / "a.ckpt", build)
    with pytest.raises(ValueError, match=f"of TextClassifier, which has no .*{BIASABLE[0]}"):
        AttentionModel(tmp_path / "a.ckpt", device=CPU)


def test_attention_that_cannot_be_looked_at(tmp_path: Path) -> None:
    architecture = {
        "model_type": "mobilebert",
        "hidden_size": 16,
        "embedding_size": 16,
        "intra_bottleneck_size": 16,
        "num_hidden_layers": 1,
        "num_attention_heads": 2,
        "intermediate_size": 24,
        "max_position_embeddings": 40,
    }
    saved(
        tmp_path / "a.ckpt",
        lambda: make(
            UniBERT,
            **{**SETTINGS, "architecture": architecture, "unitary": "none", "pooling": "first"},
        ),
    )
    with pytest.raises(ValueError, match="kind 'mobilebert', whose attention cannot be biased"):
        AttentionModel(tmp_path / "a.ckpt", device=CPU)
