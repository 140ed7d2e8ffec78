"""Explanations of a prediction for the live page: the words that decide, and the proofs."""

import asyncio
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from app.serve.model_worker import BATCH, ModelWorker
from attacks.document import Document
from attacks.goals import Floats
from measure.attack_report import compare
from measure.predictions import TextPrediction
from text import Text
from text.canonical import canonical

_NOTHING = "Nothing is proved about this prediction: {}."


async def explain(worker: ModelWorker, text: Text, *, words: int) -> dict[str, Any]:
    """Return how much each word decides; delete only the first `words` of them.

    Returns:
        `prediction`; for each text its parts in their order (`text`, `word`, `gradient`,
        `deletion`; see `app/serve/api_fields.py`); `tried`, the number of deleted words.
    """
    document = Document.of(text)
    logits = (await asyncio.wrap_future(worker.logits([text])))[0]  # [C]
    label = int(logits.argmax())
    gradients: list[float] = []
    if len(document):
        (gradients,) = await asyncio.wrap_future(worker.weights([document]))
    # A word behind the model's length has no gradient, and its deletion changes nothing.
    tried = [i for i, gradient in enumerate(gradients) if math.isfinite(gradient)][:words]
    falls: dict[int, float] = {}
    for start in range(0, len(tried), BATCH):
        chunk = tried[start : start + BATCH]
        # Chunk by chunk: between two of them the worker serves other requests.
        rows = await asyncio.wrap_future(worker.logits([document.delete(i).text for i in chunk]))
        for i, row in zip(chunk, rows, strict=True):
            falls[i] = _margin(logits, label) - _margin(row, label)
    return {
        "prediction": worker.classes[label],
        "texts": [
            list(_parts(document, column, gradients, falls))
            for column in range(len(document.columns))
        ],
        "tried": len(tried),
    }


def _parts(
    document: Document, column: int, gradients: Sequence[float], falls: Mapping[int, float]
) -> Iterator[dict[str, Any]]:
    text, end = document.columns[column], 0
    for index, (text_index, start, stop) in enumerate(document.spans):
        if text_index != column:
            continue
        if start > end:
            yield {"text": text[end:start], "word": False}
        gradient = gradients[index]
        yield {
            "text": text[start:stop],
            "word": True,
            "gradient": gradient if math.isfinite(gradient) else None,
            "deletion": falls.get(index),
        }
        end = stop
    if end < len(text):
        yield {"text": text[end:], "word": False}


def _margin(logits: Floats, label: int) -> float:
    """Return the logit of a class less the largest other one."""
    return float(logits[label] - max(value for i, value in enumerate(logits) if i != label))


def describe_certificates(answer: TextPrediction, reason: str | None) -> str:
    """Return sentences about the certificates of a prediction, those in words first.

    `reason` explains why there is no radius; None if there is one.
    """
    sentences = [*(c["sentence"] for c in answer["certificates"]), describe_radius(answer)]
    return " ".join(filter(None, sentences)) or _NOTHING.format(reason)


def describe_radius(answer: TextPrediction) -> str:
    """Return the sentence about the certified radius; "" if there is none."""
    prediction, radius = answer["prediction"], answer["radius"]
    if radius is None:
        return ""
    if radius <= 0:
        return "Nothing is proved about its vectors: the certified radius is 0."
    # Rounded down: never more than what is proved.
    rounded = math.floor(radius * 1000) / 1000
    return (
        "Proved: as long as the vectors of all tokens together move by less than "
        f"{rounded:.3f}, the prediction stays {prediction}. This is about vectors; another "
        "word may move them further, and the prediction may still be wrong."
    )


def complete_answer(answer: TextPrediction, reason: str | None) -> TextPrediction:
    """Return a prediction with sentences, and with marked words.

    `headline` is about the first certificate in words, if there is one. `after` of each worst text
    has its pieces, and `read_pieces` those of the text after the front end; empty without one.
    `reason` explains why there is no radius.
    """
    text = answer["text"]
    radius = describe_radius(answer)
    headline = radius or _NOTHING.format(reason)
    if answer["certificates"]:
        joint = answer["certificates"][0]
        headline = joint["headline"] or joint["sentence"]
    certificates = [
        {**record, "worst": [{**w, "after": _pieces(text, w["text"])} for w in record["worst"]]}
        for record in answer["certificates"]
    ]
    return {
        **answer,
        "headline": headline,
        "certificates": certificates,
        "covers": describe_certificates(answer, reason),
        "covers_radius": radius,
        "read_pieces": _pieces(canonical(text), answer["reads"]) if "reads" in answer else [],
    }


def _pieces(before: str, after: str) -> list[dict[str, Any]]:
    return [piece._asdict() for piece in compare(before, after)[1]]
