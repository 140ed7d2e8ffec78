"""Files of exported claims: what all checkers read alike, and the claims of detectors.

docs/certificates/check_detector.py reads those about added text.
"""

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Any

import torch
from safetensors.torch import save
from torch import Tensor

from certify.threats import Additions, Threat
from certify.words.evidence import EvidenceCertifier
from layers.ngram_scores import GRID, NgramScores
from layers.window_net import WEIGHT_GRID
from lit_modules import MonotoneScores
from text import WordSettings
from text.canonical import canonical_table
from text.display import moves_characters

STATEMENT = "statement.json"


def digest(content: bytes) -> str:
    """Return the SHA-256 of a file."""
    return hashlib.sha256(content).hexdigest()


def seal(statement: Mapping[str, Any]) -> bytes:
    """Return the file of a statement with its own digest: it detects damage, but signs nothing."""
    sealed = {**statement, "seal": digest(json.dumps(statement).encode())}
    return json.dumps(sealed, indent=1).encode()


def scores_file(scores: NgramScores) -> bytes:
    """Return n-grams, scores and the weights of a net over windows, in multiples of the grids.

    Ids of words begin after the special tokens, which score nothing, alone or in an n-gram.
    """
    # safetensors stores contiguous tensors only.
    return save({name: tensor.contiguous() for name, tensor in _tensors(scores)})


def _tensors(scores: NgramScores) -> Iterator[tuple[str, Tensor]]:
    specials = scores.specials
    yield "ngrams_1", torch.arange(scores.size - specials).unsqueeze(1)
    # Scores are exact multiples of the grid, so the integers are exact.
    yield "scores_1", (scores.word_table()[specials:] / GRID).round().long()
    if scores.net is not None:
        yield "net_tables", (scores.net_tables()[:, specials:] / WEIGHT_GRID).round().long()
        yield "net_output", (scores.net.output() / WEIGHT_GRID).round().long()
    for order in scores.orders:
        # A key is the n-gram as a number of `order` digits in base `size`, the first word leading.
        keys, digits = scores.keys(order), []
        for _ in range(order):
            digits.append(keys % scores.size)
            keys = keys // scores.size
        ids = torch.stack(digits[::-1], dim=1) - specials  # [n, order]
        regular = (ids >= 0).all(dim=1)
        yield f"ngrams_{order}", ids[regular]
        yield f"scores_{order}", (scores.ngram_table(order)[:-1][regular] / GRID).round().long()


def check_detector_threat(threat: Threat) -> None:
    """Raise a ValueError for other claims than those about added text alone."""
    if not isinstance(threat, Additions) or threat.changes is not None:
        msg = (
            f"got {threat.title} for MonotoneScores, expected append, append-glued, append-lines "
            "or insert-any alone: the bound on evidence with replaced words is a search for "
            "prices, which the checker does not make"
        )
        raise ValueError(msg)


def is_readable(text: str, words: WordSettings) -> bool:
    """Return True if the checker reads a text: with `display`, not where characters move."""
    return not (words.canonical.display and moves_characters(text))


def detector_files(
    model: MonotoneScores, threat: Additions, claims: Sequence[dict[str, Any]]
) -> dict[str, bytes]:
    """Return the files of an export by name; the statement has the digests of the others.

    The claims are the numbers and texts that are certified.
    """
    certifier = model.text_certifier(threat)
    assert isinstance(certifier, EvidenceCertifier)  # of MonotoneScores
    scores, network, tokenizer = certifier.model
    words, classes = tokenizer.splitter.settings, model.require_text()[1]
    bias, positive = network.offsets(), network.positive
    forms, weights = canonical_table().encode(), scores_file(scores)
    lines = "".join(json.dumps(claim) + "\n" for claim in claims).encode()
    options = [] if words.front_end == "none" else asdict(words.canonical).items()
    statement = {
        "threat": threat.kind,
        "says": threat.statement,
        "split": words.split,
        "front_end": words.front_end,
        "options": sorted(name for name, value in options if value),
        "forms": digest(forms),
        "weights": digest(weights),
        "claims": digest(lines),
        "number": len(claims),
        "offset": int(((bias[positive] - bias[1 - positive]) / GRID).round()),
        "classes": classes,
        "words": tokenizer.vocabulary.get_itos()[scores.specials :],
        "uncorrected": sorted(words.uncorrected),
        "detects": classes[positive],
    }
    return {
        STATEMENT: seal(statement),
        "forms.json": forms,
        "scores.safetensors": weights,
        "claims.jsonl": lines,
    }
