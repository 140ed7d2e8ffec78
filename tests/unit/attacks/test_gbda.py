"""GBDA: its loss, what it finds where every text can be tried, and its texts."""

from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from transformers import GPT2Config, GPT2LMHeadModel

import attacks
from attacks.constraints import WordsChanged
from attacks.constraints.preconstraints import Columns
from attacks.document import Document
from attacks.engine import Engine
from attacks.recipe_settings import RecipeSettings
from attacks.recipes import build
from attacks.strategies import TokenDistribution
from attacks.transformations import NoReplacements
from attacks.victims.distribution_settings import CausalLM, DistributionSettings
from attacks.victims.kinds import ModuleVictim
from attacks.victims.token_distributions import (
    DistributionLoss,
    draw_texts,
    log_perplexity,
    margin_loss,
    recall,
    write_tokens,
)
from attacks.victims.token_models import TokenizedText
from tests.unit.attacks.toys import BagVictim, samples
from tests.unit.attacks.victims.test_saliency import classifier
from tests.unit.lit_modules.builders import FEW, PAIRS, SINGLE, attached
from text import Batch, PretrainedTokenizer, Span, Text, Tokenizer, WordTokenizer, collate
from text.token_pieces import TokenPiece

SMALL = {"iterations": 12, "draws": 4, "tries": 10, "similarity": 0.1, "initial": 3.0}


class Interacting(nn.Module):
    """Two classes; the lead of class 1 is a function of the words and of neighbouring words."""

    pairs, device = False, torch.device("cpu")

    def __init__(self, words: str, *, seed: int = 0) -> None:
        super().__init__()
        self.tokenizer = WordTokenizer.build([words])
        generator = torch.Generator().manual_seed(seed)
        size = self.tokenizer.vocab_size
        self.table = nn.Embedding(size, size)
        with torch.no_grad():
            self.table.weight.copy_(torch.eye(size))
        self.alone = torch.randn(size, generator=generator) * 2
        self.couples = torch.randn(size, size, generator=generator) / 2

    def require_text(self) -> tuple[Tokenizer, list[str]]:
        return self.tokenizer, ["0", "1"]

    def embed(self, batch: Batch) -> Tensor:
        tokens: Tensor = self.table(batch.input_ids)
        return tokens

    def classify(self, x: Tensor, mask: Tensor) -> Tensor:
        x = x * mask.unsqueeze(-1)
        lead = (x @ self.alone).sum(dim=1)
        lead = lead + ((x[:, :-1] @ self.couples) * x[:, 1:]).sum(dim=(1, 2))
        return torch.stack([-lead, lead], dim=1)

    def predict_texts(self, texts: list[Text], *, batch_size: int) -> Tensor:
        batch = collate(self.tokenizer.encode(texts), pad_id=self.tokenizer.pad_id)
        with torch.no_grad():
            return self.classify(self.embed(batch), batch.mask)


def tiny_lm(size: int) -> Any:
    torch.manual_seed(0)
    config = GPT2Config(vocab_size=size, n_embd=8, n_layer=1, n_head=2, n_positions=16)
    model: Any = GPT2LMHeadModel(config)
    return model.eval()


@pytest.mark.parametrize("with_lm", [False, True])
def test_the_gradient_of_the_loss(with_lm: bool) -> None:
    torch.manual_seed(1)
    table, weights = torch.randn(6, 4).double(), torch.randn(4, 3).double()
    lm = CausalLM(tiny_lm(6).double(), []) if with_lm else None
    settings = DistributionSettings(language_model=lm, similarity=0.7, fluency=0.3)
    loss = DistributionLoss(
        lambda x: x.tanh().sum(dim=1) @ weights,
        table,
        torch.tensor([1, 2, 5, 3]),
        [1, 2],
        label=0,
        target=None,
        settings=settings,
    )
    logits = torch.randn(2, 2, 6).double().requires_grad_()
    assert torch.autograd.gradcheck(lambda at: loss(at.softmax(dim=-1)), logits)


def test_a_table_with_more_rows_than_the_language_model() -> None:
    torch.manual_seed(1)
    table, tokens = torch.randn(8, 4), torch.zeros(2, 2, 8)
    tokens[..., :6] = torch.randn(2, 2, 6).softmax(dim=-1)
    settings = DistributionSettings(language_model=CausalLM(tiny_lm(6), []))
    ids = torch.tensor([1, 2, 5, 3])
    padded, equal = (
        DistributionLoss(
            lambda x: x.sum(dim=1),
            table[:rows],
            ids,
            [1, 2],
            label=0,
            target=None,
            settings=settings,
        )(tokens[..., :rows])
        for rows in (8, 6)
    )
    torch.testing.assert_close(padded, equal)


