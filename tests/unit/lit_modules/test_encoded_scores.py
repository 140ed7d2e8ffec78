"""An encoder behind an encoding, plus scores: certificates by brute force over raw strings."""

from itertools import combinations, pairwise, product
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.nn.functional import cross_entropy

from certify.encoding.word_clusters import cluster_words
from certify.threats import Substitutions, Synonyms, Typos
from certify.words.score_certifiers import ScoreModel, SynonymCertifier
from layers.ngram_scores import ScoreSum
from lit_modules import EncodedScores, EncoderSettings, WordRobustness, WordScores, load
from lit_modules.checkpoints.reading import CheckpointError
from lit_modules.shared.detection import Detector, detection_scores
from lit_modules.shared.word_robustness import WordOptions
from tests.unit.certify.words.test_substitutions import FRONT, KS, Listed, Phrases, typos
from tests.unit.lit_modules.builders import loader, trainer
from tests.unit.lit_modules.encoders import BERT
from text import Batch, Text, WordTokenizer

CORPUS: list[Text] = [
    "good bat film",
    "god go bad",
    "a bat at film",
    "dont go at bad",
    "good film well",
]
TEXTS = ["good bat", "a gud film", "don't go", "zz god at"]
PAIRS = {"bat": "bad", "god": "good", "go": "good", "at": "a"}


def built(seed: int = 0, **settings: Any) -> EncodedScores:
    torch.manual_seed(seed)
    module = EncodedScores(
        backbone=EncoderSettings(architecture=dict(BERT), vocab_size=120),
        words=FRONT,
        max_length=16,
        **settings,
    )
    module.attach(module.build_tokenizer(CORPUS), ["no", "perhaps", "yes"])
    module.configure_model()
    return module.eval()


def random_model(
    seed: int, *, encoder: float = 1.0, scores: float = 1.0, bound: float | None = None
) -> EncodedScores:
    """Clusters of some words, and logits of both parts of about the same size."""
    module = built(seed, bound=bound)
    network, (tokenizer, _) = module.network, module.require_text()
    assert isinstance(tokenizer, WordTokenizer)
    forms = network.forms.clone()
    for word, other in PAIRS.items():
        (forms[tokenizer.vocabulary[word]],) = tokenizer.ids([other])
    with torch.no_grad():
        network.set_words(network.pieces.clone(), forms, int(network.start))
        for parameter in network.encoder.parameters():
            if parameter.ndim > 1:
                parameter.mul_(6)
        network.encoder.projection.weight.mul_(4 * encoder)
        network.encoder.projection.bias.zero_()
        drawn = torch.randint(-8, 9, network.scores.words.shape)
        network.scores.words.copy_(drawn / 8 * scores)
    return module


