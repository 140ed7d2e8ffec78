"""Frozen encoders: from a folder or from their configuration, any of their layers."""

import json
from pathlib import Path

import pytest
import torch
from torch import Tensor

from layers.frozen_backbone import FrozenBackbone, FrozenEncoder
from tests.unit.lit_modules.builders import save_backbone


@pytest.fixture(scope="module", params=["bert", "roberta"])
def folder(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> str:
    return save_backbone(tmp_path_factory.mktemp(request.param), request.param)


def inputs() -> tuple[Tensor, Tensor]:
    ids = torch.tensor([[2, 5, 6, 3], [2, 7, 3, 0]])
    return ids, torch.arange(4) < torch.tensor([4, 3])[:, None]


@pytest.mark.parametrize("layer", [-3, -1, 0, 1, 2])
def test_layer_is_that_hidden_state(folder: str, layer: int) -> None:
    backbone = FrozenBackbone(FrozenEncoder(pretrained=folder, layer=layer), norm=3.0)
    ids, mask = inputs()
    states = backbone.encoder(ids, attention_mask=mask.long(), output_hidden_states=True)
    hidden = states.hidden_states[layer]
    expected = 3.0 * torch.nn.functional.normalize(hidden, dim=-1)
    torch.testing.assert_close(backbone(ids, mask)[mask], expected[mask])


@pytest.mark.parametrize("layer", [3, -4])
def test_no_such_layer(folder: str, layer: int) -> None:
    with pytest.raises(ValueError, match=rf"got backbone.layer={layer}, expected -3 \.\.\. 2"):
        FrozenBackbone(FrozenEncoder(pretrained=folder, layer=layer))


def test_rebuilt_from_its_configuration_alone(folder: str) -> None:
    backbone = FrozenBackbone(FrozenEncoder(pretrained=folder))
    config = json.loads(json.dumps(backbone.config))
    again = FrozenBackbone(FrozenEncoder(pretrained="no such folder"), config=config)
    again.load_state_dict(backbone.state_dict())
    ids, mask = inputs()
    assert torch.equal(again(ids, mask), backbone(ids, mask))
    assert again.config == backbone.config


def test_frozen_in_evaluation_mode(folder: str) -> None:
    backbone = FrozenBackbone(FrozenEncoder(pretrained=folder)).train()
    assert not any(parameter.requires_grad for parameter in backbone.parameters())
    assert not any(module.training for module in backbone.encoder.modules())
    ids, mask = inputs()
    assert torch.equal(backbone(ids, mask), backbone(ids, mask))


def test_folder_without_an_encoder(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"expected a folder with config\.json and weights"):
        FrozenBackbone(FrozenEncoder(pretrained=str(tmp_path)))


def test_the_cache_knows_a_changed_text_of_a_sample(folder: str) -> None:
    """Adversarial texts have the ids of their samples, and may have other lengths."""
    ids, mask = inputs()
    samples, segments = torch.tensor([4, 9]), torch.zeros_like(ids)
    backbone = FrozenBackbone(FrozenEncoder(pretrained=folder, cache=True))
    plain = FrozenBackbone(FrozenEncoder(pretrained=folder))
    plain.load_state_dict(backbone.state_dict())
    for changed, real in ((ids, mask), (ids + mask.long(), mask), (ids, mask & (ids != 3))):
        for _ in range(2):
            vectors = backbone(changed, real, segments, sample_ids=samples)
            assert torch.equal(vectors[real], plain(changed, real, segments)[real])
