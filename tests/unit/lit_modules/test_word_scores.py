"""WordScores: its training for the worst text, its checkpoints, its certificates."""

import json
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import pytest
import pytorch_lightning as pl
import torch
from torch import Tensor
from torch.nn.functional import cross_entropy
from torch.utils.data import DataLoader

from certify.threats import L2, Characters, Synonyms, WordEditDistance
from layers.window_net import WindowNetSettings
from lit_modules import WordRobustness, WordScores
from lit_modules.shared.answered_texts import AnsweredTexts
from lit_modules.shared.weight_schedule import CONSTANT
from lit_modules.shared.word_robustness import near_words, worst_texts
from text import Batch, WordSettings, WordTokenizer, collate

TEXTS = ["a good film", "not a good film", "a bad film", "not a bad film", "good", "bad"] * 3
LABELS = [1, 0, 0, 1, 1, 0] * 3
LISTS = {"good": ["fine", "nice"], "bad": ["poor"], "film": ["movie"]}


@pytest.fixture
def lists(tmp_path: Path) -> str:
    path = tmp_path / "lists.json"
    path.write_text(json.dumps(LISTS))
    return str(path)


def made(lists: str | None = None, **settings: Any) -> WordScores:
    torch.manual_seed(0)
    robustness = WordRobustness(against="synonyms", lists=lists) if lists else WordRobustness()
    module = WordScores(**{"robustness": robustness, "min_ngram_count": 2, **settings})
    module.attach(module.build_tokenizer(TEXTS), ["negative", "positive"])
    module.configure_model()
    return module


def batch(module: WordScores) -> Batch:
    return collate(module.require_tokenizer().encode(TEXTS), pad_id=0, labels=LABELS)


def trained(module: WordScores, folder: Path, epochs: int = 30, **settings: Any) -> WordScores:
    data: Any = DataLoader(range(2), batch_size=1, collate_fn=lambda _: batch(module))  # type: ignore[arg-type] # has a length and places
    trainer = pl.Trainer(
        max_epochs=epochs,
        accelerator="cpu",
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        default_root_dir=folder,
        **settings,
    )
    trainer.fit(module, data, data)
    return module.eval()


def optimisation() -> Any:
    from lit_modules import Optimisation

    return Optimisation(optimizer=lambda p: torch.optim.Adam(p, lr=0.1), decay="linear")


@pytest.mark.long
def test_a_window_reads_the_order_of_words(tmp_path: Path) -> None:
    right = {}
    for window in (1, 3):
        module = trained(made(window=window, optimisation=optimisation()), tmp_path)
        answers = module.predict_texts(TEXTS).argmax(dim=1).tolist()
        right[window] = sum(a == b for a, b in zip(answers, LABELS, strict=True)) / len(LABELS)
    assert right[1] < 1
    assert right[3] == 1


def test_a_bias_learns_how_frequent_the_classes_are(tmp_path: Path) -> None:
    module = trained(made(bias=True, optimisation=optimisation()), tmp_path, epochs=3)
    bias = module.state_dict()["network.bias"]
    assert bool((bias != 0).all())
    # The text of one unknown word has no other evidence; its logits are on the grid of exact sums.
    logits = module.predict_texts(["unheard"])[0].double()
    torch.testing.assert_close(logits, bias.double(), atol=2.0**-21, rtol=0)
    again = saved(module, tmp_path)
    assert torch.equal(again.predict_texts(TEXTS), module.predict_texts(TEXTS))
    assert made().state_dict().keys() == made(bias=True).state_dict().keys() - {"network.bias"}


@pytest.mark.long
def test_training_for_the_worst_text_certifies(lists: str, tmp_path: Path) -> None:
    threat = Synonyms.of(LISTS)
    held = []
    for words in (None, lists):
        module = made(words, window=3, optimisation=optimisation(), min_ngram_count=1)
        certificates = trained(module, tmp_path).text_certifier(threat)(TEXTS[:6], [None])
        held.append(sum(certificate.holds[0] for certificate in certificates))
    assert held[0] < held[1]


