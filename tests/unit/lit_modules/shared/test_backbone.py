"""A pretrained encoder under OLSA: frozen, in evaluation mode, cached while training only."""

import copy
import pickle

import pytest
import torch
from torch import Tensor, nn

from layers.frozen_backbone import FrozenBackbone
from lit_modules import TaskModule
from tests.unit.lit_modules.builders import SINGLE, attached, loader, olsa, trainer
from text import PretrainedTokenizer, WordTokenizer


def backbone_of(module: TaskModule) -> FrozenBackbone:
    assert isinstance(module.embedding, FrozenBackbone)
    return module.embedding


def kept(module: TaskModule) -> dict[int, tuple[list[int], Tensor]]:
    cache = backbone_of(module)._cache
    assert cache is not None
    return cache


@pytest.mark.long
def test_out_of_the_optimizer_and_in_evaluation_mode(bert: str) -> None:
    module = attached(olsa(backbone=bert, max_length=30)).train()
    encoder = backbone_of(module).encoder
    before = copy.deepcopy(encoder.state_dict())
    run = trainer(max_epochs=2)
    modes: list[bool] = []
    encoder.register_forward_hook(lambda *_: modes.append(encoder.training))
    run.fit(module, loader(module, SINGLE, 3), loader(module, SINGLE, 3))
    assert modes
    assert not any(modes)
    assert not any(part.training for part in encoder.modules())
    optimised = {id(p) for group in run.optimizers[0].param_groups for p in group["params"]}
    assert optimised == {id(p) for p in module.network.parameters()}
    assert all(torch.equal(encoder.state_dict()[name], value) for name, value in before.items())


@pytest.mark.parametrize("kind", ["bert", "roberta"])
def test_cache_changes_nothing(kind: str, request: pytest.FixtureRequest) -> None:
    folder = request.getfixturevalue(kind)
    cached = attached(olsa(backbone=folder, max_length=30, cache=True)).train()
    without = attached(olsa(backbone=folder, max_length=30)).train()
    for size in (2, 3, 7):  # other batches, other padding: from the first pass on from memory
        for batch in loader(cached, SINGLE, size):
            mask = batch.mask
            actual, expected = cached.embed(batch), without.embed(batch)
            assert actual.shape == expected.shape
            torch.testing.assert_close(actual[mask], expected[mask], rtol=1e-6, atol=1e-6)
            wide = torch.nn.functional.pad(mask, (0, 2))
            batch.mask, batch.input_ids = wide, torch.nn.functional.pad(batch.input_ids, (0, 2))
            assert cached.embed(batch).shape == (*wide.shape, 16)
    assert kept(cached).keys() == set(range(len(SINGLE)))


@pytest.mark.long
def test_cache_is_for_training_only(bert: str) -> None:
    """Sample ids are those of a split: validation texts have the same ones."""
    module = attached(olsa(backbone=bert, max_length=30, cache=True))
    calls: list[int] = []
    backbone_of(module).encoder.register_forward_hook(lambda *_: calls.append(1))
    trainer().validate(module, loader(module, SINGLE, 3), verbose=False)
    trainer().predict(module, loader(module, SINGLE, 3))
    module.train().predict_texts(SINGLE)
    assert kept(module) == {}
    calls.clear()
    run = trainer(max_epochs=3, num_sanity_val_steps=0)
    run.fit(module, loader(module, SINGLE[:4], 2), loader(module, SINGLE[4:], 3))
    assert len(calls) == 2 + 3  # two training batches once, one validation batch every epoch
    assert kept(module).keys() == {0, 1, 2, 3}


def test_cache_is_not_copied(bert: str) -> None:
    module = attached(olsa(backbone=bert, max_length=30, cache=True)).train()
    for batch in loader(module, SINGLE, 3):
        module.embed(batch)
    assert kept(module)
    for again in (copy.deepcopy(module), pickle.loads(pickle.dumps(module))):
        assert kept(again) == {}
        assert torch.equal(again.eval().predict_texts(SINGLE), module.eval().predict_texts(SINGLE))
    assert kept(module)
    assert not [name for name in module.state_dict() if "cache" in name]


def test_vectors_have_the_norm_of_the_certificate(bert: str) -> None:
    module = attached(olsa(backbone=bert, max_length=30, embedding_norm=3.0))
    batch = module.encode_texts(SINGLE)
    norms = module.embed(batch).norm(dim=-1)[batch.mask]
    torch.testing.assert_close(norms, torch.full_like(norms, 3.0))
    assert not module.embed(batch).requires_grad


def test_takes_its_own_tokenizer(bert: str) -> None:
    module = olsa(backbone=bert, max_length=30)()
    tokenizer = module.build_tokenizer(["words that it has never seen"])
    assert isinstance(tokenizer, PretrainedTokenizer)
    assert tokenizer.max_length == 30


@pytest.mark.parametrize("kind", ["bert", "roberta"])
def test_longest_text_works_and_a_longer_one_is_refused(
    kind: str, request: pytest.FixtureRequest
) -> None:
    folder = request.getfixturevalue(kind)
    module = attached(olsa(backbone=folder, max_length=40))
    assert module.predict_texts(["good " * 100]).shape == (1, 3)
    backbone_of(module).check_fits(10, 40)
    with pytest.raises(ValueError, match=r"max_length=41, expected at most \d+ ids and 40 tokens"):
        backbone_of(module).check_fits(10, 41)


@pytest.mark.long
def test_foreign_tokenizer_is_refused(bert: str) -> None:
    module = olsa(backbone=bert)()
    words = WordTokenizer.build([f"word{i}" for i in range(100)], max_length=30)
    module.attach(words, ["a", "b"])
    with pytest.raises(ValueError, match=r"got a tokenizer of 103 ids .* use the tokenizer it was"):
        module.configure_model()


def test_no_backbone_there() -> None:
    module = olsa(backbone="./nowhere")()
    with pytest.raises(ValueError, match=r"got backbone './nowhere', which is no folder"):
        module.build_tokenizer([])
    module.attach(WordTokenizer.build(SINGLE, max_length=8), ["a", "b"])
    with pytest.raises(ValueError, match=r"got backbone './nowhere', which is no folder"):
        module.configure_model()


@pytest.mark.long
@pytest.mark.pretrained
def test_real_backbone_cached(minilm: str) -> None:
    module = attached(olsa(backbone=minilm, heads=8, max_length=30, cache=True)).train()
    for batch in loader(module, SINGLE, 3):
        first = module.embed(batch)[batch.mask]
        torch.testing.assert_close(module.embed(batch)[batch.mask], first, rtol=1e-6, atol=1e-6)
    encoder: nn.Module = backbone_of(module).encoder
    assert not encoder.training