@pytest.mark.long
@pytest.mark.parametrize(
    ("kind", "bound"), [("typos", None), ("typos", 0.5), ("both", None), ("both", 0.5)]
)
def test_certificates_equal_brute_force(kind: str, bound: float | None) -> None:
    lists = Listed()
    sets = (Typos(FRONT), lists) if kind == "both" else (Typos(FRONT),)
    threat = Substitutions(words=FRONT, sets=sets)
    held = failed = unlisted = 0
    for seed in range(3):
        module = random_model(seed, bound=bound)
        short = module.listed_certifier(threat, 1)(TEXTS, KS)
        copy = module.exact_copy().to(torch.float64)
        tokenizer = copy.require_tokenizer()
        assert isinstance(tokenizer, WordTokenizer)
        certified = module.text_certifier(threat)(TEXTS, KS)
        for text, found, least in zip(TEXTS, certified, short, strict=True):
            surfaces = threat.split(text)
            choices = []
            for surface, word in zip(surfaces, tokenizer.splitter.read(surfaces), strict=True):
                new = {*(typos(word, splits=False) - {word})}
                new |= {*lists.replacements(surface)} if kind == "both" else set()
                distinct = {tokenizer.ids([one])[0]: one for one in sorted(new)}
                choices.append([surface, *distinct.values()])
            verdicts = []
            for k in KS:
                size = len(choices) if k is None else min(k, len(choices))
                reached = {
                    " ".join(words)
                    for places in combinations(range(len(choices)), size)
                    for words in product(
                        *(c if i in places else c[:1] for i, c in enumerate(choices))
                    )
                }
                answers = copy.predict_texts(sorted(reached)).argmax(dim=1)
                verdicts.append(bool((answers == found.prediction).all()))
            assert found.kind == "exact"
            assert list(found.holds) == verdicts, text
            # Without a list only the bound certifies, and never too much.
            assert all(a <= b for a, b in zip(least.holds, verdicts, strict=True)), text
            unlisted += sum(least.holds[1:])
            held, failed = held + sum(verdicts[1:]), failed + (False in verdicts)
            if found.witness is not None:
                assert threat.at(KS[verdicts.index(False)]).contains(text, found.witness)
                prediction = int(copy.predict_texts([found.witness]).argmax())
                assert prediction == found.witness_prediction != found.prediction
    assert held > 0
    assert failed > 0
    assert (unlisted > 0) == (bound is not None)


@pytest.mark.parametrize("bound", [0.01, 1.0, 8.0])
def test_the_encoder_keeps_its_bound(bound: float) -> None:
    free, bounded = random_model(2, encoder=50.0), random_model(2, encoder=50.0, bound=bound)
    batch = free.encode_texts(TEXTS)
    logits, less = (m.network.encode(m.embed(batch), batch.mask) for m in (free, bounded))
    assert bool((logits.amax(1) - logits.amin(1) > 8).all())
    assert bool((less.amax(1) - less.amin(1) <= bound * (1 + 1e-6)).all())
    assert torch.equal(logits.argsort(dim=1), less.argsort(dim=1))
    # Far below the bound nothing changes.
    wide = random_model(2, bound=1e4)
    narrow = wide.network.encode(wide.embed(batch), batch.mask)
    other = random_model(2).network.encode(random_model(2).embed(batch), batch.mask)
    least = other.amin(dim=1, keepdim=True)
    assert torch.allclose(narrow, other - least, rtol=1e-4, atol=1e-5)
    # A number that all logits share changes nothing, however large.
    shifted = bounded.network.limit(logits.double() + 1e9)
    assert bool((shifted.amax(1) - shifted.amin(1) <= bound).all())


def trained_scores(path: Path, **settings: Any) -> WordScores:
    """Write the checkpoint of a `WordScores` with random scores."""
    names = settings.pop("class_names", ["no", "perhaps", "yes"])
    kept: dict[str, Any] = {"words": FRONT, "max_length": 16} | settings
    module = WordScores(**kept)
    module.attach(module.build_tokenizer(CORPUS), names)
    module.configure_model()
    assert module.scores is not None
    with torch.no_grad():
        module.scores.words.copy_(torch.randint(-8, 9, module.scores.words.shape) / 8)
    fitting = trainer(max_epochs=0)
    batches = loader(module, CORPUS, 2)
    fitting.fit(module, batches, batches)
    fitting.save_checkpoint(path)
    return module.eval()


def begun(path: Path, **settings: Any) -> EncodedScores:
    module = EncodedScores(
        backbone=EncoderSettings(architecture=dict(BERT), vocab_size=120),
        words=FRONT,
        max_length=16,
        init_from=str(path),
        **settings,
    )
    module.attach(module.build_tokenizer(CORPUS[:1]), ["no", "perhaps", "yes"])
    module.configure_model()
    return module.eval()


