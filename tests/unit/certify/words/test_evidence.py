"""Certificates of evidence of at least 0: brute force over sets, added text as raw strings."""

import random
from collections.abc import Callable, Sequence
from itertools import product
from typing import Any

import pytest
import torch
from pytorch_lightning.callbacks import LambdaCallback

from certify.threats import ADDITIONS, Additions, ListedWords, Substitutions, Synonyms, is_same_form
from certify.words.evidence import EvidenceCertifier, EvidenceModel
from certify.words.worst_path import drop_dominated, worst_path
from layers.evidence import EvidenceSum, first_occurrences
from layers.ngram_scores import NgramScores
from lit_modules import MonotoneScores
from tests.unit.certify.words.score_models import LISTS, WORDS, score_model
from tests.unit.lit_modules.builders import loader, trainer
from text import Vocabulary, WordSettings, WordTokenizer
from text.canonical import CanonicalForm

ASCII = WordSettings(split="ascii")
TRAINED = ["win a free prize now", "free prize", "call me now", "a good day", "are you free"] * 2
NASTY = (
    *" \t\n\u2003\u3000\u2028\u00a0",
    *"\u0301\u0338\u20dd\u200d\u200b\ufe0f\u202e\ufeff\u00ad\U000e0041\ud800",
    *"\U000e0061\u2067\u2069\u202cʇǝu1|",
    *"aeIsprZ0'’`-_*@.,!?ßİΣςﬁ가नकиⅷ①😀",
)
KS = (0, 1, 2, None)


class Listed(ListedWords):
    """The lists of the other tests as a perturbation set."""

    name, statement, content = "listed", "by a listed word", "listed"

    def replacements(self, word: str) -> Sequence[str]:
        return LISTS.get(word, ())


def evidence_model(width: int, *, positive: int = 1, seed: int = 0) -> EvidenceModel:
    """Scores are multiples of 1/8, many of them 0; no score is below 0."""
    scores, tokenizer, _ = score_model(width, classes=1, seed=seed)
    network = EvidenceSum(positive=positive)
    with torch.no_grad():
        for parameter in scores.parameters():
            parameter.clamp_(min=0.0)
        network.bias[1 - positive] = 0.5
    return EvidenceModel(scores, network.eval(), tokenizer)


def texts(count: int, words: int, seed: int) -> list[str]:
    rng = random.Random(seed)
    return [" ".join(rng.choices((*WORDS, "zzz"), k=rng.randint(0, words))) for _ in range(count)]


def keeps(model: EvidenceModel, words: Sequence[str], prediction: int) -> bool:
    logits = model.logits(words)
    return bool(logits[prediction] > logits[1 - prediction])


def test_a_word_counts_once() -> None:
    items = torch.tensor([[3, 1, 3, 3, 1], [0, 0, 2, 1, 2]])
    first = [[True, True, False, False, False], [True, False, True, True, False]]
    assert first_occurrences(items).tolist() == first
    model = evidence_model(3)
    once, twice = (model.logits(text.split()) for text in ("good film", "good film good film"))
    words, pairs = model.scores.word_table()[:, 0], model.scores.ngram_table(2)[:, 0]
    good, film = model.tokenizer.ids(["good", "film"])
    rows = model.scores.rows(torch.tensor([[good, film], [film, good]]))
    assert once[1] - once[0] == words[good] + words[film] + pairs[rows[0]] - 0.5
    assert twice[1] >= once[1]


@pytest.mark.parametrize("index", [0, 1])
def test_the_evidence_of_words_adds_up_to_the_score(index: int) -> None:
    model = module(2)
    model.output_bias().data.copy_(torch.tensor([0.25, -0.5]))
    text = f"{WORDS[0]} {WORDS[1]} zzz {WORDS[0]} {WORDS[1]}"
    evidence = dict(model.word_evidence(text, index))
    assert set(evidence) == {WORDS[0], WORDS[1], "zzz"}
    logits = model.predict_texts([text])[0] - model.output_bias().detach()
    assert sum(evidence.values()) == pytest.approx(float(logits[index] - logits[1 - index]))
    assert any(evidence.values())