def test_terms_of_the_loss() -> None:
    logits = torch.tensor([[3.0, 1.0, 0.0], [0.0, 7.0, 1.0]])
    # Leads of class 0: 2 and -7; of class 2 over the others: -3 and -6.
    assert margin_loss(logits, 0, None, 5.0) == (7 + 0) / 2
    assert margin_loss(logits, 0, 2, 5.0) == (8 + 11) / 2
    states = torch.eye(3)
    assert recall(states, torch.stack([states[[2, 0, 1]] * 5, states[[0, 0, 1]]])) == 5 / 6
    lm, ids = tiny_lm(7), torch.tensor([[3, 1, 4, 1, 5]])
    out = lm(input_ids=ids, labels=ids)
    tokens = nn.functional.one_hot(ids, 7).float()
    assert log_perplexity(out.logits, tokens).item() == pytest.approx(out.loss.item(), rel=1e-5)


@pytest.mark.parametrize("seed", range(2))
def test_the_best_of_all_texts(seed: int) -> None:
    module = Interacting("red green blue", seed=seed)
    words = ("red", "green", "blue")
    texts: list[Text] = [" ".join(pair) for pair in product(words, repeat=2)]
    leads = module.predict_texts(texts, batch_size=9)[:, 1]
    start, best = texts[int(leads.argmax())], texts[int(leads.argmin())]
    settings = DistributionSettings(margin=100.0, similarity=0.0, initial=3.0)
    drawn = draw_texts(
        ModuleVictim(module).token_model,
        Document.of(start),
        {0},
        label=1,
        target=None,
        count=20,
        seed=seed,
        settings=settings,
    )
    assert [columns[0] for columns in drawn].count(str(best)) > 10


def test_embeddings_of_tokens_are_the_model(tmp_path: Path) -> None:
    cases: list[tuple[Text, Any]] = [
        *((SINGLE[1], ModuleVictim(attached(method).eval())) for method in FEW),
        (PAIRS[0], ModuleVictim(attached(FEW[0], pairs=True).eval())),
        ("a good film", classifier(tmp_path)),
    ]
    for text, victim in cases:
        model = victim.token_model
        encoded = model.encode(text)
        x = model.table.weight[torch.tensor(encoded.ids)].expand(2, -1, -1)
        with torch.no_grad():
            logits = encoded.logits(x).double().numpy()
        expected = victim.logits([text])[0]
        assert logits[0] == pytest.approx(expected, abs=1e-5)
        assert len(encoded.spans) == len(encoded.ids)


def written(text: str, changes: dict[int, str]) -> str:
    """Replace tokens of a text in a vocabulary of BERT's kind."""
    names = ["[PAD]", "good", "##ies", "film", "##s", ".", "(", ")", "the", "GOOD"]
    pieces = [
        None if name[0] == "[" else TokenPiece(name.removeprefix("##"), not name.startswith("##"))
        for name in names
    ]
    spans, ids, at = [], [], 0
    while at < len(text):
        if text[at] == " ":
            at += 1
            continue
        inside = at > 0 and text[at - 1 : at + 1].isalpha()
        index, length = next(
            (i, len(piece.text))
            for i, piece in enumerate(pieces)
            if piece and text.startswith(piece.text, at) and piece.begins != inside
        )
        spans.append(Span(0, at, at + length))
        ids.append(index)
        at = spans[-1].end
    drawn = [names.index(changes.get(i, names[old])) for i, old in enumerate(ids)]
    encoded = TokenizedText(ids, spans, lambda x: x)
    (column,) = write_tokens(Document.of(text), encoded, dict(enumerate(drawn)), pieces)
    return column


def test_tokens_are_written_as_text() -> None:
    text = "the goodies (films)  GOOD."
    assert written(text, {}) == text
    assert written(text, {1: "film"}) == "the filmies (films)  GOOD."
    assert written(text, {2: "film"}) == "the good film (films)  GOOD."
    assert written(text, {1: "##s"}) == "thesies (films)  GOOD."
    assert written(text, {3: "the"}) == "the goodies the films)  GOOD."


def small_attack(**settings: Any) -> attacks.Attack:
    return attacks.Attack(
        name="gbda",
        transformation=NoReplacements(),
        search=TokenDistribution(**{**SMALL, **settings}),
        white_box=True,
    )


def test_the_same_in_any_company(tmp_path: Path) -> None:
    victim = ModuleVictim(Interacting("red green blue grey pink", seed=3))
    texts: list[Text] = ["red green", "Blue, pink!", "grey", "", "pink grey (red)", "nothing"]
    rows = [(text, int(victim.logits([text])[0].argmax())) for text in texts]

    def attacked(**settings: Any) -> list[tuple[Any, ...]]:
        outcome = attacks.attack(
            victim, rows, recipe=small_attack(), seed=4, progress=False, **settings
        )
        return [
            (one.outcome, one.adversarial, one.queries, one.unique_queries)
            for one in outcome.records
        ]

    path = tmp_path / "records.jsonl"
    together = attacked(path=path)
    assert {outcome for outcome, *_ in together} == {"succeeded", "failed"}
    assert attacked(in_flight=1) == together
    # A start that was killed after two records resumes with the others.
    lines = path.read_text().splitlines(keepends=True)
    path.write_text("".join(lines[:3]))
    assert attacked(path=path) == together
    for outcome, adversarial, queries, unique in together:
        assert 1 <= unique <= queries <= 11
        if outcome == "succeeded":
            gold = rows[[row[1] for row in together].index(adversarial)][1]
            assert victim.logits([adversarial])[0].argmax() != gold
    (limited,) = attacks.attack(
        victim, rows[:1], recipe=small_attack(), seed=4, query_budget=1, progress=False
    ).records
    assert (limited.queries, limited.outcome) == (1, "failed")