@pytest.mark.parametrize("window", [1, 2])
@pytest.mark.parametrize("k", [None, 1])
def test_the_worst_text_of_training_is_the_worst(lists: str, window: int, k: int | None) -> None:
    module = made(lists, window=window)
    assert module.scores is not None
    with torch.no_grad():
        for parameter in module.scores.parameters():
            parameter.normal_()
    tokenizer = module.require_tokenizer()
    table = module.robustness.table(tokenizer)  # type: ignore[arg-type] # of words
    examples = batch(module)
    texts = worst_texts(module.scores, table[examples.input_ids], torch.tensor(LABELS), k)
    threat = Synonyms.of(LISTS, k=k)
    for row, (text, label) in enumerate(zip(TEXTS[:6], LABELS, strict=False)):
        inside = [" ".join(words) for words in product(*threat.candidates(text))]
        inside = [other for other in inside if threat.contains(text, other)]
        rows = collate(tokenizer.encode(inside), pad_id=0)
        logits = module(rows)
        least = (logits[:, label] - logits[:, 1 - label]).min()
        ids = texts[row, 0][examples.mask[row]].unsqueeze(0)
        reached = module.scores(ids)[0].sum(dim=0) / ids.shape[1] ** 0.5
        torch.testing.assert_close(reached[label] - reached[1 - label], least)


KNOWN = ["a good film", "not a god film", "go d no t bad fil m ago", "an x bed oo"]


def edited(k: int | None = 1) -> WordScores:
    """Scores at random, for words that an edit splits or turns into another."""
    robustness = WordRobustness(against="characters", splits=True, candidates=99, k=k)
    ascii_words = WordSettings(split="ascii")
    module = WordScores(robustness=robustness, normalised=False, words=ascii_words)
    module.attach(module.build_tokenizer(KNOWN), ["negative", "neutral", "positive"])
    module.configure_model()
    assert module.scores is not None
    with torch.no_grad():
        module.scores.words.normal_()
    return module


def one_edit_away(text: str) -> set[str]:
    letters = "abdefgilmnotx "
    halves = [(text[:at], text[at:]) for at in range(len(text) + 1)]
    variants = {text, *(a + b[1:] for a, b in halves)}
    return variants | {a + c + b[cut:] for a, b in halves for c in letters for cut in (0, 1)}


@pytest.mark.parametrize("seed", range(8))
def test_the_worst_edit_of_training_is_the_worst(seed: int) -> None:
    torch.manual_seed(seed)
    module = edited()
    tokenizer = module.require_tokenizer()
    # A letter can stand in the place of the full stop; each two words can be joined.
    texts = ["a good film .", "not bad .", "ago no bed film .", "an unheard film ."]
    examples, labels = collate(tokenizer.encode(texts), pad_id=0), torch.tensor([0, 1, 2, 1])
    module.edits = module.robustness.edits(tokenizer)  # type: ignore[arg-type] # of words
    with torch.no_grad():
        leads = module._worst_leads(examples, examples.input_ids.unsqueeze(2), labels)
        for row, text in enumerate(texts):
            neighbours = collate(tokenizer.encode(sorted(one_edit_away(text))), pad_id=0)
            logits = module(neighbours)
            most = (logits - logits[:, labels[row]].unsqueeze(1)).amax(dim=0)
            torch.testing.assert_close(leads[row], most)


def test_more_edits_never_help() -> None:
    worst = []
    for k in (1, 2, 3, None):
        torch.manual_seed(0)
        module = edited(k)
        tokenizer = module.require_tokenizer()
        examples = collate(tokenizer.encode(["a good film", "not bad , a bed"]), pad_id=0)
        module.edits = module.robustness.edits(tokenizer)  # type: ignore[arg-type] # of words
        labels = torch.tensor([0, 2])
        with torch.no_grad():
            worst.append(module._worst_leads(examples, examples.input_ids.unsqueeze(2), labels))
    assert (worst[0] <= worst[1]).all()
    assert (worst[1] <= worst[2]).all()
    assert (worst[3] >= 0).all()


