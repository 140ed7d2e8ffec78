"""The thread of a model: batches, lanes, clients that leave, errors of one text."""

import threading
from collections.abc import Iterator, Sequence
from typing import Any

import pytest

from app.serve.model_worker import BATCH, BusyError, ModelWorker
from measure.predictions import TextPrediction, TextPredictor
from tests.unit.app.serve.serving import worker
from tests.unit.lit_modules.builders import SINGLE, attached, olsa
from text import Text


class Held(TextPredictor):
    """Waits until it may answer; keeps the batches that it was given."""

    def __init__(self) -> None:
        super().__init__(attached(olsa()).eval())
        self.may, self.begun = threading.Event(), threading.Event()
        self.given: list[list[Text]] = []

    def __call__(self, texts: Sequence[Text]) -> Iterator[TextPrediction]:
        self.begun.set()
        assert self.may.wait(60)
        self.given.append(list(texts))
        if any("bad" in text for text in texts):
            msg = "a bad text"
            raise RuntimeError(msg)
        return super().__call__(texts)


@pytest.fixture
def held() -> Iterator[tuple[Held, ModelWorker]]:
    answering = Held()
    made = ModelWorker("held", answering, waiting=2 * BATCH)
    try:
        yield answering, made
    finally:
        answering.may.set()
        made.close()


def test_batched_answers_equal_single_ones(held: tuple[Held, ModelWorker]) -> None:
    answering, made = held
    texts = [text for text in SINGLE if "bad" not in text] * 3
    first = made.answer(["good"])
    assert answering.begun.wait(60)
    waiting = [made.answer([text]) for text in texts]
    answering.may.set()
    first.result()
    found = [one.result()[0] for one in waiting]
    assert [len(given) for given in answering.given] == [1, len(texts)]
    alone = TextPredictor(answering.model)
    for text, answer in zip(texts, found, strict=True):
        (single,) = alone([text])
        assert answer["prediction"] == single["prediction"]
        assert answer["unknown"] == single["unknown"]
        assert answer["probabilities"] == pytest.approx(single["probabilities"], abs=1e-6)
        assert answer["radius"] == pytest.approx(single["radius"], rel=1e-6)


def test_logits_of_several_clients_are_one_batch(held: tuple[Held, ModelWorker]) -> None:
    answering, made = held
    first = made.answer(["good"])
    assert answering.begun.wait(60)
    asked = [SINGLE[:2], SINGLE[2:5], SINGLE[5:6], SINGLE * 4, SINGLE]
    waiting = [made.logits(texts) for texts in asked]
    alone = made.logits(SINGLE[:2], attack=True)
    answering.may.set()
    first.result()
    found = [one.result() for one in waiting]
    for texts, rows in zip(asked, found, strict=True):
        expected = answering.model.predict_texts(texts)
        assert rows.shape == (len(texts), 3)
        assert rows == pytest.approx(expected.detach().numpy(), abs=1e-5)
    assert alone.result() == pytest.approx(found[0], abs=1e-5)
    # The answer; 2 + 3 + 1 texts; 28 texts; 7 more would be too many.
    assert made.batches == 4


def test_one_bad_text_takes_no_answer_from_others(held: tuple[Held, ModelWorker]) -> None:
    answering, made = held
    first = made.answer(["good"])
    assert answering.begun.wait(60)
    waiting = [made.answer([text]) for text in ("good", "bad", "fine")]
    answering.may.set()
    assert first.result()[0]["text"] == "good"
    assert waiting[0].result()[0]["text"] == "good"
    with pytest.raises(RuntimeError, match="a bad text"):
        waiting[1].result()
    assert waiting[2].result()[0]["text"] == "fine"


def test_a_client_that_has_left_costs_nothing(held: tuple[Held, ModelWorker]) -> None:
    answering, made = held
    first = made.answer(["good"])
    assert answering.begun.wait(60)
    left, stays = made.answer(["fine"]), made.answer(["good again"])
    assert left.cancel()
    answering.may.set()
    assert [first.result()[0]["text"], stays.result()[0]["text"]] == ["good", "good again"]
    assert answering.given == [["good"], ["good again"]]


def test_only_so_many_wait(held: tuple[Held, ModelWorker]) -> None:
    answering, made = held
    made.answer(["good"])
    assert answering.begun.wait(60)
    waiting = [made.answer(["fine"]) for _ in range(2 * BATCH)]
    with pytest.raises(BusyError, match=f"{2 * BATCH} requests wait for held"):
        made.answer(["fine"])
    answering.may.set()
    assert {one.result()[0]["text"] for one in waiting} == {"fine"}
    assert max(map(len, answering.given)) == BATCH


def test_people_and_attacks_take_turns(held: tuple[Held, ModelWorker]) -> None:
    answering, made = held
    order: list[str] = []

    def noted(name: str) -> Any:
        return lambda _future: order.append(name)

    made.answer(["good"])
    assert answering.begun.wait(60)
    jobs = [("attack", made.logits(["fine"], attack=True)) for _ in range(2)]
    jobs += [("people", made.logits(["fine"] * BATCH)) for _ in range(3)]
    for name, future in jobs:
        future.add_done_callback(noted(name))
    answering.may.set()
    for _, future in jobs:
        future.result()
    assert order == ["attack", "people", "attack", "people", "people"]


def test_what_waits_at_the_end_is_cancelled(held: tuple[Held, ModelWorker]) -> None:
    answering, made = held
    first = made.answer(["good"])
    assert answering.begun.wait(60)
    late = made.answer(["fine"])
    threading.Timer(0.1, answering.may.set).start()
    made.close()
    assert first.result()[0]["text"] == "good"
    assert late.cancelled()
    with pytest.raises(BusyError):
        made.answer(["fine"])


def test_distance_in_the_space_of_the_certificate() -> None:
    made = worker()
    try:
        assert made.moved("good film", "good film").result() == 0
        moved = made.moved("good film", "bad film").result()
        assert moved is not None
        assert moved > 0
        assert made.moved("good film", "good").result() is None
    finally:
        made.close()


def test_a_regression_is_refused() -> None:
    model = attached(olsa()).eval()
    answering = TextPredictor(model)
    answering.number = True
    with pytest.raises(ValueError, match="got run score, a regression"):
        ModelWorker("score", answering)