@pytest.mark.long
@pytest.mark.parametrize(
    ("width", "positive"),
    [
        *((1, 0), (2, 0), (3, 1)),
        *(pytest.param(*case, marks=pytest.mark.slow) for case in ((1, 1), (2, 1), (3, 0))),
    ],
)
def test_no_replacement_changes_what_is_certified(width: int, positive: int) -> None:
    """Brute force: sound for each number of changes, and exact where it says so."""
    threat = Synonyms.of(LISTS, words=ASCII)
    decided = held = both = 0
    for seed in range(2):
        model = evidence_model(width, positive=positive, seed=seed)
        for found in EvidenceCertifier(model, threat)(texts(20, 5, seed), KS):
            inside = [" ".join(words) for words in product(*threat.candidates(found.text))]
            for k, holds in zip(KS, found.holds, strict=True):
                some = [text for text in inside if threat.at(k).contains(found.text, text)]
                truth = all(keeps(model, text.split(), found.prediction) for text in some)
                assert truth or not holds
                assert holds == truth or found.kind == "lower bound"
                held += holds
                both += truth
            if found.witness is not None:
                assert threat.contains(found.text, found.witness)
                assert not keeps(model, found.witness.split(), found.prediction)
            decided += found.kind == "exact"
    assert held >= 0.9 * both > 0
    assert decided >= 30


@pytest.mark.long
@pytest.mark.parametrize(
    ("width", "kind"),
    [
        *((1, "append"), (1, "append-glued"), (3, "insert-any")),
        *(
            pytest.param(*case, marks=pytest.mark.slow)
            for case in ((3, "append"), (3, "append-glued"), (1, "insert-any"))
        ),
    ],
)
def test_no_addition_to_replaced_words_changes_what_is_certified(width: int, kind: Any) -> None:
    sets = Additions(words=ASCII, kind=kind, changes=Substitutions(words=ASCII, sets=(Listed(),)))
    rng = random.Random(1)
    certified = fell = 0
    for seed in range(4):
        model = evidence_model(width, seed=seed)
        for found in EvidenceCertifier(model, sets)(texts(15, 6, seed), KS):
            if found.prediction == 0:
                assert not any(found.holds)
            for k, holds in zip(KS, found.holds, strict=True):
                changed = [spoil(found.text, kind, k, rng) for _ in range(8)]
                assert all(sets.at(k).contains(found.text, text) for text in changed)
                stays = [keeps(model, sets.split(text), found.prediction) for text in changed]
                assert all(stays) or not holds
                certified += holds
                fell += not all(stays)
            if found.witness is not None:
                assert sets.contains(found.text, found.witness)
                assert not keeps(model, sets.split(found.witness), found.prediction)
    assert certified > 5
    assert fell > 5


@pytest.mark.parametrize("width", [2, 3])
def test_dominated_candidates_change_no_worst_text(width: int) -> None:
    generator = torch.Generator().manual_seed(0)
    dropped = 0
    for seed in range(10):
        scores = evidence_model(width, seed=seed).scores
        ids = torch.randint(0, scores.size, (12, 6, 5), generator=generator)
        sign = torch.tensor([1.0, -1.0] * 6, dtype=torch.float64).unsqueeze(1)
        rest = drop_dominated(scores, ids, sign)
        dropped += int((rest != ids).sum())
        before, after = (worst_path(scores, rows, sign) for rows in (ids, rest))
        assert torch.equal(before.value, after.value)
    assert dropped > 500


