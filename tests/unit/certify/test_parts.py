"""Whatever could make a network compute something else than its weights say is refused."""

import copy
import types
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn.utils import parametrizations, parametrize
from torch.nn.utils import spectral_norm as old_spectral_norm

from certify import Certifier, certify
from certify.parts import PARTS
from layers import LipschitzClassifier, LipschitzEncoder, OrthogonalLinear
from layers.attention.l2 import L2Attention
from layers.attention.one_lipschitz import OneLipschitzSelfAttention
from layers.attention.one_lipschitz_l2 import OneLipschitzL2Attention
from layers.encoders import LipschitzBlock
from tests.unit.certify.models import OPTIONS, RADIUS, Toy, classifier, olsa, tokens

ALL = {"feedforward": True, "mean_norm": True, "offset_heads": 1, "head_bias": True}
KINDS = [kind for kind in PARTS if kind is not nn.ModuleList]


class Fifty(nn.Module):
    """A parametrisation."""

    def forward(self, weight: torch.Tensor) -> torch.Tensor:
        return 50 * weight


class Strange(nn.Parameter):
    """A parameter with operations of its own."""


def fifty(*_: Any) -> Any:
    return 50 * _[-1] if isinstance(_[-1], torch.Tensor) else None


def own_forward(part: nn.Module) -> None:
    """As a user would time or scale a layer."""
    plain = part.forward
    part.forward = lambda *given: plain(*given)


def subclass(part: nn.Module) -> None:
    part.__class__ = type("Sharper", (type(part),), {"forward": lambda self, x, *_: 50 * x})


def first_parameter(part: nn.Module) -> str:
    return next(iter(part._parameters))


TAMPERINGS: dict[str, Callable[[nn.Module], Any]] = {
    "forward hook": lambda part: part.register_forward_hook(lambda *given: None),
    "hook with keywords": lambda part: part.register_forward_hook(fifty, with_kwargs=True),
    "pre-hook": lambda part: part.register_forward_pre_hook(lambda *given: None),
    "own forward": own_forward,
    "bound forward": lambda part: setattr(
        part, "forward", types.MethodType(lambda self, x, *_: 50 * x, part)
    ),
    "own call": lambda part: setattr(part, "_call_impl", part.forward),
    "compiled": lambda part: setattr(part, "_compiled_call_impl", part.forward),
    "subclass": subclass,
    "parametrisation": lambda part: parametrize.register_parametrization(
        part, first_parameter(part), Fifty()
    ),
    "strange parameter": lambda part: setattr(
        part, first_parameter(part), Strange(torch.ones(2, 2))
    ),
    "another parameter": lambda part: part.register_parameter("more", nn.Parameter(torch.ones(1))),
    "buffer": lambda part: part.register_buffer("more", torch.ones(1)),
    "another part": lambda part: part.add_module("more", nn.Linear(8, 8)),
    "another attribute": lambda part: setattr(part, "more", [1]),
}


def parts_of(toy: Toy, kind: type[nn.Module]) -> list[nn.Module]:
    return [part for part in toy.network.modules() if type(part) is kind]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("tampering", TAMPERINGS)
def test_a_part_that_is_tampered_with_is_refused(tampering: str, kind: type[nn.Module]) -> None:
    distance = {"attention": "l2"} if kind is OneLipschitzL2Attention else ALL
    toy = classifier(2, **distance)
    part = parts_of(toy, kind)[-1]
    if "param" in tampering and tampering != "another parameter" and not part._parameters:
        return  # nothing there to tamper with
    TAMPERINGS[tampering](part)
    with pytest.raises(ValueError, match="no theorem covers others"):
        Certifier(toy)


def replace(path: str, part: Any) -> Callable[[Toy], None]:
    def act(toy: Toy) -> None:
        parent, _, name = path.rpartition(".")
        setattr(toy.network.get_submodule(parent), name, part)

    return act


def shadow(path: str, part: Any) -> Callable[[Toy], None]:
    """Stands before the part of that name, which stays among the network's modules."""

    def act(toy: Toy) -> None:
        parent, _, name = path.rpartition(".")
        vars(toy.network.get_submodule(parent))[name] = part

    return act