def test_it_begins_with_the_scores_of_a_checkpoint(tmp_path: Path) -> None:
    path = tmp_path / "scores.ckpt"
    scores = trained_scores(path)
    module = begun(path, score_rate=0.0, robustness=WordRobustness(against="typos"))
    own, other = module.require_tokenizer(), scores.require_tokenizer()
    assert isinstance(own, WordTokenizer)
    assert isinstance(other, WordTokenizer)
    size = other.vocab_size
    assert own.vocabulary.get_itos()[:size] == other.vocabulary.get_itos()
    with torch.no_grad():
        module.network.encoder.projection.weight.zero_()
        module.network.encoder.projection.bias.zero_()
    assert torch.allclose(module.predict_texts(TEXTS).double(), scores.predict_texts(TEXTS))
    before = module.network.scores.words.clone()
    fitting = trainer(max_epochs=1)
    batches = loader(module, CORPUS, 2)
    fitting.fit(module.train(), batches, batches)
    assert torch.equal(before, module.network.scores.words)
    assert bool(module.network.encoder.projection.weight.any())
    # The file is read once: a checkpoint has the scores.
    fitting.save_checkpoint(tmp_path / "a.ckpt")
    path.unlink()
    again = load(tmp_path / "a.ckpt")
    assert torch.equal(again.predict_texts(TEXTS), module.eval().predict_texts(TEXTS))


@pytest.mark.parametrize(
    ("stored", "message"),
    [
        ({"window": 2}, "expected WordScores with window=1 and bias=false"),
        ({"bias": True}, "expected WordScores with window=1 and bias=false"),
        ({"normalised": False}, "got normalised=True .* of normalised=False"),
        ({"max_length": 12}, "got max_length=16 .* of max_length=12"),
        ({"class_names": ["a", "b", "c"]}, "the classes a, b, c, expected .* no, perhaps, yes"),
    ],
)
def test_scores_that_do_not_fit_are_refused(
    stored: dict[str, Any], message: str, tmp_path: Path
) -> None:
    trained_scores(tmp_path / "scores.ckpt", **stored)
    with pytest.raises(CheckpointError, match=message):
        begun(tmp_path / "scores.ckpt")


@pytest.mark.parametrize("seed", range(3))
def test_without_encoder_certificates_are_those_of_scores(seed: int) -> None:
    module = random_model(seed, encoder=0.0)
    tokenizer = module.require_tokenizer()
    assert isinstance(tokenizer, WordTokenizer)
    threat = Substitutions(words=FRONT, sets=(Typos(FRONT), Listed()))
    exact = module.exact_copy()
    assert isinstance(exact, EncodedScores)
    scores = exact.network.scores.keep()
    additive = SynonymCertifier(ScoreModel(scores, tokenizer, ScoreSum()), threat)
    ks = (0, 1, 2, 3)
    both = zip(module.text_certifier(threat)(TEXTS, ks), additive(TEXTS, ks), strict=True)
    for found, other in both:
        assert (found.prediction, found.holds) == (other.prediction, other.holds)
    # Scores that lead by more than a bound near 0 need no list.
    bounded = random_model(seed, encoder=0.0, bound=1e-6)
    both = zip(bounded.listed_certifier(threat, 1)(TEXTS, ks), additive(TEXTS, ks), strict=True)
    for found, other in both:
        assert (found.prediction, found.holds) == (other.prediction, other.holds)


@pytest.mark.long
def test_without_scores_words_of_a_cluster_are_one_input() -> None:
    module = random_model(0, scores=0.0)
    for text in ("god bat", "good bad", "go bat"):
        assert torch.equal(module.predict_texts([text]), module.predict_texts(["good bad"]))
    threat = Substitutions(words=FRONT, sets=(Typos(FRONT),))
    clusters = module.listed_certifier(threat, 10**4)(TEXTS, (1, 2))
    module.network.forms.copy_(torch.arange(len(module.network.forms)))
    words = module.listed_certifier(threat, 10**4)(TEXTS, (1, 2))
    assert [(c.prediction, c.holds) for c in clusters] == [(c.prediction, c.holds) for c in words]
    assert sum(c.passes or 0 for c in clusters) < sum(c.passes or 0 for c in words)


