"""Masks within encoders of `transformers`: against the library's own attention, and left alone."""

import copy
import gc
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from layers.architectures import architecture_of, build_encoder, check_settings
from layers.attention.masking.biased import BIASABLE, ENTRY, BiasedAttention
from layers.attention.masking.learnt_masks import AttentionAdversary
from layers.attention.masking.masks import Masks
from layers.attention.masking.rules import RuleMasks
from layers.noise import sample_seeds
from layers.pretrained_encoders import load_encoder, save_model
from layers.shared_dropout import SharedDropout, SharedLinear
from tests.unit.layers.small_encoders import EVERY_KIND, untried

EVERY = pytest.mark.parametrize("name", EVERY_KIND)
MORE = {
    name: {**EVERY_KIND["bert"], "model_type": name}
    for name in ("electra", "camembert", "xlm-roberta")
}
LENGTHS = (4, 9, 6)
N = max(LENGTHS)
IDS = torch.randint(5, 50, (3, N), generator=torch.Generator().manual_seed(1))
REAL = torch.arange(N) < torch.tensor(LENGTHS).view(-1, 1)


def encoder_of(name: str, *, rate: float = 0.1, **settings: Any) -> Any:
    torch.manual_seed(0)
    architecture = {**EVERY_KIND, **MORE}[name]
    encoder = build_encoder({**architecture, "vocab_size": 60, **settings})
    # Weights as large as trained ones: with those of the start, attention is nearly uniform.
    with torch.no_grad():
        for parameter in encoder.parameters():
            parameter.mul_(8 if parameter.dim() > 1 else 1)
    for module in encoder.modules():
        if isinstance(module, nn.Dropout):
            module.p = rate
        elif isinstance(getattr(module, "attention_dropout", None), float | int):
            module.attention_dropout = rate  # type: ignore[assignment] # a number, as checked
    encoder.train(False)
    return encoder


def biased(name: str, **settings: Any) -> tuple[Any, BiasedAttention]:
    encoder = encoder_of(name, **settings)
    return encoder, BiasedAttention(encoder)


def run(encoder: nn.Module, ids: Tensor = IDS, real: Tensor = REAL, seed: int = 7) -> Tensor:
    torch.manual_seed(seed)
    out: Tensor = encoder(input_ids=ids, attention_mask=real.long()).last_hidden_state
    return out


def loss(hidden: Tensor) -> Tensor:
    """One number. (Squares would not do: behind a layer norm, their sum is a constant.)"""
    direction = torch.randn(hidden.shape[-1], generator=torch.Generator().manual_seed(6))
    return (hidden.float() @ direction).sin().sum()


class Given(Masks):
    """Masks that are given, by layer."""

    def __init__(self, real: Tensor, keep: list[Tensor]) -> None:
        super().__init__(real)
        self.given, self.asked = keep, list[int]()
        self.seen: list[Tensor] = []

    def choose(self, layer: int, hidden: Tensor, probabilities: Any) -> Tensor:
        self.asked.append(layer)
        self.seen.append(probabilities())
        assert hidden.shape[:2] == self.real.shape
        return self.given[layer]


def given(heads: int = 1, layers: int = 2, real: Tensor = REAL) -> Given:
    generator = torch.Generator().manual_seed(3)
    shape = (layers, len(real), heads, real.shape[1], real.shape[1])
    keep = (torch.rand(shape, generator=generator) > 0.5).float()
    keep[..., 0] = 1.0
    keep.diagonal(dim1=-2, dim2=-1).fill_(1.0)  # the first token may be far, of a local attention
    return Given(real, list(keep * real[:, None, None, :]))


def all_kept(layers: int = 2) -> Given:
    return Given(REAL, [torch.ones(3, 1, N, N) for _ in range(layers)])


# Left alone