BLOCK = "encoder.blocks.1"
PLACES: dict[str, Callable[[Toy], Any]] = {
    # Each of these classes is covered, in its own place.
    "linear for GroupSort": replace(f"{BLOCK}.feedforward.activation", nn.Linear(8, 8)),
    "linear for dropout": replace(f"{BLOCK}.dropout", nn.Linear(8, 8)),
    "linear for a block": replace(BLOCK, nn.Linear(8, 8)),
    "linear for orthogonal": replace(f"{BLOCK}.attention.value", nn.Linear(8, 8)),
    "orthogonal for the head": replace("head", OrthogonalLinear(8, 3)),
    "no head": replace("head", None),
    "list of attention": replace(
        "encoder.blocks", nn.ModuleList([OneLipschitzSelfAttention(8, 2)])
    ),
    "function before attention": shadow(f"{BLOCK}.attention", lambda x, mask, radius: (x, radius)),
    "function before the norm": shadow(f"{BLOCK}.norm", lambda x, mask, radius: (x, radius)),
    "None before the norm": shadow(f"{BLOCK}.norm", None),
    "own score_weight": replace(f"{BLOCK}.attention.score_weight", lambda: torch.ones(1, 4)),
    "own weight": replace(f"{BLOCK}.attention.value.weight", lambda: torch.ones(1, 8, 8)),
    "own _shift": replace(f"{BLOCK}.attention._shift", lambda value: 50 * value),
    "unknown activation": replace(f"{BLOCK}.attention.activation", "gelu"),
    "negative clip": replace(f"{BLOCK}.attention.value_clip", -1.0),
    "negative radius": replace("encoder.radius", -2.0),
    "radius that is no number": replace("encoder.radius", float("nan")),
    "radius per token": replace("encoder.radius", torch.ones(1)),
    "group of one": replace(f"{BLOCK}.feedforward.activation.group_size", 1),
    "new weight norm": lambda toy: parametrizations.weight_norm(olsa(toy).head),
    "old spectral norm": lambda toy: old_spectral_norm(olsa(toy).head),
}


@pytest.mark.parametrize("place", PLACES)
def test_a_part_in_the_place_of_another_is_refused(place: str) -> None:
    toy = classifier(2, **ALL)
    PLACES[place](toy)
    with pytest.raises(ValueError, match="no theorem covers others"):
        Certifier(toy)


class Renamed(LipschitzClassifier):
    """Looks like the covered class."""


class Sharper(OneLipschitzSelfAttention):
    """So does this."""


def test_refuses_subclasses_by_name() -> None:
    network = LipschitzClassifier(
        LipschitzEncoder([LipschitzBlock(Sharper(8, 2))], radius=RADIUS), 8, 2
    )
    with pytest.raises(
        ValueError, match=r"got a Sharper as network\.encoder\.blocks\.0\.attention"
    ):
        Certifier(Toy(network))
    with pytest.raises(ValueError, match="got a Renamed as network, expected a LipschitzClassif"):
        Certifier(Toy(Renamed(LipschitzEncoder([], radius=RADIUS), 8, 2)))


def test_refuses_l2_attention_with_own_keys_by_its_theorem() -> None:
    toy = classifier(1, attention="l2")
    replace("encoder.blocks.0.attention", L2Attention(8, 2))(toy)
    with pytest.raises(ValueError, match=r"has no Lipschitz constant \(Kim et al., 2021, Lemma F"):
        Certifier(toy)


@contextmanager
def global_hook(register: Callable[..., Any]) -> Iterator[None]:
    handle = register(lambda *given: None)
    try:
        yield
    finally:
        handle.remove()


@pytest.mark.parametrize(
    "register",
    [
        nn.modules.module.register_module_forward_hook,
        nn.modules.module.register_module_forward_pre_hook,
    ],
)
def test_refuses_hooks_on_all_modules(register: Callable[..., Any]) -> None:
    toy, batch = classifier(1), tokens([3])
    certifier = Certifier(toy)
    with global_hook(register):
        for attempt in (lambda: Certifier(toy), lambda: certifier(batch)):
            with pytest.raises(ValueError, match="a forward hook on all modules"):
                attempt()
    assert float(certifier(batch).radius) > 0