@pytest.mark.long
def test_certificates_read_scores_and_encoder_in_double_precision() -> None:
    module = random_model(0)
    network = module.network
    with torch.no_grad():
        network.scores.words.normal_()
        scores = module.listed_model().scores
        assert scores is not None
        assert torch.equal(scores, network.scores.word_table().double())
        network.scores.words.zero_()
        # Logits 1, -1 and 1 + 2^-30: a tie in single precision, won by the first class.
        projection, width = network.encoder.projection, BERT["hidden_size"]
        projection.weight.zero_()
        projection.bias.zero_()
        batch = module.encode_texts(["good"])
        pooled = []
        for unit in range(width):
            projection.weight[2] = torch.arange(width) == unit
            pooled.append(float(network(module.embed(batch), batch.mask)[0, 2]))
        vector = torch.tensor(pooled)
        projection.weight[2] = vector / vector.square().sum() * 2**-30
        projection.bias.copy_(torch.tensor([1.0, -1.0, 1.0]))
    assert int(module.predict_texts(["good"]).argmax()) == 0
    threat = Substitutions(words=FRONT, sets=(Typos(FRONT),))
    assert module.text_certifier(threat)(["good"], (0,))[0].prediction == 2


@pytest.mark.parametrize("fidelity", [0.0, 0.5, 0.7])
def test_clusters_are_those_of_the_words_of_the_corpus(fidelity: float) -> None:
    module = built(fidelity=fidelity, robustness=WordRobustness(against="typos"))
    # The first word of the vocabulary is in a cluster, too.
    tokenizer = module.build_tokenizer([*CORPUS, "at at"])
    assert isinstance(tokenizer, WordTokenizer)
    assert module.pieces is not None
    words = tokenizer.vocabulary.words()
    names = tokenizer.vocabulary.get_itos()
    # The corrector reads typos as words.
    read = {w: {names[tokenizer.ids([one])[0]] for one in typos(w, splits=False)} for w in words}
    lists = {word: sorted({*words} & read[word]) for word in words}
    encoding = cluster_words(
        Synonyms(lists=lists, texts={}, words=tokenizer.splitter.settings),
        {word: tokenizer.vocabulary.count(word) for word in words},
        fidelity,
    )
    assert encoding.representatives
    for word in words:
        (index,), (form,) = (
            tokenizer.ids([one]) for one in (word, encoding.representatives.get(word, word))
        )
        assert module.pieces[1][index] == form


def test_beyond_the_limit_nothing_is_certified() -> None:
    module = random_model(0)
    threat = Substitutions(words=FRONT, sets=(Typos(FRONT),))
    (found,) = module.listed_certifier(threat, 1)(["good bat"], (0, 1))
    assert found.kind == "lower bound"
    assert found.holds == (True, False)
    with pytest.raises(ValueError, match="a word may become two or none"):
        module.listed_certifier(Substitutions(words=FRONT, sets=(Phrases(),)), 9)


def test_training_meets_the_worst_words_of_the_clusters() -> None:
    module = random_model(1)
    tokenizer = module.require_tokenizer()
    assert isinstance(tokenizer, WordTokenizer)
    threat = Substitutions(words=FRONT, sets=(Typos(FRONT),))
    module.options = WordOptions.of(threat, tokenizer)
    module.scored = module.options.within(module.network.forms)
    batch = module.encode_texts(["good bat a", "film"])
    labels = torch.tensor([1, 2])
    encoded = module.network.encode(module.embed(batch), batch.mask)
    leads = module._worst_leads(batch, encoded, labels, torch.ones(2, 1))
    for row, label in enumerate(labels.tolist()):
        ids = batch.input_ids[row][batch.mask[row]].tolist()
        choices = []
        for index in ids:
            reach = threat.reach([tokenizer.vocabulary.lookup_token(index)], tokenizer).ids[:, 0]
            same = module.network.forms[reach] == module.network.forms[index]
            choices.append(reach[same].tolist())
        texts = torch.tensor([*product(*choices)])
        logits = module.network(module.network.embed(texts), torch.ones_like(texts).bool())
        least = (logits - logits[:, label : label + 1]).amax(dim=0)
        assert torch.allclose(leads[row].double(), least.double(), atol=1e-5)
    assert len(leads) == 2