@pytest.mark.parametrize("name", [*EVERY_KIND, *MORE])
def test_evaluation_and_training_are_those_of_the_untouched_encoder(name: str) -> None:
    plain, (encoder, _) = encoder_of(name), biased(name)
    assert list(encoder.state_dict()) == list(plain.state_dict())
    for real in (REAL, torch.ones_like(REAL)):
        assert torch.equal(run(encoder, real=real), run(plain, real=real))
    plain.train()
    encoder.train()
    assert torch.equal(run(encoder), run(plain))
    assert not torch.equal(run(encoder), run(plain, seed=8))


@EVERY
def test_a_recorded_pass_drops_what_plain_training_drops(name: str) -> None:
    plain, (encoder, attention) = encoder_of(name).train(), biased(name)
    encoder.train()
    with attention.tape.recording():
        recorded = run(encoder)
    expected = run(plain)
    # Other kernels round otherwise; another draw would be far away.
    torch.testing.assert_close(recorded[REAL], expected[REAL], rtol=1e-3, atol=1e-4)
    assert (run(plain, seed=8) - expected)[REAL].abs().max() > 0.1
    gradients = [
        torch.autograd.grad(loss(out[REAL]), module.get_input_embeddings().weight)[0]
        for out, module in ((recorded, encoder), (expected, plain))
    ]
    torch.testing.assert_close(*gradients, rtol=1e-2, atol=1e-2 * float(gradients[1].std()))


@EVERY
@pytest.mark.parametrize("rate", [0.0, 0.3])
@pytest.mark.parametrize("learnt", [False, True])
def test_masks_that_keep_all_change_not_a_bit(name: str, rate: float, learnt: bool) -> None:
    encoder, attention = biased(name, rate=rate)
    encoder.train()
    masks = all_kept()
    for keep in masks.given:
        keep.requires_grad_(learnt)
    weights = encoder.get_input_embeddings().weight
    with attention.tape.recording():
        recorded = run(encoder)
    expected = torch.autograd.grad(loss(recorded), weights, retain_graph=True)[0]
    with attention.tape.replaying(), attention.masked(masks):
        again = run(encoder, seed=8)
    assert torch.equal(again, recorded)
    gradient = torch.autograd.grad(loss(again), weights)[0]
    torch.testing.assert_close(gradient, expected, rtol=1e-4, atol=1e-4 * float(expected.std()))
    assert masks.asked == [0, 1]
    assert float(masks.masked().abs().max()) == 0


@EVERY
def test_nothing_is_left_behind(name: str) -> None:
    encoder, attention = biased(name)
    clean = run(encoder)
    with attention.masked(given()):
        assert not torch.allclose(run(encoder)[REAL], clean[REAL], atol=0.01)
    assert torch.equal(run(encoder), clean)
    before = {key: value for key, value in vars(attention).items() if key != "tape"}

    class Failing(Given):
        def choose(self, layer: int, hidden: Tensor, probabilities: Any) -> Tensor:
            if layer == 1:
                raise ZeroDivisionError
            return super().choose(layer, hidden, probabilities)

    failing = Failing(REAL, given().given)
    with (
        pytest.raises(ZeroDivisionError),
        attention.watched(),
        attention.masked(failing),
        attention.tape.recording(),
    ):
        run(encoder)
    assert attention.tape.mode == "off"
    assert torch.equal(run(encoder), clean)
    after = {key: value for key, value in vars(attention).items() if key != "tape"}
    assert {**before, "_layer": -1} == {**after, "_layer": -1}
    # A pass that was cut short does not shift the layers of the next one.
    masks = given()
    with attention.masked(masks):
        with pytest.raises(ZeroDivisionError), attention.masked(failing):
            run(encoder)
        expected = run(encoder)
        assert torch.equal(run(encoder), expected)
    assert masks.asked == [0, 1, 0, 1]


