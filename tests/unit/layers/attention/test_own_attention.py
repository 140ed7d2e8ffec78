"""An attention of one's own takes the place of ours if it has the properties of ours."""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from examples.attention_of_your_own import NearAttention
from layers import TransformerClassifier
from layers.attention.attention_check import AttentionCheck
from layers.attention.mechanisms import Attention
from layers.attention.own_attention import NotImportedError, no_imports, own_class
from layers.attention.scaled_dot_product import SelfAttention

HERE = __name__


class Good(nn.Module):
    """Mean of the real tokens, mapped."""

    def __init__(self, width: int, length: int, early: bool, steps: int = 1) -> None:
        """Args: width: of a token. length: of a text. early: of the layers. steps: own."""
        super().__init__()
        self.given = (width, length, early, steps)
        self.map = nn.Linear(width, width)

    def mean(self, x: Tensor, mask: Tensor) -> Tensor:
        """Return `[B, 1, d]`."""
        real = mask.unsqueeze(-1)
        return x.masked_fill(~real, 0.0).sum(dim=1, keepdim=True) / real.sum(dim=1, keepdim=True)

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        """Return `[B, N, d]`."""
        out: Tensor = self.map(self.mean(x, mask).expand_as(x))
        return out


class Deaf(Good):
    """Ignores the mask."""

    def mean(self, x: Tensor, mask: Tensor) -> Tensor:
        """Return the mean of all tokens."""
        del mask
        return x.mean(dim=1, keepdim=True)


class ByLength(Good):
    """Leaves out padding, but divides by the length of the batch."""

    def mean(self, x: Tensor, mask: Tensor) -> Tensor:
        """Return a mean that depends on the padding."""
        return x.masked_fill(~mask.unsqueeze(-1), 0.0).mean(dim=1, keepdim=True)


class Pooled(Good):
    """Returns one token."""

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        """Return `[B, 1, d]`."""
        return self.mean(x, mask)


class Infinite(Good):
    """Leaves NaN at padding."""

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        """Return NaN at padding."""
        return super().forward(x, mask).masked_fill(~mask.unsqueeze(-1), float("nan"))


class Random(Good):
    """Draws numbers in evaluation mode."""

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        """Return something else each time."""
        return super().forward(x, mask) + torch.randn_like(x)


class Steep(Good):
    """Has an infinite gradient at 0."""

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        """Return finite numbers."""
        return super().forward(x, mask) + (x - x).abs().sqrt()


class Wants(Good):
    """Has an argument that no layer knows."""

    def __init__(self, width: int, colour: str) -> None:
        """Args: width: of a token. colour: unknown."""
        super().__init__(width, 1, early=False)
        self.colour = colour


def model(kind: str, **settings: Any) -> TransformerClassifier:
    own = Attention(kind=kind)
    return TransformerClassifier(8, 2, **{"depth": 2, "heads": 2, "attention": own, **settings})


def test_an_own_attention_is_built_and_trained() -> None:
    before = torch.get_rng_state()
    classifier = model(f"{HERE}.Good", max_length=9)
    torch.set_rng_state(before)
    again = model(f"{HERE}.Good", max_length=9)
    for parameter, other in zip(classifier.parameters(), again.parameters(), strict=True):
        assert torch.equal(parameter, other)
        assert parameter.grad is None
    layers = [module for module in classifier.modules() if isinstance(module, Good)]
    assert [module.given for module in layers] == [(8, 9, True, 1), (8, 9, False, 1)]
    assert all(module.training for module in classifier.modules())
    mask = torch.tensor([[True, True, False]])
    classifier(torch.randn(1, 3, 8), mask).sum().backward()
    assert all(module.map.weight.grad is not None for module in layers)


@pytest.mark.parametrize("length", [3, 4, 512])
def test_the_example_and_ours_pass(length: int) -> None:
    torch.manual_seed(0)
    check = AttentionCheck(8, longest=length)
    check(NearAttention(8), "NearAttention")
    check(SelfAttention(8, 2, dropout=0.5), "SelfAttention")
    check(NearAttention(8).double(), "NearAttention in double precision")


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("Deaf", "a text of 1 tokens is another in a padded batch than alone .* use the mask"),
        ("ByLength", "a text of 1 tokens is another in a padded batch than alone"),
        ("Pooled", r"makes \[3, 1, 8\] of tokens \[3, 9, 8\], expected the same shape"),
        ("Infinite", "output is not finite everywhere"),
        ("Random", "output is another when it is computed again"),
        ("Steep", "gradients are not finite"),
        ("Wants", "constructor wants colour, expected none but width, heads, dropout, length"),
    ],
)
def test_a_broken_attention_is_refused_with_its_property(name: str, message: str) -> None:
    with pytest.raises(ValueError, match=message) as error:
        model(f"{HERE}.{name}")
    assert name in str(error.value)


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        ("no_such_file.Some", r"cannot be imported .*PYTHONPATH"),
        (f"{HERE}.Some", "expected a subclass of torch.nn.Module"),
        ("os.path", "expected a subclass of torch.nn.Module"),
        ("..", "cannot be imported|expected a subclass"),
    ],
)
def test_paths_that_lead_nowhere(kind: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Attention(kind=kind)


@pytest.fixture
def written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A file that leaves a mark when it is imported."""
    mark = tmp_path / "imported"
    (tmp_path / "written_attention.py").write_text(
        f"from pathlib import Path\nfrom {HERE} import Good\nPath({str(mark)!r}).touch()\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    yield mark
    sys.modules.pop("written_attention", None)


def test_nothing_is_imported_for_a_checkpoint(written: Path) -> None:
    with no_imports(), pytest.raises(NotImportedError, match="a checkpoint runs no code"):
        own_class("written_attention.Good")
    assert not written.exists()
    assert own_class("written_attention.Good") is Good
    assert written.exists()
    with no_imports():
        assert own_class("written_attention.Good") is Good