def spoil(text: str, kind: str, k: int | None, rng: random.Random) -> str:
    """Return a text of the set: at most k words replaced, others added."""
    words = text.split()
    chosen = rng.sample(range(len(words)), len(words) if k is None else min(k, len(words)))
    for at in chosen:
        words[at] = rng.choice((words[at], *LISTS.get(words[at], ())))
    extra = [" ".join(rng.choices((*WORDS, "zzz"), k=rng.randint(0, 3))) for _ in range(2)]
    if kind == "insert-any":
        return " ".join(f"{word} {rng.choice(('', 'zzz', *WORDS))}" for word in words)
    if kind == "append":
        return f"{extra[0]} {' '.join(words)}\n{extra[1]}"
    head, *middle, tail = [*words, *[""] * (2 - len(words))]
    return f"{extra[0]}{head} {' '.join(middle)} {tail}{extra[1]}"


def module(window: int = 3, **words: Any) -> MonotoneScores:
    """A detector of `b` over `a` with random scores of at least 0."""
    torch.manual_seed(0)
    model = MonotoneScores(window=window, words=WordSettings(**words))
    model.attach(model.build_tokenizer(TRAINED), ["a", "b"])
    model.configure_model()
    assert model.scores is not None
    with torch.no_grad():
        for table in (model.scores.words, *model.scores.tables):
            table.copy_(torch.rand_like(table))
        model.output_bias()[0] = 0.8
    return model.eval()


FRONT_ENDS: Sequence[dict[str, Any]] = (
    {},
    {"split": "ascii"},
    {"split": "alphanumeric", "front_end": "canonical"},
    {"split": "joined", "front_end": "spelling"},
    {
        "split": "joined",
        "front_end": "canonical",
        "canonical": CanonicalForm(leetspeak=True, repeats=True),
    },
    {"front_end": "canonical", "canonical": CanonicalForm(display=True)},
    {
        "split": "joined",
        "front_end": "canonical",
        "canonical": CanonicalForm(leetspeak=True, spaced=True, display=True),
    },
)


@pytest.mark.long
@pytest.mark.parametrize("words", FRONT_ENDS)
def test_no_raw_string_added_hides_a_detection(words: dict[str, Any]) -> None:
    """Random strings of nasty characters through `predict_texts`; free words in between."""
    rng = random.Random(0)
    model = module(**words)
    settings = model.words

    def noise() -> str:
        parts = (*NASTY, "free", "prize", "good day", "zzz", "n't", "'s")
        return "".join(rng.choices(parts, k=rng.randint(0, 12)))

    own = [
        "r w  Win a FREE prize now o n",
        "Win a FREE prize now",
        "free prize!",
        "don't call me now",
        "are you frée",
        "prize ΑΣ",
    ]
    for kind in ADDITIONS:
        if settings.canonical.spaced and kind == "insert-any":
            continue
        threat = Additions(words=settings, kind=kind)
        certificates = model.text_certifier(threat)(own, [None])
        score = {c.text: float(model.predict_texts(c.text).diff(dim=1)) for c in certificates}
        assert all(c.prediction == (score[c.text] > 0) for c in certificates)
        assert any(c.holds[0] for c in certificates)
        for certificate in certificates:
            text = certificate.text
            changed = [added(text, kind, noise, rng, threat) for _ in range(25)]
            assert all(threat.contains(text, new) for new in changed)
            after = model.predict_texts(changed).diff(dim=1).flatten()
            assert (after > 0).all() or not certificate.holds[0]
            if kind == "append" and not settings.canonical.spaced:
                assert (after >= score[text]).all()


def added(
    text: str, kind: str, noise: Callable[[], str], rng: random.Random, threat: Additions
) -> str:
    blanks: list[str] = [char for char in NASTY if threat.is_blank(char)]
    head, tail = noise(), noise()
    if kind == "append-glued":
        return head + text + tail
    if kind == "append-lines":
        return f"{head}\n{text}\n{tail}"
    if kind == "append":
        return head + rng.choice(blanks) + text + rng.choice(blanks) + tail
    parts = [part for word in text.split(" ") for part in (word, noise())]
    return rng.choice(blanks).join([head, *parts])


