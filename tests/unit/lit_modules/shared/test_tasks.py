"""Losses, divergences and figures of the four tasks, against brute force."""

import math
import warnings

import pytest
import torch
from sklearn.metrics import f1_score
from torch import Tensor
from torch.nn import functional

from layers.divergence import divergence, symmetric_divergence
from lit_modules.shared.scores import EntityF1, SplitScores
from lit_modules.shared.tasks import TASKS, Task
from text import IGNORED, TaskName
from text.entities import entities

LOGITS: dict[TaskName, tuple[int, ...]] = {
    "classification": (5, 3),
    "choice": (5, 4),
    "regression": (5, 1),
    "tagging": (5, 6, 3),
}


def problem(task: TaskName, *, seed: int = 0) -> tuple[Tensor, Tensor, Tensor]:
    """Two predictions and labels."""
    torch.manual_seed(seed)
    shape = LOGITS[task]
    first, second = torch.randn(shape), torch.randn(shape)
    if task == "regression":
        return first, second, 5 * torch.rand(5)
    if task == "tagging":
        labels = torch.randint(3, (5, 6))
        labels[:, 0] = IGNORED
        labels[2, 3:] = IGNORED
        labels[4] = IGNORED  # all of its words were cut off
        return first, second, labels
    return first, second, torch.randint(shape[1], (5,))


def mean_loss(task: Task, logits: Tensor, labels: Tensor) -> Tensor:
    return task.mean(task.losses(logits, labels), labels)


@pytest.mark.parametrize("task", LOGITS)
def test_a_mean_is_one_over_units_and_the_same_for_any_batches(task: TaskName) -> None:
    one = TASKS[task]
    first, second, labels = problem(task)
    units = one.units(labels)
    for whole, parts in (
        (mean_loss(one, first, labels), one.losses(first, labels)),
        (one.divergence(first, second, labels), one.divergences(first, second, labels)),
    ):
        assert whole == pytest.approx(float(parts.sum() / units.sum()), rel=1e-5)
        halves = [parts[:2].sum(), parts[2:].sum()]
        assert float(sum(halves) / units.sum()) == pytest.approx(float(whole), rel=1e-5)
    expected = 5.0 if task != "tagging" else float((labels != IGNORED).sum())
    assert float(units.sum()) == expected


def test_losses_and_divergences_by_hand() -> None:
    first, second, labels = problem("classification")
    task = TASKS["classification"]
    assert torch.allclose(mean_loss(task, first, labels), functional.cross_entropy(first, labels))
    p, q = first.softmax(dim=1), second.softmax(dim=1)
    kl = (p * (p / q).log()).sum(dim=1)
    assert torch.allclose(task.divergences(first, second, labels), kl, atol=1e-6)
    both = kl + (q * (q / p).log()).sum(dim=1)
    found = task.divergence(first, second, labels, symmetric=True)
    assert torch.allclose(found, both.mean(), atol=1e-6)

    first, second, numbers = problem("regression")
    task = TASKS["regression"]
    assert torch.allclose(mean_loss(task, first, numbers), (first[:, 0] - numbers).square().mean())
    expected = (first - second).square().mean()
    assert torch.allclose(task.divergence(first, second, numbers), expected)
    assert torch.allclose(task.divergence(first, second, numbers, symmetric=True), expected)

    first, second, tags = problem("tagging")
    task = TASKS["tagging"]
    flat = functional.cross_entropy(first.view(-1, 3), tags.view(-1), ignore_index=IGNORED)
    assert torch.allclose(mean_loss(task, first, tags), flat)
    kls = [
        divergence(first[i, j], second[i, j])
        for i in range(5)
        for j in range(6)
        if tags[i, j] != IGNORED
    ]
    assert torch.allclose(task.divergence(first, second, tags), torch.stack(kls).mean(), atol=1e-6)
    assert task.right(first, tags) is not None
    right = task.right(torch.nn.functional.one_hot(tags.clamp_min(0), 3).float(), tags)
    assert right is not None
    assert right.all()


def test_a_batch_without_a_single_word_to_tag() -> None:
    task = TASKS["tagging"]
    labels = torch.full((2, 3), IGNORED)
    logits = torch.randn(2, 3, 4, requires_grad=True)
    loss = mean_loss(task, logits, labels)
    assert loss.item() == 0
    loss.backward()  # type: ignore[no-untyped-call] # torch has no annotation for it
    assert logits.grad is not None
    assert not logits.grad.any()


