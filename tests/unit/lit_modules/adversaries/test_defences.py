"""R-Drop, FreeLB++, TAVAT, RanMASK and temperatures, against formulas of their own."""

import copy
import math
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

import lit_modules
from app.hub_folder import _alone
from attacks import PGD
from certify.threats import Synonyms
from layers.noise import sample_seeds, uniform
from lit_modules import AdversarialTraining, LipsLev, TaskModule
from lit_modules.adversaries import (
    MRAT,
    TAVAT,
    FreeLB,
    FreeLBPlus,
    InnerProblem,
    RanMASK,
    RDrop,
    TemperatureScaling,
    tavat,
)
from lit_modules.adversaries.ranmask import mask_token
from lit_modules.adversaries.tavat import _remember, scaled_rows
from lit_modules.adversaries.temperature import best_temperature, output_weights
from tests.unit.lit_modules.adversaries.test_space import assert_same, gradients, problem_of
from tests.unit.lit_modules.builders import (
    METHODS,
    SINGLE,
    attached,
    batch_of,
    loader,
    plain,
    trainer,
)
from tests.unit.lit_modules.test_adversarial import wrapped
from text import PretrainedTokenizer

# R-Drop


def two_passes(module: TaskModule, seed: int) -> tuple[InnerProblem, Tensor, Tensor]:
    """A problem, and the logits of two successive passes from a random state."""
    problem = problem_of(module)
    torch.manual_seed(seed)
    first, second = (module.classify(module.embed(problem.batch), problem.mask) for _ in range(2))
    torch.manual_seed(seed)
    return problem, first, second


def test_rdrop_by_its_equations() -> None:
    """Half of equation 3, and its gradient; the two passes have other dropout."""
    module = attached(plain(dropout=0.4)).train()
    problem, first, second = two_passes(module, 4)
    assert not torch.equal(first, second)
    p, q = first.softmax(dim=1), second.softmax(dim=1)
    likelihood = -(p.log() + q.log()).gather(1, problem.labels.unsqueeze(1)).mean()
    kl = (p * (p / q).log()).sum(dim=1).mean() + (q * (q / p).log()).sum(dim=1).mean()
    expected = (likelihood + 0.7 * kl / 2) / 2
    result = RDrop(alpha=0.7).step(problem)
    assert result.loss.item() == pytest.approx(expected.item(), rel=1e-5)
    assert_same(gradients(module, result.loss), gradients(module, expected))


def test_rdrop_as_released_has_a_weight_that_grows_with_the_batch() -> None:
    """The released code for GLUE sums over the batch: 0.5 is 0.5 B, and the whole is twice ours."""
    module = attached(plain(dropout=0.4)).train()
    problem, first, second = two_passes(module, 4)
    p, q = first.log_softmax(dim=1), second.log_softmax(dim=1)
    released = functional.cross_entropy(first, problem.labels)
    released = released + functional.cross_entropy(second, problem.labels)
    for one, other in ((p, q), (q, p)):
        total = functional.kl_div(one, other, log_target=True, reduction="none").sum()
        released = released + 0.5 * total / 2
    ours = RDrop(alpha=0.5 * len(problem.batch)).step(problem).loss
    assert 2 * ours.item() == pytest.approx(released.item(), rel=1e-5)


def test_rdrop_needs_dropout() -> None:
    loop: Any = SimpleNamespace(classifier=attached(plain(dropout=0.0)))
    with pytest.raises(ValueError, match=r"without dropout.*expected dropout above 0"):
        RDrop().start(loop)
    for rate in ({"dropout": 0.1}, {"encoder": "lstm", "hidden": 6, "depth": 2, "dropout": 0.1}):
        loop.classifier = attached(plain(**rate))
        RDrop().start(loop)


# FreeLB++


def test_freelb_plus_is_freelb_without_a_ball() -> None:
    module = attached(METHODS["transformer"])
    sizes: dict[str, Any] = {"steps": 6, "step_size": 0.4, "initial_size": 0.1}
    free, ball = FreeLBPlus(**sizes), FreeLB(**sizes, epsilon=0.2)
    got = gradients(module, free.step(problem_of(module)).loss)
    assert_same(got, gradients(module, FreeLB(**sizes).step(problem_of(module)).loss))
    limited = gradients(module, ball.step(problem_of(module)).loss)
    assert any(not torch.allclose(got[name], limited[name]) for name in got)
    assert free.settings() == {**sizes, "norm": "l2"}