@pytest.mark.long
def test_training_for_all_edits(tmp_path: Path) -> None:
    robustness = WordRobustness(against="characters", splits=True, k=2)
    module = trained(made(robustness=robustness, optimisation=optimisation()), tmp_path)
    assert module.edits is not None
    assert module(batch(module)).argmax(dim=1).tolist()[4:6] == [1, 0]


@pytest.mark.long
@pytest.mark.parametrize("search", ["paths", "intervals"])
def test_a_net_over_windows_is_trained_for_the_worst_text(
    lists: str, tmp_path: Path, search: Any
) -> None:
    robustness = WordRobustness(against="synonyms", lists=lists, search=search)
    net = WindowNetSettings(hidden=8, width=6)
    module = made(lists, window=3, net=net, robustness=robustness, optimisation=optimisation())
    assert module.scores is not None
    examples, labels = batch(module), torch.tensor(LABELS)
    places = robustness.table(module.require_tokenizer())[examples.input_ids]  # type: ignore[arg-type] # of words
    exact = replace(robustness, search="paths")
    with torch.no_grad():
        leads = module._worst_leads(examples, places, labels)
        module.robustness = exact
        least = module._worst_leads(examples, places, labels)
        module.robustness = robustness
    # Intervals are never less severe than the worst text.
    assert (leads >= least - 1e-6).all()
    certified = trained(module, tmp_path).text_certifier(Synonyms.of(LISTS))(TEXTS[:6], [None])
    assert [certificate.prediction for certificate in certified] == LABELS[:6]
    assert all(certificate.holds[0] for certificate in certified)
    again = saved(module, tmp_path)
    assert torch.equal(again.predict_texts(TEXTS), module.predict_texts(TEXTS))
    assert again.text_certifier(Synonyms.of(LISTS))(TEXTS[:6], [None]) == certified


def saved(module: WordScores, folder: Path) -> WordScores:
    from lit_modules import load

    trainer = pl.Trainer(accelerator="cpu", logger=False, enable_checkpointing=False)
    trainer.strategy.connect(module)
    trainer.save_checkpoint(folder / "a.ckpt")
    again = load(folder / "a.ckpt")
    assert isinstance(again, WordScores)
    return again


@pytest.mark.long
def test_character_ngrams_and_vectors(tmp_path: Path) -> None:
    """A word that training never has gets the score of those it is spelt like, or lies near."""
    vectors = tmp_path / "vectors.txt"
    rows = {"good": (1, 0), "goodness": (0.9, 0), "bad": (-1, 0), "film": (0, 1), "a": (0, 0.5)}
    vectors.write_text("".join(f"{word} {x} {y}\n" for word, (x, y) in rows.items()))
    lists = tmp_path / "lists.json"
    lists.write_text('{"good": ["goodness"]}')
    given: list[dict[str, Any]] = [
        {"spelling": 1000},
        {"vectors": str(vectors), "vector_width": 2},
        {
            "vectors": str(vectors),
            "vector_width": 2,
            "window": 2,
            "net": WindowNetSettings(hidden=4),
        },
        {},
    ]
    leads = []
    for settings in given:
        robustness = WordRobustness(against="synonyms", lists=str(lists), kappa=0.0)
        module = trained(
            made(str(lists), robustness=robustness, optimisation=optimisation(), **settings),
            tmp_path,
            epochs=10,
        )
        (logits,) = module.predict_texts(["goodness"])
        leads.append(float(logits[1] - logits[0]))
        again = saved(module, tmp_path)
        assert torch.equal(again.predict_texts(TEXTS), module.predict_texts(TEXTS))
        threat = Synonyms.of({"good": ["goodness", "bad"]})
        (found,) = again.text_certifier(threat)(["a good film"], [1])
        assert found.holds == (False,)
    assert min(leads[:3]) > 0.1
    assert leads[3] == 0


