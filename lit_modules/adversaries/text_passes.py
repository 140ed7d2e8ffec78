"""Passes over adversarial texts, and their metrics."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

import torch
from torch import Tensor

from attacks.outcome import AttackRecord
from lit_modules.adversaries.adversary import InnerProblem, TextSample, undisturbed
from lit_modules.shared.task_module import TaskModule
from text import Batch, Text, cuts_unsaid


def succeeded(record: AttackRecord) -> bool:
    """True if the attack reached its goal."""
    return record.outcome == "succeeded"


def samples_of(problem: InnerProblem) -> Mapping[int, TextSample]:
    """Return the training samples; raises ValueError if there are none."""
    if problem.samples is None:
        msg = "got a batch without its texts, expected a corpus: texts are what is attacked"
        raise ValueError(msg)
    return problem.samples


def encoded(
    classifier: TaskModule, texts: Sequence[Text], sample_ids: Tensor, labels: Tensor
) -> Batch:
    """Return the batch of n raw texts, with `[n]` labels and ids of the attacked samples."""
    with cuts_unsaid():
        batch = classifier.encode_texts(list(texts))
    return replace(batch, sample_ids=sample_ids, labels=labels)


def logits_of(
    classifier: TaskModule, texts: Sequence[Text], sample_ids: Tensor, labels: Tensor
) -> Tensor:
    """Return logits `[n, C]` of n texts; see `encoded`."""
    batch = encoded(classifier, texts, sample_ids, labels)
    return classifier.classify(classifier.embed(batch), batch.mask)


@torch.no_grad()
def values(problem: InnerProblem, clean: Tensor | None, adversarial: Tensor) -> dict[str, Tensor]:
    """Return the loss values to log; logits `[B, C]` of the clean batch are computed if None."""
    if clean is None:
        # Logging a step must not change the dropout of later steps.
        with undisturbed(problem.classifier, problem.labels.device):
            clean = problem.clean_logits()
    clean = clean.detach()
    return {
        "clean_loss": problem.loss(clean),
        "adversarial_loss": adversarial.detach(),
        "accuracy": (clean.argmax(dim=1) == problem.labels).float().mean(),
    }


def rates(
    records: Iterable[AttackRecord], size: int, device: torch.device
) -> dict[str, tuple[Tensor, Tensor]]:
    """Return the attack rates of a batch to log, over texts whose clean prediction was correct."""
    attacked = [record for record in records if record.attacked]
    sums = {
        "attack_success": sum(map(succeeded, attacked)),
        "words_changed": sum(record.words_changed for record in attacked),
        "queries": sum(record.queries for record in attacked),
        "unique_queries": sum(record.unique_queries for record in attacked),
    }
    numbers = torch.tensor([*sums.values(), len(attacked)], dtype=torch.float32, device=device)
    *parts, count = (numbers / size).unbind()
    return {name: (part, count) for name, part in zip(sums, parts, strict=True)}


def some_texts(samples: Mapping[int, TextSample]) -> list[Text]:
    """Return the texts of a corpus; of a large one an evenly spread subset."""
    ids = list(samples)
    return [samples[i].text for i in ids[:: math.ceil(len(ids) / 20_000) or 1]]