# TAVAT


def by_hand(
    module: TaskModule, problem: InnerProblem, table: Tensor, *, steps: int, size: float
) -> tuple[dict[str, Tensor], Tensor]:
    """Algorithm 1, text by text and word by word: gradients, and the table afterwards."""
    batch, labels = problem.batch, problem.labels
    x = module.embed(batch).detach()
    etas, deltas = [], []
    noise = uniform(problem.seeds, x)
    for row in range(len(batch)):
        n = int(batch.mask[row].sum())
        eta = torch.zeros_like(x[row])
        eta[:n] = table[batch.input_ids[row, :n]]
        delta = torch.zeros_like(x[row])
        delta[:n] = noise[row, :n] * 0.2 / math.sqrt(n * x.shape[2])
        etas.append(eta)
        deltas.append(delta)
    shrink(etas, deltas)
    module.zero_grad(set_to_none=True)
    for number in range(steps):
        total = torch.stack([e + d for e, d in zip(etas, deltas, strict=True)]).requires_grad_()
        logits = module.classify(module.embed(batch) + total, batch.mask)
        (functional.cross_entropy(logits, labels) / steps).backward()  # type: ignore[no-untyped-call] # of torch
        assert total.grad is not None
        if number == steps - 1:
            break
        for row in range(len(batch)):
            n = int(batch.mask[row].sum())
            g = total.grad[row, :n]
            deltas[row][:n] += size * g / g.norm()
            moved = torch.stack(
                [e + size * w / w.norm() for e, w in zip(etas[row][:n], g, strict=True)]
            )
            largest = max(w.norm() for w in moved)
            etas[row][:n] = torch.stack([w * w.norm() / largest for w in moved])
        shrink(etas, deltas)
    after = table.clone()
    for word in batch.input_ids[batch.mask].unique():  # type: ignore[no-untyped-call] # of torch
        rows = [
            etas[row][place]
            for row, place in (batch.mask & (batch.input_ids == word)).nonzero().tolist()
        ]
        after[word] = torch.stack(rows).mean(dim=0)
    found = {name: p.grad for name, p in module.named_parameters() if p.grad is not None}
    return found, after


def shrink(etas: list[Tensor], deltas: list[Tensor]) -> None:
    """Put the sum of both parts into a ball of radius 0.3."""
    for row, (eta, delta) in enumerate(zip(etas, deltas, strict=True)):
        factor = min(1.0, 0.3 / (eta + delta).norm().item())
        etas[row], deltas[row] = eta * factor, delta * factor


def test_tavat_by_its_algorithm() -> None:
    """Two batches: the second begins where the first has left its words."""
    module = attached(METHODS["transformer"])
    adversary = TAVAT(steps=3, step_size=0.3, initial_size=0.2, epsilon=0.3)
    problem = problem_of(module, logs=False, seed=5)
    width = module.embed(problem.batch).shape[2]
    size = module.require_tokenizer().vocab_size
    generator = torch.Generator().manual_seed(5)
    table = (2 * torch.rand(size, width, generator=generator) - 1) * 0.2 / math.sqrt(width)
    for _ in range(2):
        got = gradients(module, adversary.step(problem).loss)
        expected, table = by_hand(module, problem, table, steps=3, size=0.3)
        assert_same(got, expected)
        torch.testing.assert_close(problem.memory["words"].data, table, rtol=1e-4, atol=1e-6)


