"""Gains of replacements by the gradient: those of small changes, in the order of the candidates."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from attacks.composition import Attack
from attacks.document import Document
from attacks.engine import Engine
from attacks.goals import Targeted
from attacks.strategies import FlipBeam
from attacks.victims.kinds import ModuleVictim
from tests.unit.attacks.toys import Synonyms, samples
from tests.unit.attacks.victims.test_saliency import classifier
from tests.unit.lit_modules.builders import FEW, PAIRS, SINGLE, attached

TEXT = next(text for text in SINGLE if isinstance(text, str) and len(text.split()) > 3)


def shrunk(
    victim: Any, document: Document, other: str, share: float, target: int | None = None
) -> float:
    """The slope of the lead of the other logits, or of a target, on the way to another text."""
    module = victim.module
    batches = [module.encode_texts([text]) for text in (document.text, other)]
    x, y = (module.embed(batch) for batch in batches)
    mask = batches[0].mask

    def lead(at: torch.Tensor) -> torch.Tensor:
        logits = module.classify(at, mask)[0]
        own = int(module.classify(x, mask).argmax()) if target is None else target
        others = torch.cat([logits[:own], logits[own + 1 :]])
        found: torch.Tensor = others.logsumexp(0) - logits[own]
        return found if target is None else -found

    with torch.no_grad():
        return float((lead(x + share * (y - x)) - lead(x)) / share)


@pytest.mark.parametrize("target", [None, 0, 1, 2])
def test_gains_are_slopes(target: int | None) -> None:
    module = attached(FEW[1], classes=3).double().eval()
    victim = ModuleVictim(module)
    document = Document.of(TEXT)
    words = [word for word in document.words if word != document.words[0]][:3]
    candidates = document.replace_by(0, words)
    (gains,) = victim.flip_gains([document], [candidates], target=target)
    assert len(gains) == len(words)
    for one, gain in zip(candidates, gains, strict=True):
        slope = shrunk(victim, document, str(one.text), 1e-6, target)
        assert gain == pytest.approx(slope, rel=1e-3)


def test_flips_lead_to_the_target() -> None:
    module = attached(FEW[1], classes=3).double().eval()
    victim = ModuleVictim(module)
    vocabulary = {word: [w for w in TEXT.split() if w != word] for word in TEXT.split()}
    clean = victim.logits([TEXT])[0]
    aims = [int(i) for i in clean.argsort()[:-1]]
    for target in aims:
        search = FlipBeam(width=1, flips=1)
        attack = Attack(
            name="flips",
            transformation=Synonyms(vocabulary),
            search=search,
            goal=Targeted(target=target),
            white_box=True,
        )
        label = int(clean.argmax())
        (record,) = Engine(attack, victim).run(samples(TEXT, label=label))
        document = Document.of(TEXT)
        candidates = [
            candidate
            for i, word in enumerate(document.words)
            for candidate in document.replace_by(i, vocabulary.get(word, []))
        ]
        (gains,) = victim.flip_gains([document], [candidates], target=target)
        best = candidates[gains.index(max(gains))]
        score = Targeted(target=target).judge(victim.logits([best.text]), np.array([label]))[0]
        # The one text that was asked about is that of the largest gain of the target.
        if record.adversarial != TEXT:
            assert record.adversarial_score == pytest.approx(score)
        assert record.score_change == pytest.approx(abs(score - float(record.score or 0)), rel=1e-3)


def test_other_lengths_have_no_gain() -> None:
    victim = ModuleVictim(attached(FEW[0], classes=2).eval())
    document = Document.of(TEXT)
    candidates = [document.delete(0), document.replace(0, f"{document.words[1]} {TEXT}")]
    assert victim.flip_gains([document], [candidates]) == [[float("-inf")] * 2]
    assert victim.flip_gains([document, document], [[], candidates])[0] == []


def test_pairs() -> None:
    victim = ModuleVictim(attached(FEW[0], pairs=True).eval())
    document = Document.of(next(text for text in PAIRS if not isinstance(text, str) and text[1]))
    index = len(document) - 1
    candidates = document.replace_by(index, [document.words[0]])
    assert len(victim.flip_gains([document], [candidates])[0]) == 1


def test_transformers(tmp_path: Path) -> None:
    victim = classifier(tmp_path)
    document = Document.of("a good film")
    candidates = [*document.replace_by(1, ["bad", "film"]), *document.replace_by(2, ["good"])]
    (gains,) = victim.flip_gains([document], [candidates])
    assert len(gains) == 3
    before = [module.training for module in victim.model.modules()]
    (alone,) = zip(*victim.flip_gains([document] * 3, [[one] for one in candidates]), strict=True)
    assert alone == pytest.approx(gains, rel=1e-4, abs=1e-6)
    assert before == [module.training for module in victim.model.modules()]
    assert all(parameter.grad is None for parameter in victim.model.parameters())
    attack = Attack(
        name="flips", transformation=Synonyms(), search=FlipBeam(flips=1), white_box=True
    )
    (record,) = Engine(attack, victim).run(samples("a good film", label=0))
    assert record.outcome in {"skipped", "failed", "succeeded"}