@EVERY
def test_memory_is_given_back(name: str) -> None:
    encoder, attention = biased(name)
    encoder.train()
    adversary = AttentionAdversary(16, 2, initial_keep=0.9)
    masks = adversary.masks(REAL, sample_seeds(torch.arange(3), seed=1, epoch=0))
    with attention.tape.recording():
        out = run(encoder)
    with attention.masked(masks), attention.tape.replaying(), attention.watched() as maps:
        torch.autograd.backward(loss(out + run(encoder)))
    attention.tape.clear()
    gc.collect()
    gc.disable()
    try:
        references = [weakref.ref(x) for x in (out, masks, maps[0], masks.kept[0])]
        del out, masks, maps
        # Without the help of the collector: there is no cycle among them.
        assert [ref() for ref in references] == [None] * 4
        dead = weakref.ref(attention)
        del attention, encoder
        gc.collect()
        assert dead() is None
    finally:
        gc.enable()


# Masked


OF_LIBRARY = {
    "bert": "BertSelfAttention",
    "modernbert": "ModernBertAttention",
    "eurobert": "EuroBertAttention",
    "nomic_bert": "NomicBertAttention",
    "gte": "GteAttention",
    "mpnet": "MPNetSelfAttention",
}
"""The attention of the library, where a mask that is added to the scores has its own argument."""


@contextmanager
def additive(encoder: Any, masks: Given) -> Iterator[list[Tensor]]:
    """The library's own eager attention, with what is masked in its additive mask."""
    layers = [m for m in encoder.modules() if type(m).__name__ in OF_LIBRARY.values()]
    maps: list[Tensor] = []
    lowest = torch.finfo(torch.float32).min

    def enter(module: nn.Module, args: Any, kwargs: Any) -> Any:
        keep = masks.given[layers.index(module)]
        real = masks.real[:, None, None, :]
        mask = torch.zeros_like(keep).masked_fill((keep == 0) | ~real, lowest)
        given = args[1] if len(args) > 1 else kwargs["attention_mask"]
        if given is not None:  # a local attention has more than the padding in it
            mask = mask.masked_fill(given < 0, lowest)
        if len(args) > 1:
            return (args[0], mask, *args[2:]), kwargs
        return args, {**kwargs, "attention_mask": mask}

    def leave(module: nn.Module, args: Any, out: Any) -> None:
        maps.extend(out[1:])

    hooks = [m.register_forward_pre_hook(enter, with_kwargs=True) for m in layers]
    hooks += [m.register_forward_hook(leave) for m in layers]
    assert len(layers) == 2
    if encoder.config.model_type != "mpnet":  # which has no other
        encoder.set_attn_implementation("eager")
    yield maps
    for hook in hooks:
        hook.remove()


@pytest.mark.parametrize("heads", [1, 2])
@pytest.mark.parametrize("learnt", [False, True])
@pytest.mark.parametrize("name", OF_LIBRARY)
def test_masked_is_that_of_the_library_with_an_additive_mask(
    name: str, heads: int, learnt: bool
) -> None:
    plain, (encoder, attention) = encoder_of(name), biased(name)
    masks = given(heads)
    for keep in masks.given:
        keep.requires_grad_(learnt)
    with additive(plain, masks) as expected_maps:
        expected = run(plain)
    with attention.masked(masks), attention.watched() as maps:
        out = run(encoder)
    torch.testing.assert_close(out[REAL], expected[REAL], rtol=1e-4, atol=1e-5)
    rows = REAL[:, None, :].expand(3, 2, N)
    for actual, target in zip(maps, expected_maps, strict=name != "mpnet"):
        torch.testing.assert_close(actual[rows], target[rows], rtol=1e-4, atol=1e-6)
    # A bias of the keys adds the same to all scores of a row: its gradient is rounding.
    without = ("pooler", "key.bias", "attn.k.bias")
    leaves = [
        [p for n, p in module.named_parameters() if not any(part in n for part in without)]
        for module in (encoder, plain)
    ]
    gradients, theirs = (
        torch.autograd.grad(loss(hidden[REAL]), parameters)
        for hidden, parameters in zip((out, expected), leaves, strict=True)
    )
    torch.testing.assert_close(gradients, theirs, rtol=1e-3, atol=1e-4)
    assert all(x.abs().max() > 0.01 for x in theirs)
    with torch.no_grad():
        assert (run(encoder) - expected)[REAL].abs().max() > 0.1