def test_the_gradients_of_divergences() -> None:
    torch.manual_seed(0)
    first = torch.randn(4, 3, dtype=torch.float64, requires_grad=True)
    second = torch.randn(4, 3, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(divergence, (first, second))
    assert torch.autograd.gradcheck(symmetric_divergence, (first, second))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_equal_predictions_have_no_gradient_at_all(dtype: torch.dtype) -> None:
    torch.manual_seed(1)
    first = (8 * torch.randn(50, 7)).to(dtype).requires_grad_()
    second = first.detach().clone().requires_grad_()
    value = symmetric_divergence(first, second)
    assert value.dtype == torch.float32
    assert not value.any()
    value.sum().backward()  # type: ignore[no-untyped-call] # torch has no annotation for it
    assert first.grad is not None
    assert second.grad is not None
    assert not first.grad.any()
    assert not second.grad.any()


@pytest.mark.parametrize(
    ("tags", "expected"),
    [
        ("O O", set()),
        ("B-x I-x O B-y", {("x", 0, 2), ("y", 3, 4)}),
        ("B-x B-x", {("x", 0, 1), ("x", 1, 2)}),
        ("I-x I-x", {("x", 0, 2)}),
        ("B-x I-y I-y", {("x", 0, 1), ("y", 1, 3)}),
        ("O I-x B-x I-x", {("x", 1, 2), ("x", 2, 4)}),
        ("B-creative-work I-creative-work", {("creative-work", 0, 2)}),
        ("", set()),
    ],
)
def test_entities(tags: str, expected: set[tuple[str, int, int]]) -> None:
    assert entities(tags.split()) == expected


def test_entity_f1_by_hand() -> None:
    tags = ["O", "B-x", "I-x", "B-y"]
    score = EntityF1(tags)
    # There: x at 1-3, y at 4; found: x at 1-3, x at 4.
    labels = torch.tensor([[IGNORED, 0, 1, 2, 3, IGNORED]])
    predictions = torch.tensor([[3, 0, 1, 2, 1, 3]])
    score.update(predictions, labels)
    assert score.compute() == pytest.approx(2 * 1 / (2 + 2))
    score.update(torch.tensor([[0, 1]]), torch.tensor([[0, 0]]))
    assert score.compute() == pytest.approx(2 * 1 / (3 + 2))


def test_entity_f1_sees_an_entity_across_a_token_that_carries_no_tag() -> None:
    """Words have several pieces; the tags of the later ones are nothing to it."""
    labels = torch.tensor([[IGNORED, 1, IGNORED, 2, IGNORED]])
    predictions = torch.tensor([[0, 1, 0, 2, 0]])
    score = EntityF1(["O", "B-x", "I-x"])
    score.update(predictions, labels)
    assert score.compute() == 1


def test_what_is_cut_off_counts_as_missed() -> None:
    """Closed form: of 4 entities one is answered; one is cut through, two are cut off."""
    task, names = TASKS["tagging"], ["O", "B-x", "I-x"]
    labels = torch.tensor([[1, 2, 0, 1], [0, 0, IGNORED, IGNORED]])
    cut_tags = torch.tensor([[2, 0, 1], [1, IGNORED, IGNORED]])
    logits = torch.nn.functional.one_hot(labels.clamp_min(0), 3).float()  # all right
    scores = SplitScores("tagging", names)
    values, answered = task.metric_inputs(logits, labels, cut_tags)
    scores.update(*answered)
    # Found: x at 1-2 and x at 4, which goes on to 5. There: these two, and the two cut off.
    assert scores.take()["f1"] == pytest.approx(2 * 1 / (2 + 4))
    assert values["accuracy"].mean() == pytest.approx(6 / 10)
    assert len(values["loss"]) == 6  # it is not known of words without logits
    values, answered = task.metric_inputs(logits, labels)
    scores.update(*answered)
    assert scores.take()["f1"] == 1
    assert values["accuracy"].mean() == 1


@pytest.mark.parametrize("constant", [0, 1])
def test_a_correlation_with_what_is_all_the_same_is_said_in_one_sentence(
    constant: int, caplog: pytest.LogCaptureFixture
) -> None:
    scores = SplitScores("regression", ())
    pair = [torch.tensor([1.0, 2.0, 3.0]), torch.tensor([1.0, 2.0, 3.0])]
    pair[constant] = torch.full((3,), 2.0)
    scores.update(*pair)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert math.isnan(scores.take()["pearson"])
    (line,) = caplog.messages
    assert line.startswith("pearson is not a number: got predictions or targets that are")


def test_scores_of_tasks() -> None:
    scores = SplitScores("regression", ())
    scores.update(torch.tensor([1.0, 2.0]), torch.tensor([0.1, 3.0]))
    scores.update(torch.tensor([3.0, 4.0]), torch.tensor([9.0, 81.0]))
    taken = scores.take()
    assert taken["spearman"] == pytest.approx(1.0)
    assert 0.7 < float(taken["pearson"]) < 1
    scores.update(torch.tensor([1.0, 2.0]), torch.tensor([2.0, 1.0]))
    assert scores.take()["spearman"] == pytest.approx(-1.0, abs=1e-4), "a new split begins anew"

    binary = SplitScores("classification", ("no", "yes"))
    binary.update(torch.tensor([1, 1, 0, 0]), torch.tensor([1, 0, 1, 0]))
    assert binary.take() == {"f1": pytest.approx(0.5), "macro_f1": pytest.approx(0.5)}
    assert not SplitScores("choice", ("A", "B")).take()
    assert math.isfinite(float(SplitScores("tagging", ("O", "B-x")).take()["f1"]))


@pytest.mark.parametrize("positive", [None, 0, 1, 2])
@pytest.mark.parametrize("classes", [2, 3, 5])
def test_f1_of_a_class_and_of_all(positive: int | None, classes: int) -> None:
    if positive == classes:
        return
    draw = torch.Generator().manual_seed(classes)
    labels, predictions = torch.randint(0, min(classes, 4), (2, 60), generator=draw)
    scores = SplitScores("classification", [str(i) for i in range(classes)], positive)
    for part in (slice(0, 20), slice(20, 60)):
        scores.update(predictions[part], labels[part])
    expected = {"macro_f1": pytest.approx(f1_score(labels, predictions, average="macro"))}
    if (index := 1 if positive is None and classes == 2 else positive) is not None:
        expected["f1"] = pytest.approx(f1_score(labels == index, predictions == index))
    assert scores.take() == expected


def test_a_model_that_always_gives_one_class_has_no_good_macro_f1() -> None:
    scores = SplitScores("classification", ("fake", "real"), 0)
    scores.update(torch.ones(8, dtype=torch.long), torch.tensor([1] * 6 + [0] * 2))
    assert scores.take() == {"f1": 0.0, "macro_f1": pytest.approx(3 / 7)}


def test_counts_of_a_test_split() -> None:
    """Confidences 0.9, 0.9, 0.6 and 0.8; the third of four predictions is wrong."""
    scores = SplitScores("classification", ("no", "yes"), counts=True)
    odds = torch.tensor([[0.1, 0.9], [0.1, 0.9], [0.4, 0.6], [0.8, 0.2]])
    labels, right = torch.tensor([1, 1, 0, 0]), torch.tensor([1, 1, 1, 0])
    for part in (slice(0, 3), slice(3, 4)):
        scores.update(right[part], labels[part], odds[part].log())
    # Bins of 0.9 and 0.8 are right, 0.6 is wrong: gaps 0.2, 0.2 and 0.6 over four texts.
    expected = {"samples": 4.0, "majority_accuracy": 0.5, "largest_class": 0.75, "absorbed": 0.5}
    expected |= {"ece": 0.25, "brier": (0.02 + 0.02 + 0.72 + 0.08) / 4}
    taken = scores.take()
    assert {name: taken[name] for name in expected} == pytest.approx(expected)
    assert scores.take()["samples"] == 0, "a new split begins anew"


@pytest.mark.parametrize(("predictions", "absorbed"), [([0, 0, 0, 0], 1.0), ([0, 0, 0, 1], 0.0)])
def test_one_class_absorbs_the_others(predictions: list[int], absorbed: float) -> None:
    scores = SplitScores("classification", ("ham", "spam", "rare"), counts=True)
    logits = torch.nn.functional.one_hot(torch.tensor(predictions), 3).float()
    scores.update(logits.argmax(1), torch.tensor([0, 0, 0, 1]), logits)
    assert scores.take()["absorbed"] == absorbed
