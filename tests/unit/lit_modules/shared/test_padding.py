"""Logits of a text are the same alone and padded in a batch, whatever stands in the padding."""

import pytest
import torch

from lit_modules import TaskModule
from tests.unit.lit_modules.builders import (
    EVERY_METHOD,
    METHODS,
    PAIRS,
    SINGLE,
    Build,
    attached,
    olsa,
)
from text import Batch


@torch.no_grad()
def check(module: TaskModule, *, pairs: bool, tolerance: float = 1e-6) -> None:
    texts = PAIRS if pairs else SINGLE
    batch = module.encode_texts(texts)
    assert not bool(batch.mask.all())
    together = module(batch)
    for row, text in enumerate(texts):
        alone = module(module.encode_texts([text]))[0]
        torch.testing.assert_close(together[row], alone, rtol=tolerance, atol=tolerance)
    # More padding, other ids in it, other segments in it.
    torch.manual_seed(1)
    extra = torch.zeros(len(texts), 3, dtype=torch.int64)
    mask = torch.cat([batch.mask, extra.bool()], dim=1)
    ids = torch.cat([batch.input_ids, extra], dim=1)
    segments = None
    if batch.segment_ids is not None:
        segments = torch.cat([batch.segment_ids, extra], dim=1).where(mask, 1)
    noise = torch.randint(module.require_text()[0].vocab_size, ids.shape)
    other = module(Batch(ids.where(mask, noise), mask, batch.sample_ids, None, segments))
    torch.testing.assert_close(other, together, rtol=tolerance, atol=tolerance)


@torch.no_grad()
def check_vectors(module: TaskModule) -> None:
    """The same for `classify`: attacks hand it vectors, and whatever stands in the padding."""
    batch = module.encode_texts(SINGLE)
    x = module.embed(batch)
    noise = 1e3 * torch.randn_like(x)
    expected = module.classify(x, batch.mask)
    logits = module.classify(torch.where(batch.mask[..., None], x, noise), batch.mask)
    torch.testing.assert_close(logits, expected, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("pairs", [False, True])
@EVERY_METHOD
def test_every_method(build: Build, pairs: bool) -> None:
    module = attached(build, pairs=pairs)
    check(module, pairs=pairs)
    if not pairs:
        check_vectors(module)


@pytest.mark.parametrize("build", METHODS.values(), ids=METHODS.keys())
def test_exact_in_double_precision(build: Build) -> None:
    check(attached(build).double(), pairs=False, tolerance=1e-12)


@pytest.mark.parametrize("pairs", [False, True])
@pytest.mark.parametrize("layer", [-1, 0, 1, 2])
@pytest.mark.parametrize("kind", ["bert", "roberta"])
def test_frozen_backbone(
    kind: str, layer: int, pairs: bool, request: pytest.FixtureRequest
) -> None:
    folder = request.getfixturevalue(kind)
    build = olsa(backbone=folder, layer=layer, max_length=30, offset_heads=1)
    check(attached(build, pairs=pairs), pairs=pairs)


@pytest.mark.long
@pytest.mark.pretrained
@pytest.mark.parametrize("pairs", [False, True])
def test_real_backbone(minilm: str, pairs: bool) -> None:
    build = olsa(backbone=minilm, heads=8, max_length=30, value_clip=1.0, feedforward=True)
    check(attached(build, pairs=pairs), pairs=pairs, tolerance=2e-6)