@pytest.mark.parametrize("name", ["deberta", "deberta-v2"])
@pytest.mark.parametrize("heads", [1, 2])
def test_masked_deberta_is_that_of_the_library_with_a_bias(
    name: str, heads: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain, (encoder, attention) = encoder_of(name), biased(name)
    masks = given(heads)
    layers = [m for m in plain.modules() if type(m).__name__ == "DisentangledSelfAttention"]
    method = "disentangled_att_bias" if name == "deberta" else "disentangled_attention_bias"
    original = getattr(type(layers[0]), method)
    visited = []

    def with_masks(self: nn.Module, *args: Any) -> Tensor:
        visited.append(layers.index(self))
        bias: Tensor = original(self, *args)
        keep = masks.given[visited[-1]].expand(3, 2, N, N).reshape(bias.shape)
        return bias + (1 - keep) * -1e5

    with monkeypatch.context() as patch:
        patch.setattr(type(layers[0]), method, with_masks)
        expected = run(plain)
    assert visited == [0, 1]
    with attention.masked(masks):
        out = run(encoder)
    torch.testing.assert_close(out[REAL], expected[REAL], rtol=1e-3, atol=1e-4)
    with torch.no_grad():
        assert (run(encoder) - expected)[REAL].abs().max() > 0.1
    gradient, expected_gradient = (
        torch.autograd.grad(loss(hidden[REAL]), m.get_input_embeddings().weight)[0]
        for hidden, m in ((out, encoder), (expected, plain))
    )
    torch.testing.assert_close(gradient, expected_gradient, rtol=1e-2, atol=1e-4)


@pytest.mark.parametrize("rule", ["adversarial", "bernoulli", "magnitude"])
def test_masks_of_a_local_attention_count_and_keep_what_it_sees(rule: Any) -> None:
    """The second layer of ModernBERT sees two tokens to each side."""
    encoder, attention = biased("modernbert")
    seeds = sample_seeds(torch.arange(3), seed=1, epoch=0)
    masks: Masks = (
        RuleMasks(rule, 0.95, real=REAL, seeds=seeds)
        if rule != "adversarial"
        else (AttentionAdversary(16, 2, std=0.5, initial_keep=0.05).masks(REAL, seeds))
    )
    chosen: list[Tensor] = []
    choose = masks.choose

    def recorded(*args: Any) -> Tensor:
        chosen.append(choose(*args))
        return chosen[-1]

    masks.choose = recorded  # type: ignore[method-assign,assignment] # a spy
    with attention.masked(masks), attention.watched() as maps:
        run(encoder)
    apart = (torch.arange(N).view(-1, 1) - torch.arange(N)).abs()
    both = REAL.unsqueeze(-1) & REAL.unsqueeze(-2)
    for layer, seen in enumerate((both, both & (apart <= 2))):
        keep = chosen[layer][:, 0].bool() & seen
        assert torch.equal(masks.units[layer], seen.sum(dim=(1, 2)))
        torch.testing.assert_close(
            masks.kept[layer].detach(), keep.sum(dim=(1, 2)) / seen.sum(dim=(1, 2))
        )
        assert keep.any(dim=-1)[REAL].all()  # no row is masked whole
        assert keep.sum() < 0.5 * seen.sum()
        assert torch.equal((maps[layer] > 0).all(dim=1) & both, keep)


def test_a_shared_layer_has_a_mask_for_each_depth() -> None:
    encoder, attention = biased("albert", num_hidden_layers=4)
    masks = given(layers=4)
    with attention.masked(masks):
        out = run(encoder)
    assert masks.asked == [0, 1, 2, 3]
    for layer in range(4):
        changed = given(layers=4)
        changed.given[layer] = torch.ones(3, 1, N, N)
        with attention.masked(changed):
            assert (run(encoder) - out)[REAL].abs().max() > 1e-3


@EVERY
@pytest.mark.parametrize("heads", [1, 2])
def test_padding_changes_nothing(name: str, heads: int) -> None:
    encoder, attention = biased(name)
    torch.manual_seed(2)
    adversary = AttentionAdversary(16, 2, heads=heads, std=0.5, initial_keep=0.6)
    seeds = sample_seeds(torch.arange(3), seed=1, epoch=0)

    def masked(ids: Tensor, real: Tensor, seeds: Tensor) -> tuple[Tensor, list[Tensor]]:
        masks = adversary.masks(real, seeds)
        with attention.masked(masks):
            return run(encoder, ids, real), masks.kept

    out, shares_before = masked(IDS, REAL, seeds)
    longer = torch.cat([IDS, torch.full((3, 4), 9)], dim=1)
    wide, shares = masked(longer, torch.cat([REAL, torch.zeros(3, 4).bool()], dim=1), seeds)
    torch.testing.assert_close(wide[:, :N][REAL], out[REAL], rtol=1e-3, atol=1e-4)
    assert 0.1 < 1 - shares_before[0].mean().item() < 0.8
    for i, n in enumerate(LENGTHS):
        alone, own = masked(IDS[i : i + 1, :n], REAL[i : i + 1, :n], seeds[i : i + 1])
        torch.testing.assert_close(alone[0], out[i, :n], rtol=1e-3, atol=1e-4)
        for layer in range(2):
            assert torch.equal(own[layer][0], shares_before[layer][i])
            assert torch.equal(shares[layer], shares_before[layer])
    parameters = list(adversary.parameters())
    gradients = torch.autograd.grad(loss(wide[:, :N][REAL]), parameters)
    expected = torch.autograd.grad(loss(out[REAL]), parameters)
    for a, b in zip(gradients, expected, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-2, atol=1e-3 * float(b.abs().max()))
        assert (b != 0).any()


# Looked at


@pytest.mark.parametrize("name", [*EVERY_KIND, *MORE])
def test_maps_are_those_of_the_library(name: str) -> None:
    plain, (encoder, attention) = encoder_of(name), biased(name)
    if not name.startswith(("deberta", "mpnet")):
        plain.set_attn_implementation("eager")
    clean = run(encoder)
    with attention.watched() as maps:
        # Looking changes nothing.
        assert torch.equal(run(encoder), clean)
    with torch.no_grad():
        expected = plain(input_ids=IDS, attention_mask=REAL.long(), output_attentions=True)
    assert len(maps) == len(expected.attentions) == 2
    for layer, (actual, target) in enumerate(zip(maps, expected.attentions, strict=True)):
        assert not actual.requires_grad
        rows = REAL[:, None, :].expand(3, 2, N)
        torch.testing.assert_close(actual[rows], target[rows], rtol=1e-4, atol=1e-6)
        torch.testing.assert_close(actual.sum(dim=-1), torch.ones(3, 2, N))
        near = torch.arange(N) <= (2 if (name, layer) == ("modernbert", 1) else N)
        assert torch.equal(actual[rows].view(-1, N)[:, 0] > 0, near.repeat(6).view(3, 2, N)[rows])


@EVERY
@pytest.mark.parametrize("first", ["masked", "watched"])
def test_masked_maps_in_either_order(name: str, first: str) -> None:
    encoder, attention = biased(name)
    masks = given(2)
    if first == "masked":
        with attention.masked(masks):
            with attention.watched() as maps:
                run(encoder)
            inside = run(encoder)
    else:
        with attention.watched() as maps:
            with attention.masked(masks):
                inside = run(encoder)
            with torch.no_grad():
                assert not torch.allclose(run(encoder), inside, atol=0.01)
        assert len(maps) == 4
    assert len(maps) >= 2
    for layer in range(2):
        keep = masks.given[layer]
        torch.testing.assert_close(maps[layer].sum(dim=-1), torch.ones(3, 2, N))
        rows = REAL[:, None, :].expand(3, 2, N)
        assert (maps[layer][rows][keep[rows] == 0] == 0).all()
        # What the rules are told are the weights before they mask anything.
        product = masks.seen[layer] * keep
        expected = product / product.sum(dim=-1, keepdim=True)
        torch.testing.assert_close(maps[layer][rows], expected[rows], rtol=1e-3, atol=1e-5)


# Copies, checkpoints, precision


@EVERY
def test_a_copy_works_and_shares_nothing(name: str) -> None:
    encoder, attention = biased(name)
    encoder.train()
    with attention.tape.recording():
        recorded = run(encoder)
    other = copy.deepcopy(encoder)
    assert torch.equal(run(other), run(encoder))
    entries = {getattr(m, ENTRY) for m in other.modules() if hasattr(m, ENTRY)}
    tapes = {m.tape for m in other.modules() if isinstance(m, SharedDropout)}
    (own,) = entries
    assert own is not attention
    assert tapes == ({own.tape} if tapes else set())  # EuroBERT drops attention alone
    assert own.tape is not attention.tape
    masks = given()
    other.eval()
    encoder.eval()
    clean = run(encoder)
    with own.masked(masks):
        assert torch.equal(run(encoder), clean)
        inside = run(other)
    with attention.masked(given()):
        assert torch.equal(run(encoder), inside)
        assert torch.equal(run(other), clean)
    with own.tape.recording():
        run(other.train(), seed=9)
    with attention.tape.replaying():
        assert torch.equal(run(encoder.train()), recorded)
    del encoder, attention
    assert masks.asked == [0, 1]


@EVERY
def test_nothing_of_it_is_saved(name: str, tmp_path: Path) -> None:
    plain, (encoder, attention) = encoder_of(name), biased(name)
    assert architecture_of(encoder) == architecture_of(plain)
    assert "steadfast" not in str(encoder.config.to_dict())
    check_settings(architecture_of(encoder))
    for folder, model in (("ours", encoder), ("theirs", plain)):
        (tmp_path / folder).mkdir()
        save_model(model, tmp_path / folder)
    for file in (tmp_path / "theirs").iterdir():
        assert (tmp_path / "ours" / file.name).read_bytes() == file.read_bytes()
    loaded = load_encoder(str(tmp_path / "ours")).train(False)
    assert torch.equal(run(loaded), run(encoder))
    with attention.masked(given()):
        expected = run(encoder)
    with BiasedAttention(loaded).masked(given()):
        assert torch.equal(run(loaded), expected)


@EVERY
@pytest.mark.parametrize("dtype", ["autocast", "bfloat16"])
def test_bfloat16(name: str, dtype: str) -> None:
    encoder, attention = biased(name, rate=0.1)
    encoder.train()
    torch.manual_seed(2)
    adversary = AttentionAdversary(16, 2, std=0.5, initial_keep=0.6)
    if dtype == "bfloat16":
        encoder.to(torch.bfloat16)
        adversary.to(torch.bfloat16)
    seeds = sample_seeds(torch.arange(3), seed=1, epoch=0)
    if dtype == "autocast" and name.startswith("deberta") and name != "deberta-v2":
        # As the library has it: it fills bfloat16 with the lowest number of float32.
        with torch.autocast("cpu", torch.bfloat16), pytest.raises(RuntimeError, match="overflow"):
            run(encoder_of(name))
        return
    with torch.autocast("cpu", torch.bfloat16, enabled=dtype == "autocast"):
        with attention.tape.recording():
            clean = run(encoder)
        with attention.tape.replaying(), attention.masked(all_kept()):
            assert torch.equal(run(encoder, seed=8), clean)
        masks = adversary.masks(REAL, seeds)
        with attention.tape.replaying(), attention.masked(masks), attention.watched() as maps:
            out = run(encoder)
    torch.autograd.backward(loss(out[REAL]) - loss(clean[REAL]))
    for parameter in (*adversary.parameters(), encoder.get_input_embeddings().weight):
        assert parameter.grad is not None
        assert torch.isfinite(parameter.grad).all()
        assert (parameter.grad != 0).any()
    for weights in maps:
        torch.testing.assert_close(
            weights.float().sum(dim=-1), torch.ones(3, 2, N), atol=0.03, rtol=0
        )


# Those that cannot


OTHERS: dict[str, dict[str, Any]] = {
    "xlnet": {"model_type": "xlnet", "d_model": 16, "n_layer": 2, "n_head": 2, "d_inner": 24},
    "convbert": {**EVERY_KIND["bert"], "model_type": "convbert", "embedding_size": 16},
    "gpt2": {"model_type": "gpt2", "n_embd": 16, "n_layer": 2, "n_head": 2, "n_positions": 40},
    "decoder": {**EVERY_KIND["bert"], "is_decoder": True},
}


@pytest.mark.parametrize("name", OTHERS)
def test_encoders_whose_attention_cannot_be_biased(name: str) -> None:
    encoder = untried({**OTHERS[name], "vocab_size": 60})
    kind = OTHERS[name]["model_type"]
    with pytest.raises(ValueError, match=f"kind '{kind}', whose attention cannot") as error:
        BiasedAttention(encoder)
    assert all(kind in str(error.value) for kind in BIASABLE)
    # And nothing was done to it.
    assert not any(isinstance(module, SharedDropout) for module in encoder.modules())


def test_t5_cannot_either() -> None:
    from transformers import T5Config, T5EncoderModel

    encoder = T5EncoderModel(
        T5Config(vocab_size=60, d_model=16, d_ff=24, num_layers=2, num_heads=2, d_kv=8)
    )
    with pytest.raises(ValueError, match="kind 't5', whose attention cannot be biased"):
        BiasedAttention(encoder)


def test_several_layers_in_one_are_refused() -> None:
    """There are more attentions than layers: an adversary would have no mask for the last ones."""
    encoder = encoder_of("albert", inner_group_num=2)
    with pytest.raises(ValueError, match=r"albert of inner_group_num=2, .* inner_group_num=1"):
        BiasedAttention(encoder)
    assert not any(isinstance(module, SharedDropout) for module in encoder.modules())


def test_twice_is_once_too_often() -> None:
    encoder, attention = biased("bert")
    with pytest.raises(ValueError, match="a bert whose attention is biased already"):
        BiasedAttention(encoder)
    with attention.masked(given()):
        run(encoder)


def test_layers_that_are_computed_again_would_be_other_layers() -> None:
    encoder, attention = biased("bert")
    old = encoder.gradient_checkpointing_enable  # its name before that
    getattr(encoder, "activation_checkpointing_enable", old)()
    encoder.train()
    for context in (
        attention.masked(given()),
        attention.watched(),
        attention.tape.recording(),
        attention.tape.replaying(),
    ):
        with pytest.raises(ValueError, match="with gradient checkpointing"), context:
            run(encoder)
    torch.autograd.backward(run(encoder).sum())
    with attention.masked(given()):
        run(encoder.eval())


@pytest.mark.parametrize("name", EVERY_KIND)
def test_what_comes_before_the_first_mask_is_computed_once(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """But for ALBERT, whose one layer is there at every depth, and DeBERTa v1."""
    encoder = build_encoder({**EVERY_KIND[name], "vocab_size": 50})
    before = list(encoder.state_dict())
    attention = BiasedAttention(encoder)
    assert list(encoder.state_dict()) == before
    shared = [part for part in encoder.modules() if isinstance(part, SharedLinear)]
    assert bool(shared) == (encoder.config.model_type not in ("albert", "deberta"))
    calls = []
    plain = torch.nn.Linear.forward

    def counted(self: torch.nn.Linear, x: torch.Tensor) -> torch.Tensor:
        calls.extend([self] if self in shared else [])
        return plain(self, x)

    monkeypatch.setattr(torch.nn.Linear, "forward", counted)
    ids = torch.randint(5, 50, (2, 7))
    with torch.no_grad(), attention.tape.recording():
        first = encoder(input_ids=ids).last_hidden_state
    once = len(calls)
    with torch.no_grad(), attention.tape.replaying():
        second = encoder(input_ids=ids).last_hidden_state
    assert len(calls) == once >= len(shared)
    assert torch.equal(first, second)