def test_the_loss_mixes_clean_and_worst_texts(lists: str) -> None:
    module = made(lists)
    module.candidates = module.robustness.table(module.require_tokenizer())  # type: ignore[arg-type] # of words
    assert module.scores is not None
    with torch.no_grad():
        module.scores.words.normal_()
    examples, labels = batch(module), torch.tensor(LABELS)
    logits = module(examples)
    loss = module._loss(examples, logits, labels, torch.ones(len(LABELS)))
    worst = module._worst_leads(examples, module.candidates[examples.input_ids], labels)
    assert (worst.gather(1, labels.unsqueeze(1)) == 0).all()
    own = logits.gather(1, labels.unsqueeze(1))
    assert (worst >= logits - own - 1e-6).all()
    expected = (cross_entropy(logits, labels) + cross_entropy(worst, labels)) / 2
    torch.testing.assert_close(loss, expected)
    loss.backward()  # type: ignore[no-untyped-call] # torch leaves it untyped
    assert module.scores.words.grad is not None


def test_kappa_rises() -> None:
    robustness = WordRobustness(against="characters", kappa=0.6)
    assert [robustness.weight(p) for p in (0.0, 0.2, 0.4, 1.0)] == pytest.approx([0, 0.3, 0.6, 0.6])
    constant = WordRobustness(against="characters", schedule=CONSTANT)
    assert constant.weight(0.0) == 0.5


def test_a_capped_hinge() -> None:
    robustness = WordRobustness(against="characters", margin=2.0)
    leads = torch.tensor([[0.0, 1.0, -5.0], [-3.0, 0.0, -2.5]])
    assert robustness.loss(leads, torch.tensor([0, 1])).tolist() == [1.5, 0.0]


def test_listed_words_are_known(lists: str) -> None:
    vocabulary = made(lists).require_tokenizer().vocabulary  # type: ignore[attr-defined] # of words
    assert {"fine", "nice", "poor", "movie"} <= set(vocabulary.get_itos())
    assert "fine" not in made().require_tokenizer().vocabulary  # type: ignore[attr-defined] # of words


def test_words_at_distance_one() -> None:
    words = ["bad", "bed", "bd", "bade", "good", "god", "goods", "n't", "d", "b"]
    near = near_words(words)
    from rapidfuzz.distance import Levenshtein

    for i, word in enumerate(words):
        expected = {j for j, other in enumerate(words) if Levenshtein.distance(word, other) == 1}
        assert near[i] == (expected if word != "n't" else set())


def test_a_checkpoint_has_all_scores(lists: str, tmp_path: Path) -> None:
    from lit_modules import load

    module = made(lists, window=3)
    assert module.scores is not None
    with torch.no_grad():
        for parameter in module.scores.parameters():
            parameter.normal_()
    trainer = pl.Trainer(accelerator="cpu", logger=False, enable_checkpointing=False)
    trainer.strategy.connect(module)
    trainer.save_checkpoint(tmp_path / "a.ckpt")
    Path(lists).unlink()  # is read for training only
    again = load(tmp_path / "a.ckpt")
    module.eval()
    assert torch.equal(again.predict_texts(TEXTS), module.predict_texts(TEXTS))
    threat = Synonyms.of(LISTS)
    arguments = (TEXTS[:6], [1, None])
    assert again.text_certifier(threat)(*arguments) == module.text_certifier(threat)(*arguments)


@pytest.mark.long
def test_answers_of_another_model_are_learnt(tmp_path: Path) -> None:
    path = tmp_path / "answers.jsonl"
    rows = [
        {"text": "superb film", "prediction": "positive", "probability": 1.0},
        {"text": "dire film", "prediction": "negative", "probability": 0.9},
    ] * 20
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    torch.manual_seed(0)
    module = WordScores(unlabelled=str(path), optimisation=optimisation())
    module.attach(module.build_tokenizer([*TEXTS, "superb dire"]), ["negative", "positive"])
    module.configure_model()
    trained(module, tmp_path)
    assert module.further is not None
    assert torch.unique(module.further.certain).tolist() == pytest.approx([0.8, 1.0])
    assert module.predict_texts(["superb", "dire"]).argmax(dim=1).tolist() == [1, 0]
    path.write_text('{"text": "a", "prediction": "neutral", "probability": 0.5}\n')
    with pytest.raises(ValueError, match=r"line 1: 'neutral', expected .* negative, positive"):
        trained(module, tmp_path)