def test_with_a_bound_training_meets_the_worst_words_of_the_whole_sets() -> None:
    module = random_model(1, bound=1.0)
    fitted = built(bound=1.0, robustness=WordRobustness(against="typos", kappa=1.0), draws=0)
    fitted.network.load_state_dict(module.network.state_dict())
    batches = loader(fitted, CORPUS, 2)
    trainer(max_epochs=0).fit(fitted, batches, batches)
    fitted.on_fit_start()
    assert fitted.scored is fitted.options is not None


def test_a_random_text_does_not_depend_on_its_batch() -> None:
    module = built(swaps=0.5)
    tokenizer = module.require_tokenizer()
    assert isinstance(tokenizer, WordTokenizer)
    module.options = WordOptions.of(Substitutions(words=FRONT, sets=(Typos(FRONT),)), tokenizer)
    batch, alone = module.encode_texts(["film", CORPUS[2]]), module.encode_texts([CORPUS[2]])
    batch.sample_ids, alone.sample_ids = torch.tensor([7, 5]), torch.tensor([5])
    texts = []
    for draw in range(2):
        text = module._random_text(alone, draw)
        assert torch.equal(module._random_text(batch, draw).input_ids[1:], text.input_ids)
        texts.append(text.input_ids[0].tolist())
    assert texts[0] != texts[1]
    reach = module.options
    for read in texts:
        for old, new in zip(alone.input_ids[0].tolist(), read, strict=True):
            first, last = reach.starts[old : old + 2].tolist()
            assert new == old or new in reach.ids[first:last, 0].tolist()


@pytest.mark.parametrize("share", [0.0, 0.5, 1.0])
def test_scores_are_left_out_of_a_share_of_the_texts(share: float) -> None:
    module = built(score_dropout=share)
    batch = module.encode_texts(["film"] * 400)
    batch.sample_ids = torch.arange(400)
    kept = module._kept_scores(batch)
    assert kept.shape == (400, 1)
    assert set(kept.flatten().tolist()) <= {0.0, 1.0}
    assert abs(float(kept.mean()) - (1 - share)) < 0.1  # 4 standard errors
    few = module.encode_texts(["film"] * 3)
    few.sample_ids = torch.tensor([7, 300, 2])
    assert torch.equal(module._kept_scores(few), kept[few.sample_ids])


def test_left_out_scores_are_independent_of_the_random_texts() -> None:
    module = built(score_dropout=0.5, draws=1, swaps=0.5)
    tokenizer = module.require_tokenizer()
    assert isinstance(tokenizer, WordTokenizer)
    module.options = WordOptions.of(Substitutions(words=FRONT, sets=(Typos(FRONT),)), tokenizer)
    batch = module.encode_texts(["bat"] * 2000)
    batch.sample_ids = torch.arange(2000)
    drawn = module._random_text(batch, 0).input_ids[:, 0].float()
    pair = torch.stack([drawn, module._kept_scores(batch)[:, 0]])
    assert abs(float(pair.corrcoef()[0, 1])) < 0.1  # 4 standard errors