def test_pairs_and_targets(tmp_path: Path) -> None:
    victim = ModuleVictim(attached(FEW[0], pairs=True).eval())
    pair = PAIRS[0]
    label = int(victim.logits([pair])[0].argmax())
    (record,) = attacks.attack(
        victim,
        [(pair, label)],
        recipe=replace(small_attack(), pre_constraints=[Columns(["second"])]),
        columns=("first", "second"),
        progress=False,
    ).records
    assert record.adversarial is not None
    assert record.adversarial[0] == pair[0]
    assert record.adversarial[1] != pair[1]
    model = classifier(tmp_path)
    found = Engine(small_attack(margin=50.0), model).run(
        samples("a good film", label=int(model.logits(["a good film"])[0].argmax()))
    )
    assert next(iter(found)).queries > 1


def test_drawn_texts_keep_the_constraints() -> None:
    victim = ModuleVictim(Interacting("red green blue grey pink", seed=3))
    text = "red green grey blue"
    label = int(victim.logits([text])[0].argmax())
    queries = []
    for maximum in (0, 2, 4):
        attack = replace(small_attack(tries=40), constraints=[WordsChanged(maximum=maximum)])
        (record,) = Engine(attack, victim, seed=2).run(samples(text, label=label))
        assert record.words_changed <= maximum
        queries.append(record.queries)
    # The clean text alone, where none may change.
    assert queries[0] == 1 < queries[-1]


def test_gradients_that_are_no_numbers() -> None:
    module: Any = Interacting("red green blue")
    classify = module.classify
    # Only texts that require a gradient get it: predictions are numbers.
    nan = torch.tensor(float("nan"))
    module.classify = lambda x, mask: classify(x, mask) * (nan if x.requires_grad else 1)
    victim = ModuleVictim(module)
    label = int(victim.logits(["red"])[0].argmax())
    (record,) = Engine(small_attack(), victim).run(samples("red", label=label))
    assert (record.outcome, record.reason) == ("error", "got NaN gradients, expected numbers")


def test_other_victims_are_refused(tmp_path: Path) -> None:
    with pytest.raises(TypeError, match="got victim function, which shows no gradients"):
        attacks.attack(lambda texts: [[0.0, 1.0]] * len(texts), [("a", 1)], recipe="gbda")
    with pytest.raises(TypeError, match="got victim bag without token embeddings, expected a run"):
        Engine(small_attack(), BagVictim())
    module: Any = Interacting("red green")
    # No table of embeddings.
    module.table = nn.Identity()
    module.embed = lambda batch: batch.input_ids.unsqueeze(-1).float()
    with pytest.raises(TypeError, match="not the rows of one table"):
        Engine(small_attack(), ModuleVictim(module))


def test_a_language_model_of_the_victim(tmp_path: Path) -> None:
    victim = classifier(tmp_path / "victim")
    folder = tmp_path / "lm"
    size = len(victim.tokenizer)
    tiny_lm(size).save_pretrained(folder)
    victim.tokenizer.save_pretrained(folder)
    attack = build(RecipeSettings(recipe="gbda", causal_lm=str(folder)))
    search: Any = attack.search
    assert search.language_model.pieces == victim.token_model.pieces
    small = small_attack(language_model=search.language_model)
    label = int(victim.logits(["a good film"])[0].argmax())
    (record,) = Engine(small, victim).run(samples("a good film", label=label))
    assert record.queries > 1
    other = ModuleVictim(Interacting("red green"))
    with pytest.raises(ValueError, match=r"that are not the 5 of victim Interacting"):
        Engine(small, other)
    with pytest.raises(ValueError, match="got language model nowhere, which cannot be loaded"):
        build(RecipeSettings(recipe="gbda", causal_lm="nowhere"))


def test_pieces_of_tokenizers(tmp_path: Path) -> None:
    tokenizer = classifier(tmp_path).tokenizer
    pieces = PretrainedTokenizer.from_pretrained(str(tmp_path), max_length=16).token_pieces()
    for name, index in tokenizer.get_vocab().items():
        if name in tokenizer.all_special_tokens:
            assert pieces[index] is None
        else:
            assert pieces[index] == TokenPiece(name.removeprefix("##"), not name.startswith("##"))