def answered(path: Path, count: int) -> WordScores:
    rows = [
        {"text": f"good {i}", "prediction": "positive", "probability": 0.5 + i / 64}
        for i in range(count)
    ]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return made(unlabelled=str(path))


@pytest.mark.parametrize("accumulate", [1, 2])
def test_an_epoch_has_each_unlabelled_text_once(tmp_path: Path, accumulate: int) -> None:
    module = answered(tmp_path / "answers.jsonl", 8)
    seen: list[float] = []
    loss = module._loss

    def watched(batch: Batch, logits: Tensor, labels: Tensor, weights: Tensor) -> Tensor:
        if len(batch) == 4:  # not the labelled ones
            seen.extend(weights.tolist())
        return loss(batch, logits, labels, weights)

    module._loss = watched  # type: ignore[method-assign] # to look on
    trained(module, tmp_path, epochs=2, accumulate_grad_batches=accumulate)
    assert sorted(seen[:8]) == sorted(seen[8:]) == pytest.approx([i / 32 for i in range(8)])


@pytest.mark.parametrize("count", [1, 4, 7, 12, 24])
@pytest.mark.parametrize("world", [1, 2])
def test_each_epoch_has_all_unlabelled_texts(tmp_path: Path, count: int, world: int) -> None:
    """Also where an epoch has more steps than there are texts."""
    module = answered(tmp_path / "answers.jsonl", count)
    further = AnsweredTexts.read(
        str(tmp_path / "answers.jsonl"), module.require_tokenizer(), ["negative", "positive"]
    )
    for epoch in range(3):
        seen: list[float] = []
        for step in range(7 * epoch, 7 * epoch + 7):
            parts = (further.batch(step, 7, rank=rank, world=world) for rank in range(world))
            seen += [weight for part in parts if part is not None for weight in part[2].tolist()]
        assert sorted(seen) == pytest.approx([i / 32 for i in range(count)])


@pytest.mark.parametrize("count", [1, 7, 8])
def test_processes_share_the_unlabelled_texts_of_a_step(tmp_path: Path, count: int) -> None:
    module = answered(tmp_path / "answers.jsonl", count)
    module.further = AnsweredTexts.read(
        str(tmp_path / "answers.jsonl"), module.require_tokenizer(), ["negative", "positive"]
    )
    for step in range(3):
        whole = module.further.batch(step, 2)
        parts = [module.further.batch(step, 2, rank=rank, world=2) for rank in range(2)]
        assert whole is not None or count < 2
        weights = [weight for part in parts if part is not None for weight in part[2].tolist()]
        assert sorted(weights) == ([] if whole is None else sorted(whole[2].tolist()))


def test_words_of_unlabelled_texts_are_known(tmp_path: Path) -> None:
    path = tmp_path / "answers.jsonl"
    row = {"text": "a stellar film", "prediction": "positive", "probability": 1.0}
    rare = {"text": "abysmal", "prediction": "negative", "probability": 1.0}
    path.write_text("".join(json.dumps(record) + "\n" for record in [*[row] * 5, rare]))

    def found(**settings: Any) -> WordScores:
        module = WordScores(unlabelled=str(path), window=2, min_ngram_count=5, **settings)
        module.attach(module.build_tokenizer(TEXTS), ["negative", "positive"])
        return module

    def words(module: WordScores) -> set[str]:
        tokenizer = module.require_tokenizer()
        assert isinstance(tokenizer, WordTokenizer)
        return set(tokenizer.vocabulary.get_itos())

    without, both = found(), found(min_unlabelled_count=5)
    assert words(both) - words(without) == {"stellar"}
    tokens = both.require_tokenizer()
    ids = tokens.encode(["stellar film"])[0].input_ids
    assert ids in both.ngrams[0].tolist()
    assert words(found(min_unlabelled_count=1)) >= {"stellar", "abysmal"}
    path.write_text("{}\n")
    with pytest.raises(ValueError, match="line 1"):
        found(min_unlabelled_count=1)


