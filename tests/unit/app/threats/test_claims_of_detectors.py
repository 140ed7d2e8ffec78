"""The checker of claims about added text: it reads and adds up as the detector does."""

import json
import random
import re
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.numpy import load, save

from app.claim_files import check_detector_threat, is_readable
from app.commands.certify_export import _claim, _contents
from certify.threats import ADDITIONS, Additions, Substitutions, Typos
from certify.words.evidence import EvidenceCertifier
from layers.ngram_scores import GRID
from lit_modules import MonotoneScores
from tests.unit.app.threats.test_claims_of_sets import Files, checked, sealed
from tests.unit.certify.words.test_evidence import FRONT_ENDS, NASTY, added, module
from tests.unit.certify.words.test_substitutions import FRONT

CHECKER = Path(__file__).parents[4] / "docs/certificates/check_detector.py"
PROGRAM = compile(CHECKER.read_text(), str(CHECKER), "exec")
OWN = [
    "Win a FREE prize now",
    "r w  Win a FREE prize now o n",
    "free prize!",
    "don't call me now",
    "are you fr\u00e9e, yes",
    "f.r.e.e p r i z e  n o w",
    "w1n a fr33 pr|ze n0w",
    "uou poob, sooo fre",
    "prize \u0391\u03a3",
    "good day",
]
PARTS = (*NASTY, *"01345 7@$|.", "free", "prize ", " good day", "zzz", "n't", "'s", " a b c d ")
SHIPPED = {**FRONT_ENDS[-1], "split": "clitics"}
"""The words of configs/monotone_scores/detector.yaml."""


def threats(model: MonotoneScores) -> list[Additions]:
    kinds = [k for k in ADDITIONS if k != "insert-any" or not model.words.canonical.spaced]
    return [Additions(words=model.words, kind=kind) for kind in kinds]


def export(model: MonotoneScores, threat: Additions) -> Files:
    """All texts of `OWN` that are certified."""
    found = model.text_certifier(threat)(OWN, [None])
    lines = [{"sample_id": at, "text": f.text} for at, f in enumerate(found) if f.holds[0]]
    assert lines
    return _contents(model, threat, [_claim(line, threat) for line in lines])


def noises(count: int, seed: int) -> list[str]:
    rng = random.Random(seed)
    return ["".join(rng.choices(PARTS, k=rng.randint(0, 20))) for _ in range(count)]


@pytest.mark.long
@pytest.mark.parametrize(
    "words", [SHIPPED, *(pytest.param(words, marks=pytest.mark.slow) for words in FRONT_ENDS)]
)
def test_the_checker_reads_and_adds_up_as_the_model(words: dict[str, Any], tmp_path: Path) -> None:
    model, rng, outcomes = module(**words), random.Random(0), set[bool]()
    for threat in threats(model):
        files = export(model, threat)
        out = checked(tmp_path / "a", files, PROGRAM)
        number = json.loads(files["statement.json"])["number"]
        assert out == f"{number} texts stay b: {threat.statement}\n"
        names: dict[str, Any] = {}
        sys.argv = ["check_detector.py", str(tmp_path / "a")]
        exec(PROGRAM, names)
        certifier = model.text_certifier(threat)
        assert isinstance(certifier, EvidenceCertifier)
        for text in [*OWN, *noises(40, seed=1)]:
            if not is_readable(text, model.words):
                assert names["UNREAD"].search(text)
                continue
            assert names["core"](text) == threat.core(text), text
            if threat.kind != "insert-any":
                logits = certifier.model.logits(threat.split(text))
                total = names["offset"] + names["evidence"](text)
                assert total == float(logits[1] - logits[0]) / GRID, text
            claimed = names["offset"] + names["evidence"](names["core"](text)) > 0
            assert claimed == certifier([text], [None])[0].holds[0], text
            outcomes.add(claimed)
        for line in files["claims.jsonl"].decode().splitlines():
            own = json.loads(line)["text"]
            more = [added(own, threat.kind, noises(1, at)[0].strip, rng, threat) for at in range(4)]
            assert set(model.predict_texts(more).argmax(dim=1).tolist()) == {1}
    assert outcomes == {True, False}


