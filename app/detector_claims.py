"""Claims of detectors about added text, as docs/certificates/check_detector.py reads them."""

import json
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from app.claim_files import STATEMENT, digest, scores_file, seal
from certify.threats import Additions, Threat
from certify.words.evidence import EvidenceCertifier
from layers.ngram_scores import GRID
from lit_modules import MonotoneScores
from text import WordSettings
from text.canonical import canonical_table
from text.display import moves_characters


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

    Args:
        model: the detector.
        threat: added text.
        claims: numbers and texts that are certified.

    Raises:
        ValueError: the model has no certificate for the threat.
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