def test_who_has_no_certificate() -> None:
    ascii_words = WordSettings(split="ascii")
    with pytest.raises(ValueError, match=r"window=1 has one, expected another setting$"):
        made(window=2).text_certifier(WordEditDistance(k=1))
    with pytest.raises(ValueError, match=r"words\.split=ascii has one"):
        made().text_certifier(Characters(k=1))
    with pytest.raises(ValueError, match="for l2"):
        made().text_certifier(L2(radius=1.0))
    letters = made(words=ascii_words)
    certifier = letters.text_certifier(Characters(k=1, words=ascii_words))
    assert certifier(["a good film"], [1])[0].kind == "exact"


def test_a_changed_model_is_refused() -> None:
    threat = Synonyms.of(LISTS)
    hooked = made()
    assert hooked.scores is not None
    hooked.scores.register_forward_hook(lambda *_: None)
    with pytest.raises(ValueError, match="forward hook"):
        hooked.text_certifier(threat)
    own = made()
    own.predict_logits = own.forward  # type: ignore[method-assign] # what is refused
    with pytest.raises(ValueError, match="set on the instance"):
        own.text_certifier(threat)
    other = made()
    assert other.scores is not None
    torch.nn.utils.parametrize.register_parametrization(other.scores, "words", torch.nn.Tanh())
    with pytest.raises(ValueError, match="expected a NgramScores"):
        other.text_certifier(threat)


def test_wrong_settings() -> None:
    listed = {"against": "synonyms", "lists": "a", "splits": True}
    for settings in (
        {"against": "synonyms"},
        {"lists": "a"},
        {"kappa": 2.0},
        {"margin": 0.0},
        listed,
    ):
        with pytest.raises(ValueError, match="expected"):
            WordRobustness(**settings)
    net = WindowNetSettings(hidden=4)
    intervals = WordRobustness(against="characters", search="intervals")
    for wrong in (
        {"net": net},
        {"net": net, "window": 2, "bounded": True},
        {"robustness": intervals, "window": 2},
        {"net": net, "window": 2, "robustness": replace(intervals, k=1)},
        {"spelling": -1},
        {"robustness": WordRobustness(against="characters", splits=True), "window": 2},
    ):
        with pytest.raises(ValueError, match="expected"):
            WordScores(**wrong)
    for window in (0, 5):
        with pytest.raises(ValueError, match="expected"):
            WordScores(window=window)
    module = WordScores()
    module.attach(module.build_tokenizer(TEXTS), ["negative", "positive"], pairs=True)
    with pytest.raises(ValueError, match="pairs"):
        module.configure_model()


@pytest.mark.parametrize("window", [1, 2])
@pytest.mark.parametrize("k", [1, None])
def test_no_attack_inside_the_set_beats_a_certificate(window: int, k: int | None) -> None:
    from attacks import Attack, attack
    from attacks.constraints import InsideThreat
    from attacks.resources.neighbours import ListedNeighbours
    from attacks.search import Beam
    from attacks.transformations import EmbeddingSwap

    module = made(window=window, min_ngram_count=1)
    assert module.scores is not None
    torch.manual_seed(1)
    with torch.no_grad():
        for parameter in module.scores.parameters():
            parameter.normal_()
    module.eval()
    lists = {"good": ["bad", "not"], "bad": ["good"], "film": ["a", "good"], "a": ["not"]}
    threat = Synonyms.of(lists, k=k)
    composed = Attack(
        name="inside",
        transformation=EmbeddingSwap(ListedNeighbours(lists, name="lists"), 5),
        search=Beam(width=4, depth=4),
        constraints=[InsideThreat(threat)],
    )
    texts = list(dict.fromkeys(TEXTS))
    certificates = module.text_certifier(threat)(texts, [k])
    samples = [
        (text, certificate.prediction)
        for text, certificate in zip(texts, certificates, strict=True)
    ]
    records = attack(module, samples, recipe=composed, progress=False).records
    fell = [record.outcome == "succeeded" for record in records]
    held = [certificate.holds[0] for certificate in certificates]
    assert not any(f and h for f, h in zip(fell, held, strict=True))
    assert any(fell)
    # The beam is as wide as these sets, and finds what the witness shows.
    assert fell == [not h for h in held]