@pytest.mark.parametrize("share", [0.0, 1.0])
def test_the_worst_of_the_random_texts_is_that_of_the_trained_sum(share: float) -> None:
    """The encoder alone says which text is worst if the loss leaves out the scores."""
    module = random_model(4, bound=1.0)
    module.score_dropout, module.draws, module.swaps = share, 4, 0.6
    tokenizer = module.require_tokenizer()
    assert isinstance(tokenizer, WordTokenizer)
    module.options = WordOptions.of(Substitutions(words=FRONT, sets=(Typos(FRONT),)), tokenizer)
    network = module.network
    batch = module.encode_texts(CORPUS)
    batch.sample_ids, batch.labels = torch.arange(5), torch.tensor([0, 1, 2, 0, 1])
    kept = module._kept_scores(batch)
    best, encoded = module._draw(batch, module._training_sum(batch, kept), kept)
    texts = [module._random_text(batch, draw) for draw in range(4)]
    read = [module.embed(text) for text in texts]
    if share == 0:
        logits = [network(x, batch.mask) for x in read]
    else:
        logits = [network.encode_freely(x, batch.mask) for x in read]
    losses = torch.stack([cross_entropy(row, batch.labels, reduction="none") for row in logits])
    for row, draw in enumerate(losses.argmax(dim=0).tolist()):
        assert torch.equal(best.input_ids[row], texts[draw].input_ids[row])
        own = network.encode if share == 0 else network.encode_freely
        assert torch.allclose(encoded[row], own(read[draw], batch.mask)[row], atol=1e-5)
    assert len(set(losses.argmax(dim=0).tolist())) > 1


def with_options(texts: list[str]) -> tuple[EncodedScores, Batch]:
    """Return a model that replaces all words by gradients, and a batch of these texts."""
    module = random_model(4)
    module.replacement, module.draws, module.swaps = "gradient", 1, 1.0
    tokenizer = module.require_tokenizer()
    assert isinstance(tokenizer, WordTokenizer)
    module.options = WordOptions.of(Substitutions(words=FRONT, sets=(Typos(FRONT),)), tokenizer)
    batch = module.encode_texts(texts)
    batch.sample_ids = torch.arange(len(texts))
    batch.labels = torch.arange(len(texts)) % 3
    return module, batch