def test_tavat_stores_the_mean_over_all_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of two processes: as if one of them had both halves of the batch."""
    ids, words = torch.tensor([3, 1, 3, 2]), torch.randn(4, 5)
    whole = torch.zeros(6, 5)
    _remember(whole, ids, words)
    torch.testing.assert_close(whole[3], (words[0] + words[2]) / 2)
    assert not whole[[0, 4, 5]].any()
    # What the other process adds: sums, then counts.
    other = [torch.zeros(6, 5).index_add_(0, ids[2:], words[2:]), torch.tensor([0, 0, 1, 1, 0, 0])]
    monkeypatch.setattr(tavat, "rank_and_world", lambda: (0, 2))
    monkeypatch.setattr(torch.distributed, "all_reduce", lambda tensor: tensor.add_(other.pop(0)))
    half = torch.zeros(6, 5)
    _remember(half, ids[:2], words[:2])
    torch.testing.assert_close(half, whole)


def test_tavat_stores_no_row_that_is_not_finite() -> None:
    table = torch.zeros(3, 2)
    _remember(table, torch.tensor([0, 1]), torch.tensor([[torch.nan, 1.0], [2.0, 1.0]]))
    assert table.tolist() == [[0, 0], [2, 1], [0, 0]]


def test_tavat_scales_words_by_the_largest_one() -> None:
    words = torch.tensor([[[3.0, 4.0], [0.0, 1.0], [0.0, 0.0]]])
    expected = torch.tensor([[[3.0, 4.0], [0.0, 0.2], [0.0, 0.0]]])
    torch.testing.assert_close(scaled_rows(words), expected)
    assert not scaled_rows(torch.zeros(1, 2, 3)).any()


@pytest.mark.long
def test_tavat_resumes_with_its_words(tmp_path: Path) -> None:
    """A run that ends after an epoch and resumes is the uninterrupted one, bit for bit."""
    start = attached(plain(dropout=0.0, warmup=0.0, decay="none"))

    def fit(epochs: int, checkpoint: Path | None = None) -> AdversarialTraining:
        module = wrapped(start, TAVAT(steps=2, step_size=0.3))
        if checkpoint is not None:
            module = wrapped(start, TAVAT(steps=2, step_size=0.3))
            module = AdversarialTraining.from_settings(
                {name: module.hparams[name] for name in ("classifier", "adversary")}
            )
            module.restore_text(lit_modules.read_checkpoint(checkpoint))
            module.configure_model()
        run = trainer(max_epochs=epochs)
        run.fit(
            module,
            loader(module, SINGLE, 3),
            loader(module, SINGLE, 7),
            ckpt_path=checkpoint,
            weights_only=True,
        )
        run.save_checkpoint(tmp_path / f"{epochs}.ckpt")
        return module

    whole = fit(2)
    fit(1)
    resumed = fit(2, tmp_path / "1.ckpt")
    assert whole.state_dict().keys() == resumed.state_dict().keys()
    assert "memory.words" in whole.state_dict()
    for name, tensor in whole.state_dict().items():
        assert torch.equal(tensor, resumed.state_dict()[name]), name
    loaded = lit_modules.load(tmp_path / "2.ckpt")
    torch.testing.assert_close(loaded.predict_texts(SINGLE), whole.eval().predict_texts(SINGLE))


# RanMASK


def test_ranmask_keeps_a_number_of_tokens_and_marks_the_others() -> None:
    module = attached(METHODS["transformer"])
    batch = batch_of(module, SINGLE)
    mask, _ = mask_token(module.require_tokenizer())
    seeds = sample_seeds(batch.sample_ids, seed=0, epoch=0)
    drawn = RanMASK(rate=0.7).masked(module, batch, seeds)
    changed = drawn.input_ids != batch.input_ids
    assert (drawn.input_ids[changed] == mask).all()
    assert not changed[~batch.mask].any()
    kept = (batch.mask & ~changed).sum(dim=1).tolist()
    assert kept == [max(1, round(0.3 * length)) for length in batch.lengths.tolist()]


def test_ranmask_masks_each_position_alike() -> None:
    module = attached(METHODS["transformer"])
    batch = batch_of(module, ["good bad fine long film"] * 4000)
    drawn = RanMASK(rate=0.6).masked(module, batch, torch.arange(4000) * 7919)
    shares = (drawn.input_ids != batch.input_ids).float().mean(dim=0)
    # Five standard deviations of a share of 0.6.
    torch.testing.assert_close(shares, torch.full((5,), 0.6), atol=5 * 0.0078, rtol=0)


def test_ranmask_votes_by_hand(monkeypatch: pytest.MonkeyPatch) -> None:
    """The logarithm of the share of each class, among the votes and one more for each."""
    module = attached(METHODS["transformer"])
    defence = RanMASK(rate=0.5, votes=7)
    batch = batch_of(module, SINGLE)
    passes: list[Tensor] = []
    predict = module.predict_logits

    def watched(masked: Any) -> Tensor:
        passes.append(predict(masked))
        return passes[-1]

    monkeypatch.setattr(module, "predict_logits", watched)
    logits = defence.predict(module, batch)
    assert len(passes) == 7
    for row in range(len(SINGLE)):
        classes = [int(logits_of[row].argmax()) for logits_of in passes]
        shares = [math.log((classes.count(c) + 1) / 10) for c in range(3)]
        torch.testing.assert_close(logits[row], torch.tensor(shares))


def test_ranmask_predicts_a_text_alone_as_in_a_batch() -> None:
    module = wrapped(attached(METHODS["transformer"]), RanMASK(rate=0.5, votes=9)).eval()
    together = module.predict_texts(SINGLE)
    assert torch.equal(together, module(batch_of(module, SINGLE)))
    for row, text in enumerate(SINGLE):
        torch.testing.assert_close(module.predict_texts([text])[0], together[row])
    assert not torch.equal(together, module.plain.predict_texts(SINGLE))


def test_ranmask_has_no_certificate_of_its_own_and_no_threshold() -> None:
    module = wrapped(attached(METHODS["olsa"]), RanMASK(votes=3))
    assert "votes" in (module.no_certificate or "")
    with pytest.raises(ValueError, match="predictions are votes"):
        module.text_certifier(Synonyms(lists={}, texts={}))
    # A list, or an encoding, would certify the classifier without its votes.
    for certify in (
        lambda: module.listed_certifier(Synonyms(lists={}, texts={}), 9),
        module.exact_answer,
    ):
        with pytest.raises(ValueError, match=r"--model\.adversary\.votes 0"):
            certify()
    assert module.exact_copy().predict_texts(["good"]).shape == (1, 3)
    assert module.output_layer is None
    # The classifier alone predicts otherwise: it is not exported in its place.
    assert _alone(module) is None
    assert _alone(wrapped(attached(METHODS["olsa"]), RanMASK(votes=0))) is not None
    module.test_attack = PGD(epsilon=1.0)
    with pytest.raises(ValueError, match=r"expected --pgd\.epsilon 0"):
        module.setup("test")


def test_ranmask_never_masks_special_tokens() -> None:
    import tokenizers
    from tokenizers.models import WordLevel
    from tokenizers.processors import BertProcessing

    names = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "good", "bad"]
    backend = tokenizers.Tokenizer(WordLevel({n: i for i, n in enumerate(names)}, "[UNK]"))
    backend.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    backend.add_special_tokens(names[:5])
    backend.post_processor = BertProcessing(("[SEP]", 3), ("[CLS]", 2))
    tokenizer = PretrainedTokenizer(backend.to_str(), 16, pad_id=0, unk_id=1)
    assert mask_token(tokenizer) == (4, [0, 2, 3, 4])
    backend = tokenizers.Tokenizer(WordLevel({n: i for i, n in enumerate(names)}, "[UNK]"))
    bare = PretrainedTokenizer(backend.to_str(), 16, pad_id=0, unk_id=1)
    loop: Any = SimpleNamespace(classifier=SimpleNamespace(require_tokenizer=lambda: bare))
    with pytest.raises(ValueError, match=r"without \[MASK\]"):
        RanMASK().start(loop)


# Temperature


def test_training_at_a_temperature_by_hand() -> None:
    module = attached(METHODS["transformer"])
    problem = problem_of(module)
    result = TemperatureScaling(temperature=4.0, entropy=0.3).step(problem)
    p = (module(problem.batch) / 4).softmax(dim=1)
    right = p.gather(1, problem.labels.unsqueeze(1)).log().mean()
    expected = -right + 0.3 * (p * p.log()).sum(dim=1).mean()
    assert result.loss.item() == pytest.approx(expected.item(), rel=1e-5)
    assert_same(gradients(module, result.loss), gradients(module, expected))


@pytest.mark.parametrize(("margin", "right"), [(4.0, 9), (0.3, 8), (1.0, 6)])
def test_best_temperature_in_closed_form(margin: float, right: int) -> None:
    """Two classes, one margin, a share p of right answers: T = margin / log(p / (1 - p))."""
    logits = torch.tensor([[0.0, margin]]).repeat(10, 1)
    labels = (torch.arange(10) < right).long()
    share = right / 10
    expected = margin / math.log(share / (1 - share))
    assert best_temperature(logits, labels) == pytest.approx(expected, rel=1e-6)
    # A calibrated classifier is left as it is.
    assert best_temperature(logits / expected, labels) == pytest.approx(1, rel=1e-6)


def test_best_temperature_beats_a_grid() -> None:
    torch.manual_seed(0)
    logits, labels = 6 * torch.randn(200, 4), torch.arange(200) % 4
    logits[torch.arange(200), labels] += 4
    best = best_temperature(logits, labels)

    def loss(temperature: float) -> float:
        return functional.cross_entropy(logits.double() / temperature, labels).item()

    assert all(loss(best) <= loss(best * factor) + 1e-12 for factor in (0.5, 0.9, 0.99, 1.01, 2))
    # All right: the loss falls without end, to the limit.
    assert best_temperature(functional.one_hot(labels, 4).double(), labels) == pytest.approx(0.01)


def test_dividing_the_output_layer_divides_the_logits() -> None:
    names = ("transformer", "lstm")
    modules = [attached(METHODS[name]) for name in names]
    modules.append(attached(plain(single_logit=True), classes=2))
    for module in modules:
        before = module.predict_texts(SINGLE)
        with torch.no_grad():
            for weight in output_weights(module):
                weight.div_(3)
        torch.testing.assert_close(module.predict_texts(SINGLE), before / 3)
    for name in ("olsa", "mean"):
        loop: Any = SimpleNamespace(classifier=attached(METHODS[name]))
        with pytest.raises(ValueError, match=r"calibrate=true .*expected a method without"):
            TemperatureScaling().start(loop)
        TemperatureScaling(calibrate=False).start(loop)


def test_a_head_whose_weights_are_normalised_is_neither_divided_nor_read() -> None:
    """That of LipsLev: its weights are divided by their size, and its module is never called."""
    module = attached(lambda: LipsLev(width=8))
    before = module.predict_texts(SINGLE)
    assert isinstance(module.output_layer, nn.Linear)
    with torch.no_grad():
        module.output_layer.weight.div_(3)
    torch.testing.assert_close(module.predict_texts(SINGLE), before)
    loop: Any = SimpleNamespace(classifier=module)
    with pytest.raises(ValueError, match=r"got calibrate=true for LipsLev, expected"):
        TemperatureScaling().start(loop)
    with pytest.raises(ValueError, match="got LipsLev, which has no linear head"):
        MRAT().start(loop)


def test_a_calibration_needs_validation() -> None:
    module = wrapped(attached(METHODS["transformer"]), TemperatureScaling())
    with pytest.raises(ValueError, match="without validation"):
        trainer(limit_val_batches=0).fit(
            module, loader(module, SINGLE, 3), loader(module, SINGLE, 7)
        )


@pytest.mark.parametrize(
    "adversary",
    [TAVAT(), RDrop(), RanMASK(votes=2), FreeLBPlus(steps=2), TemperatureScaling(calibrate=False)],
    ids=lambda adversary: type(adversary).__name__,
)
def test_half_precision_and_accumulation(adversary: Any, tmp_path: Path) -> None:
    module = wrapped(attached(plain(dropout=0.2)), adversary)
    before = copy.deepcopy(module.classifier.state_dict())
    run = trainer(precision="bf16-mixed", accumulate_grad_batches=2, log_every_n_steps=1)
    run.fit(module, loader(module, SINGLE, 2), loader(module, SINGLE, 7))
    assert any(not torch.equal(w, before[n]) for n, w in module.classifier.state_dict().items())
    assert run.callback_metrics["train/loss"].isfinite()
    run.save_checkpoint(tmp_path / "a.ckpt")
    loaded = lit_modules.load(tmp_path / "a.ckpt")
    assert isinstance(loaded, AdversarialTraining)
    assert loaded.adversary.settings() == adversary.settings()
    assert isinstance(loaded.plain.network, nn.Module)