def test_what_may_not_be_certified() -> None:
    model = module()
    threat = Additions(words=model.words, kind="append")
    assert model.scores is not None
    with torch.no_grad():
        model.scores.tables[0][0] = -0.5
    with pytest.raises(ValueError, match="scores below 0"):
        model.text_certifier(threat)
    spaced = WordSettings(
        split="joined", front_end="canonical", canonical=CanonicalForm(spaced=True)
    )
    with pytest.raises(ValueError, match="spaced"):
        Additions(words=spaced, kind="insert-any")
    # Nothing else takes the certificate of a set for one of added text.
    assert not is_same_form(threat)


def test_a_long_text_is_read_to_its_end() -> None:
    model = module()
    long = "good day " * 5000
    tokenizer = model.require_tokenizer()
    (encoding,) = tokenizer.encode([f"{long} win a free prize now"])
    assert not encoding.truncated
    assert int(model.predict_texts(f"{long} win a free prize now").argmax()) == 1
    # Repeated words add nothing.
    once, often = model.predict_texts(["good day", "good day zzz " * 50]).diff(dim=1).flatten()
    assert abs(float(often - once)) < 1e-9


@pytest.mark.parametrize("accumulate", [1, 2])
def test_callbacks_see_no_evidence_below_0(accumulate: int) -> None:
    """As the one that saves within an epoch, and the one that averages weights."""
    model = module().train()
    scores = model.scores
    assert scores is not None
    with torch.no_grad():
        scores.words.mul_(1e-4)
    least: list[float] = []
    watch = LambdaCallback(on_train_batch_end=lambda *_: least.append(scores.words.min().item()))
    run = trainer(callbacks=[watch], accumulate_grad_batches=accumulate)
    batches = loader(model, list(TRAINED), 2, classes=2)
    run.fit(model, batches, batches)
    assert min(least) == 0


@pytest.mark.parametrize("mutant", ["negative", "divided", "cut"])
def test_mutants_of_the_model_are_noticed(mutant: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each breaks the property that `test_no_raw_string_added_hides_a_detection` checks."""
    model = module()
    assert model.scores is not None
    text = "win a free prize now"
    assert int(model.predict_texts(text).argmax()) == 1
    if mutant == "negative":
        with torch.no_grad():
            model.scores.words[model.require_tokenizer().vocabulary(["good"])] = -20.0  # type: ignore[attr-defined] # a word tokenizer
    elif mutant == "divided":
        whole = EvidenceSum.forward
        monkeypatch.setattr(
            EvidenceSum, "forward", lambda self, x, mask: whole(self, x / mask.sum(), mask)
        )
    else:
        model.require_tokenizer().max_length = 5
    changed = f"{'good day ' * 10}{text} good day"
    assert (
        float(model.predict_texts(changed).diff(dim=1))
        < float(model.predict_texts(text).diff(dim=1))
        or int(model.predict_texts(changed).argmax()) == 0
    )


@pytest.mark.parametrize("length", [4, 400])
def test_a_long_list_in_a_long_text(length: int) -> None:
    """Positions times the longest list may be many: (250 · 400)^4 is more than an int64 has."""
    words = [f"w{number}" for number in range(250)]
    tokenizer = WordTokenizer(Vocabulary(dict.fromkeys(words, 9)), max_length=2**31 - 1)
    scores = NgramScores(tokenizer.vocab_size, 1, counts=[1, 1, 1])
    scores.set_ngrams([torch.tensor([tokenizer.ids(words[:m])]) for m in (2, 3, 4)])
    with torch.no_grad():
        scores.words.fill_(0.125)
    network = EvidenceSum(positive=1).eval().requires_grad_(requires_grad=False)
    scores = scores.keep().requires_grad_(requires_grad=False)
    certifier = EvidenceCertifier(
        EvidenceModel(scores, network, tokenizer), Synonyms.of({"w0": words})
    )
    text = " ".join(["w0", *["w1"] * (length - 1)])
    assert certifier([text], [1])[0].holds == (True,)