def test_what_is_tampered_with_after_the_measurement_is_refused() -> None:
    toy, batch = classifier(1), tokens([3])
    certifier = Certifier(toy)
    handle = olsa(toy).head.register_forward_hook(fifty)
    with pytest.raises(ValueError, match=r"a forward hook on network\.head"):
        certifier(batch)
    handle.remove()
    assert float(certifier(batch).radius) > 0


class Holder(nn.Module):
    """As a LightningModule holds its network."""

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.network = network

    def embed(self, batch: Any) -> torch.Tensor:
        x: torch.Tensor = batch.x
        return x

    def classify(self, x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        logits: torch.Tensor = self.network(x, mask)
        return logits


class Outer(nn.Module):
    """As a method that trains another holds it."""

    def __init__(self, inner: Holder) -> None:
        super().__init__()
        self.inner = inner

    @property
    def network(self) -> nn.Module:
        return self.inner.network

    def embed(self, batch: Any) -> torch.Tensor:
        return self.inner.embed(batch)


@pytest.mark.parametrize("method", ["embed", "classify", "forward"])
def test_refuses_methods_set_on_what_holds_the_network(method: str) -> None:
    batch = tokens([3])
    wraps: tuple[Callable[[Holder], Any], ...] = (lambda holder: holder, Outer)
    for wrap in wraps:
        holder = Holder(classifier(1).network)
        assert float(certify(wrap(holder), batch).radius) > 0
        own = getattr(holder, method)
        # As Lightning's strategy for several processes leaves it behind.
        setattr(holder, method, own)
        assert float(certify(wrap(holder), batch).radius) > 0
        other = Holder(classifier(2).network)
        for foreign in (lambda *given, own=own: own(*given), getattr(other, method)):
            setattr(holder, method, foreign)
            with pytest.raises(ValueError, match=rf"{method}\(\) set on the instance of Holder"):
                Certifier(wrap(holder))


def test_refuses_hooks_on_what_holds_the_network() -> None:
    holder = Holder(classifier(1).network)
    holder.register_forward_hook(fifty)
    with pytest.raises(ValueError, match="a forward hook on Holder"):
        Certifier(Outer(holder))


@pytest.mark.parametrize("name", OPTIONS)
def test_what_changes_no_output_is_accepted(name: str) -> None:
    toy, batch = classifier(2, **OPTIONS[name]), tokens([3, 2])
    expected = certify(toy, batch).radius
    for part in toy.network.modules():
        part.register_full_backward_hook(lambda *given: None)
    toy.network.load_state_dict(copy.deepcopy(toy.network.state_dict()))
    assert torch.equal(certify(toy, batch).radius, expected)


@pytest.mark.long
@pytest.mark.filterwarnings("ignore:.torch.jit.script_method. is deprecated:DeprecationWarning")
@pytest.mark.parametrize("wrap", [nn.DataParallel, lambda part: torch.compile(part)])
def test_a_wrapped_or_compiled_network_is_refused(wrap: Callable[[nn.Module], Any]) -> None:
    """It would get radius 0 without a word."""
    holder = Holder(classifier(1).network)
    for module in (wrap(holder), Holder(wrap(holder.network))):
        with pytest.raises(ValueError, match="around the network, expected the network itself"):
            Certifier(module)
    holder.network.compile()
    with pytest.raises(ValueError, match="_compiled_call_impl"):
        Certifier(holder)


def test_the_reason_of_a_radius_of_0_is_said(caplog: pytest.LogCaptureFixture) -> None:
    class Other(nn.Module):
        def forward(self, x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
            return (x * mask.unsqueeze(-1)).sum(dim=1)[:, :2]

    batch = tokens([3])
    found = certify(Holder(Other()), batch)
    assert float(found.radius) == 0
    assert found.reason == "a Other is no LipschitzClassifier"
    assert "every radius is 0: a Other is no LipschitzClassifier" in caplog.text
    assert certify(Holder(classifier(1).network), batch).reason is None