@pytest.mark.parametrize("scale", [4.0, -1.0])
def test_replaced_words_follow_the_gradient(scale: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """Position by position, the result with the largest first-order gain of the encoder's loss.

    The gradient is that of the loss as mixed precision scales it: below 0, all gains turn round.
    """
    monkeypatch.setattr(EncodedScores, "loss_scale", scale)
    module, batch = with_options(["good bat film", "zz at", "go"])
    options = module.options
    assert options is not None
    assert batch.labels is not None
    kept = torch.ones(3, 1)
    clean = module._training_sum(batch, kept)
    best, _ = module._draw(batch, clean, kept)
    loss = cross_entropy(clean.logits, batch.labels, reduction="sum")
    (gradient,) = torch.autograd.grad(loss, clean.x)
    changed = 0
    for row, column in batch.mask.nonzero().tolist():
        old = int(batch.input_ids[row, column])
        first, last = options.starts[old : old + 2].tolist()
        results = options.ids[first:last, 0]
        vectors = module.network.embed(results[None])[0, :, 3:]
        gains = scale * (vectors @ gradient[row, column, 3:])
        assert int(best.input_ids[row, column]) == int(results[gains.argmax()])
        changed += int(best.input_ids[row, column]) != old
    assert changed > 0
    assert torch.equal(best.input_ids[~batch.mask], batch.input_ids[~batch.mask])


def test_an_overflow_of_the_gradient_leaves_words_of_the_sets(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Mixed precision begins with a scale that is too large, and its first gradients are NaN."""
    monkeypatch.setattr(EncodedScores, "loss_scale", torch.inf)
    module, batch = with_options(["good bat film", "zz at", "go"])
    options, kept = module.options, torch.ones(3, 1)
    assert options is not None
    best, _ = module._draw(batch, module._training_sum(batch, kept), kept)
    for row, column in batch.mask.nonzero().tolist():
        first, last = options.starts[int(batch.input_ids[row, column]) :][:2].tolist()
        assert int(best.input_ids[row, column]) in options.ids[first:last, 0]


def test_the_gradient_of_the_words_does_not_train() -> None:
    """Both rules train the same weights if no word is replaced."""
    trained = []
    for replacement in ("gradient", "random"):
        module = built(
            robustness=WordRobustness(against="typos", kappa=0.5),
            replacement=replacement,
            swaps=0.0,
        )
        batches = loader(module, CORPUS, 2)
        trainer(max_epochs=1).fit(module.train(), batches, batches)
        trained.append([*module.state_dict().values()])
    assert all(map(torch.equal, *trained))


def test_left_out_scores_do_not_learn() -> None:
    module = built(score_dropout=1.0, robustness=WordRobustness(against="typos", kappa=0.5))
    before = module.network.scores.words.clone()
    weights = module.network.encoder.projection.weight.clone()
    fitting = trainer(max_epochs=1)
    batches = loader(module, CORPUS, 2)
    fitting.fit(module.train(), batches, batches)
    assert torch.equal(before, module.network.scores.words)
    assert not torch.equal(weights, module.network.encoder.projection.weight)


@pytest.mark.long
def test_a_fit_learns_clusters_and_a_checkpoint_has_them(tmp_path: Path) -> None:
    module = built(
        fidelity=0.7, robustness=WordRobustness(against="typos", kappa=0.5), draws=2, swaps=0.5
    )
    assert module.network.forms.tolist() != list(range(len(module.network.forms)))
    before = module.network.scores.words.clone()
    fitting = trainer(max_epochs=2)
    batches = loader(module, CORPUS, 2)
    fitting.fit(module.train(), batches, batches)
    assert not torch.equal(before, module.network.scores.words)
    # Training changes words inside their clusters alone.
    forms, cluster, options = module.network.forms, module.scored, module.options
    assert cluster is not None
    assert options is not None
    for word, (first, last) in enumerate(pairwise(cluster.starts.tolist())):
        assert (forms[cluster.ids[first:last, 0]] == forms[word]).all()
    assert len(cluster.ids) < len(options.ids)
    fitting.save_checkpoint(tmp_path / "a.ckpt")
    again = load(tmp_path / "a.ckpt")
    assert isinstance(again, EncodedScores)
    assert torch.equal(again.network.forms, module.network.forms)
    assert torch.equal(again.predict_texts(TEXTS), module.eval().predict_texts(TEXTS))
    threat = Substitutions(words=FRONT, sets=(Typos(FRONT),))
    assert again.text_certifier(threat)(TEXTS, (1,)) == module.text_certifier(threat)(TEXTS, (1,))


def test_the_threshold_of_a_detector_is_subtracted_from_its_score() -> None:
    module = random_model(3)
    before = detection_scores(module.predict_texts(TEXTS), 2)
    record = Detector("yes", threshold=1.5, false_alarms=0, recall=1, negatives=1, positives=1)
    module.fold(record)
    after = detection_scores(module.predict_texts(TEXTS), 2)
    torch.testing.assert_close(after, before - 1.5)


def test_a_bounded_encoder_has_no_bias_for_a_threshold() -> None:
    """Its bias is within the bound: a threshold in it would move the score by less."""
    module = random_model(3, bound=1.0)
    assert module.output_layer is None
    with pytest.raises(ValueError, match=r"got bound=1\.0 for a detector .*--model.bound null"):
        module.output_bias()


def test_settings_that_do_not_fit_are_refused() -> None:
    long = EncodedScores(
        backbone=EncoderSettings(architecture=dict(BERT), vocab_size=120), max_length=64
    )
    tokenizer = long.build_tokenizer(CORPUS)
    long.attach(tokenizer, ["no", "yes"])
    with pytest.raises(ValueError, match=r"max_length=65, expected at most .* 64 tokens"):
        long.configure_model()
    with pytest.raises(ValueError, match="against=characters"):
        EncodedScores(
            backbone=EncoderSettings(architecture=dict(BERT)),
            robustness=WordRobustness(against="characters"),
        )