@pytest.mark.slow
def test_a_change_of_any_file_is_refused_or_true(tmp_path: Path) -> None:
    model = module(**SHIPPED)
    threat = Additions(words=model.words, kind="append")
    files = export(model, threat)
    about = json.loads(files["statement.json"])

    def holds(**changed: Any) -> bool:
        contents = {key: value for key, value in changed.items() if isinstance(value, bytes)}
        names = {"scores": "scores.safetensors", "claims": "claims.jsonl", "forms": "forms.json"}
        fields = {key: value for key, value in changed.items() if key not in contents}
        forged = {**files, **{names[key]: value for key, value in contents.items()}}
        return checked(tmp_path / "a", sealed(forged, **fields), PROGRAM) is not None

    assert holds()
    for name, content in files.items():
        for new in (content[:-1], b" " + content + b"0", content.replace(b"1", b"2", 1)):
            assert new == content or checked(tmp_path / "a", {**files, name: new}, PROGRAM) is None
    # A score below 0, an n-gram twice, no words.
    tensors = load(files["scores.safetensors"])
    for name in sorted(tensors):
        scores = tensors[name].copy()
        scores[-1] = -1 if name.startswith("scores") else scores[0]
        assert not holds(scores=save({**tensors, name: scores})), name
    # Scores changed: true as long as the least certified text has enough.
    assert holds(scores=save({n: t * (1 + n.startswith("scores")) for n, t in tensors.items()}))
    assert not holds(scores=save({n: t * (not n.startswith("scores")) for n, t in tensors.items()}))
    # Another threshold is another model: its claims are checked, and hold up to the least score.
    texts = [json.loads(line)["text"] for line in files["claims.jsonl"].decode().splitlines()]
    least = min(float(model.predict_texts(threat.core(text)).diff()) for text in texts)
    above = round(least / GRID)
    assert holds(offset=about["offset"] - above + 1)
    assert not holds(offset=about["offset"] - above)
    # Other texts: one that is not detected, one whose words an added letter divides.
    for text, true in (("Win a free prize now", True), ("zzz good", False), ("f r e e", False)):
        line = json.dumps({"sample_id": 0, "text": text}) + "\n"
        assert holds(claims=line.encode(), number=1) == true, text
    two = files["claims.jsonl"] + files["claims.jsonl"].splitlines(keepends=True)[0]
    assert not holds(claims=two, number=about["number"] + 1)
    # A confusable left out.
    assert not holds(forms=files["forms.json"].replace(b"430 ", b"", 1))
    for field, value in (
        ("number", about["number"] + 1),
        ("threat", "appended"),
        ("threat", "insert-any"),
        ("front_end", "none"),
        ("options", ["all"]),
        ("split", "letters"),
        ("classes", ["b", "b"]),
        ("detects", "c"),
        ("words", about["words"][:-1]),
        ("more", 1),
    ):
        assert not holds(**{field: value}), field


@pytest.mark.slow
def test_characters_that_move_are_not_read(tmp_path: Path) -> None:
    model = module(**SHIPPED)
    threat = Additions(words=model.words, kind="append")
    files = export(model, threat)
    for text in ("free prize \u202e", "free prize \U000e0061", "free prize \u01dd"):
        assert model.text_certifier(threat)([text], [None])[0].holds[0]
        assert not is_readable(text, model.words)
        line = json.dumps({"sample_id": 0, "text": text}) + "\n"
        forged = sealed({**files, "claims.jsonl": line.encode()}, number=1)
        assert checked(tmp_path / "a", forged, PROGRAM) is None


def test_replaced_words_are_refused() -> None:
    sets = Substitutions(words=FRONT, sets=(Typos(FRONT),))
    for threat in (sets, Additions(words=FRONT, kind="append", changes=sets)):
        with pytest.raises(ValueError, match="insert-any alone"):
            check_detector_threat(threat)
    check_detector_threat(Additions(words=FRONT, kind="append"))


def test_evidence_of_either_class(tmp_path: Path) -> None:
    model = MonotoneScores(positive="a", window=2)
    model.attach(model.build_tokenizer(OWN), ["a", "b"])
    model.configure_model()
    assert model.scores is not None
    with torch.no_grad():
        model.scores.words.fill_(0.5)
        model.output_bias().copy_(torch.tensor([0.0, 0.8]))
    model.eval()
    threat = Additions(words=model.words, kind="append")
    out = checked(tmp_path / "a", export(model, threat), PROGRAM)
    assert out is not None
    assert "texts stay a: any text is added" in out


def test_the_checker_is_short_and_on_its_own() -> None:
    text = CHECKER.read_text()
    assert len(text.splitlines()) <= 210
    imported = set(re.findall(r"^(?:from|import) (\w+)", text, re.MULTILINE))
    modules = "hashlib itertools json pathlib re safetensors sys unicodedata"
    assert imported == set(modules.split())
