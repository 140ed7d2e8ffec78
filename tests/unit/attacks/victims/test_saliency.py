"""Gradient word weights: right on models whose gradients are known, and without side effects."""

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from transformers import AutoTokenizer, BertConfig, BertForSequenceClassification

from attacks.composition import Attack
from attacks.document import Document
from attacks.engine import Engine
from attacks.search import Greedy
from attacks.victims.kinds import HuggingFaceVictim, ModuleVictim, VictimError
from attacks.victims.saliency import UNSEEN, word_norms
from tests.unit.attacks.toys import BagVictim, Synonyms, samples
from tests.unit.lit_modules.builders import FEW, PAIRS, SINGLE, attached, olsa, save_backbone
from text import Batch, Span, Text, Tokenizer, WordTokenizer, collate

TEXTS = [text for text in SINGLE if isinstance(text, str)]


class Weighted(nn.Module):
    """Class 1's logit is the sum of c_i (1 ... 1) x_i: each token's gradient is its own c_i."""

    pairs = False

    def __init__(self, scale: float = 1.0, max_length: int = 12) -> None:
        super().__init__()
        words = ["a strong film with nothing to say , don't"]
        self.tokenizer = WordTokenizer.build(words, max_length=max_length)
        self.table = nn.Embedding(self.tokenizer.vocab_size, 4)
        self.dropout = nn.Dropout(0.5)
        self.scale = scale
        self.modes: list[bool] = []
        self.sizes: list[int] = []

    device = torch.device("cpu")

    def require_text(self) -> tuple[Tokenizer, list[str]]:
        return self.tokenizer, ["0", "1"]

    def embed(self, batch: Batch) -> Tensor:
        self.ids = batch.input_ids
        self.sizes.append(len(batch))
        tokens: Tensor = self.table(batch.input_ids)
        return tokens

    def classify(self, x: Tensor, mask: Tensor) -> Tensor:
        self.modes.append(self.training)
        token = self.ids.to(x.dtype) * mask
        logit = self.dropout((x * token.unsqueeze(-1)).sum(dim=(1, 2)))
        return self.scale * torch.stack([torch.zeros_like(logit), logit + 3], dim=1)

    def predict_texts(self, texts: Sequence[Text], *, batch_size: int) -> Tensor:
        encodings = self.tokenizer.encode(texts)
        batch = collate(encodings, pad_id=self.tokenizer.pad_id)
        with torch.no_grad():
            return self.classify(self.embed(batch), batch.mask)

    def expected(self, text: str) -> list[float]:
        """4 times the mean id of each word's tokens."""
        ids = [self.tokenizer.encode([word])[0].input_ids for word in Document.of(text).words]
        return [4 * sum(row) / len(row) for row in ids]


def weigh(victim: ModuleVictim | HuggingFaceVictim, *texts: Text, **options: Any) -> Any:
    return victim.word_weights([Document.of(text) for text in texts], **options)


def test_known_gradients() -> None:
    module = Weighted().eval()
    texts = ["A strong film, with nothing to say.", "film", "don't SAY a (strong)"]
    for text, weights in zip(texts, weigh(ModuleVictim(module), *texts), strict=True):
        assert weights == pytest.approx(module.expected(text))


def test_batches_make_no_difference() -> None:
    module = Weighted().eval()
    texts = ["a strong film", "film", "", "nothing to say, nothing", "!"]
    whole = weigh(ModuleVictim(module, batch_size=64), *texts)
    assert module.sizes[0] == 5
    parts = weigh(ModuleVictim(module, batch_size=8), *texts)
    assert module.sizes[1:] == [2, 2, 1]
    assert parts == whole
    assert whole[2] == whole[4] == []


def test_order_survives_confidence() -> None:
    """A probability of error that is 0 in single precision leaves the cross-entropy no gradient."""
    module = Weighted(scale=100.0).eval()
    victim = ModuleVictim(module)
    with torch.no_grad():
        module.table.weight.fill_(1.0)
    (weights,) = weigh(victim, "a strong film")
    assert weights == pytest.approx([100 * value for value in module.expected("a strong film")])
    assert weigh(victim, "a strong film", compat="textattack") == [[0.0, 0.0, 0.0]]


def test_order_is_that_of_the_cross_entropy() -> None:
    module = attached(FEW[1], classes=3)
    (weights,) = weigh(ModuleVictim(module), TEXTS[1])
    batch = module.encode_texts([TEXTS[1]])
    x = module.embed(batch).detach().requires_grad_()
    logits = module.classify(x, batch.mask)
    loss = nn.functional.cross_entropy(logits, logits.argmax(dim=1))
    (gradient,) = torch.autograd.grad(loss, x)
    # "not a good film, and it is long": one token each, and the comma.
    norms = gradient[0].abs().sum(dim=1)[[0, 1, 2, 3, 5, 6, 7, 8]]
    error = 1 - float(torch.softmax(logits.detach(), dim=1).max())
    torch.testing.assert_close(error * torch.tensor(weights), norms, rtol=1e-3, atol=1e-6)


@pytest.mark.parametrize("build", FEW)
@pytest.mark.parametrize("pairs", [False, True])
def test_our_modules(build: Any, pairs: bool) -> None:
    module = attached(build, pairs=pairs, classes=3)
    texts = PAIRS if pairs else [*SINGLE, "good " * 200]
    weights = weigh(ModuleVictim(module, batch_size=8), *texts)
    for text, row in zip(texts, weights, strict=True):
        assert len(row) == len(Document.of(text))
        assert all(value >= 0 for value in row[:100])
    alone = [weigh(ModuleVictim(module), text)[0] for text in texts]
    for row, other in zip(weights, alone, strict=True):
        assert row == pytest.approx(other, rel=1e-3, abs=1e-6)
    if not pairs:
        assert weights[-1][127] > 0
        assert weights[-1][128:] == [UNSEEN] * 72


@pytest.mark.parametrize("kind", ["bert", "roberta"])
def test_a_module_on_a_pretrained_encoder(kind: str, tmp_path: Path) -> None:
    """Its tokens are the tokenizer's, with marks at both ends that are no words."""
    module = attached(olsa(backbone=save_backbone(tmp_path, kind), max_length=24), classes=3)
    weights = weigh(ModuleVictim(module), *TEXTS)
    for text, row in zip(TEXTS, weights, strict=True):
        assert len(row) == len(Document.of(text))
        assert min(row) > 0
    batch = module.encode_texts([TEXTS[0]])
    x = module.embed(batch).detach().requires_grad_()
    logits = module.classify(x, batch.mask)[0]
    best = int(logits.argmax())
    others = torch.cat([logits[:best], logits[best + 1 :]])
    (gradient,) = torch.autograd.grad(others.logsumexp(dim=0) - logits[best], x)
    assert weights[0] == pytest.approx([float(gradient[0, 1].abs().sum())], rel=1e-4)


def test_nothing_is_left_behind() -> None:
    module = attached(FEW[1], classes=3).train()
    module.network.eval()
    module(module.encode_texts(TEXTS)).sum().backward()
    gradients = [None if p.grad is None else p.grad.clone() for p in module.parameters()]
    modes = [part.training for part in module.modules()]
    state = torch.get_rng_state()
    for compat in ("none", "textattack"):
        weigh(ModuleVictim(module), *TEXTS, compat=compat)
    assert torch.equal(torch.get_rng_state(), state)
    assert [part.training for part in module.modules()] == modes
    for parameter, before in zip(module.parameters(), gradients, strict=True):
        assert parameter.requires_grad
        assert (parameter.grad is None) is (before is None)
        assert before is None or torch.equal(before, parameter.grad)  # type: ignore[arg-type] # not None, see above


@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode])
def test_callers_without_gradients(mode: Any) -> None:
    module = attached(FEW[0], classes=3)
    expected = weigh(ModuleVictim(module), *TEXTS)
    with mode():
        assert weigh(ModuleVictim(module), *TEXTS) == expected


def test_the_references_way() -> None:
    """Dropout, one text at a time; here the same for the same text, whatever is beside it."""
    module = Weighted().eval()
    victim = ModuleVictim(module)
    texts = ["a strong film", "film", "nothing to say"]
    together = weigh(victim, *texts, compat="textattack")
    assert module.modes == [True] * 3
    assert module.sizes == [1] * 3
    assert not module.training
    assert weigh(victim, *texts[::-1], compat="textattack") == together[::-1]


def test_statistics_are_not_an_attacks_to_change() -> None:
    module = Weighted()
    norm = nn.BatchNorm1d(2)
    module.add_module("norm", norm)
    weigh(ModuleVictim(module), "film", compat="textattack")
    assert norm.training
    assert module.modes == [True]


def test_alignment_by_characters() -> None:
    document = Document.of(("A don't stop", "now"))
    gradient = torch.tensor([[9.0], [1.0], [-2.0], [6.0], [5.0], [7.0], [3.0]])
    spans = [
        Span(0, 0, 0),  # [CLS]
        Span(0, 0, 1),
        Span(0, 2, 4),  # do
        Span(0, 4, 7),  # n't
        Span(0, 7, 12),  # with the space in front
        Span(0, 0, 0),
        Span(1, 1, 3),
    ]
    assert word_norms(gradient, spans, document) == [1.0, 2.0, 5.0, 3.0]
    assert word_norms(gradient[:2], spans[:2], document) == [1.0, UNSEEN, UNSEEN, UNSEEN]
    # A token that covers two words counts for both.
    assert word_norms(gradient[1:2], [Span(0, 0, 7)], document) == [1.0, 1.0, UNSEEN, UNSEEN]


def classifier(folder: Path, **settings: Any) -> HuggingFaceVictim:
    name = save_backbone(folder, "bert")
    torch.manual_seed(0)
    config = BertConfig.from_pretrained(name, num_labels=3)
    model = BertForSequenceClassification(config)
    model.train(mode=False)
    return HuggingFaceVictim(model, AutoTokenizer.from_pretrained(name), **settings)


def test_transformers(tmp_path: Path) -> None:
    victim = classifier(tmp_path, batch_size=8, max_length=12)
    texts: list[Text] = [*TEXTS, "it is what it is " * 9]
    with torch.inference_mode():
        weights = weigh(victim, *texts)
    for text, row in zip(texts, weights, strict=True):
        assert len(row) == len(Document.of(text))
        assert row == pytest.approx(weigh(victim, text)[0], rel=1e-3, abs=1e-7)
    assert [weight == UNSEEN for weight in weights[-1]] == [i >= 10 for i in range(45)]
    assert all(parameter.grad is None for parameter in victim.model.parameters())
    # The gradient itself, by hand: "bad" is one token behind [CLS].
    model = victim.model
    ids = victim.tokenizer("bad", return_tensors="pt")["input_ids"]
    x = model.get_input_embeddings()(ids).detach().requires_grad_()
    logits = model(inputs_embeds=x).logits[0]
    best = int(logits.argmax())
    others = torch.cat([logits[:best], logits[best + 1 :]])
    (others.logsumexp(dim=0) - logits[best]).backward()
    (row,) = weigh(victim, "bad")
    assert row == pytest.approx([float(x.grad[0, 1].abs().sum())], rel=1e-4)


def test_transformers_with_pairs_and_dropout(tmp_path: Path) -> None:
    victim = classifier(tmp_path)
    weights = weigh(victim, *PAIRS)
    for text, row in zip(PAIRS, weights, strict=True):
        assert len(row) == len(Document.of(text))
        assert min(row) > 0
    noisy = weigh(victim, *PAIRS, compat="textattack")
    assert noisy != weights
    assert noisy == weigh(victim, *PAIRS[::-1], compat="textattack")[::-1]
    assert not victim.model.training


def test_slow_tokenizers_are_refused(tmp_path: Path) -> None:
    victim = classifier(tmp_path)
    victim.tokenizer = object()
    with pytest.raises(TypeError, match="got object, expected a fast tokenizer"):
        weigh(victim, "bad")


def test_modules_that_only_predict_are_refused() -> None:
    class Predicts:
        def predict_texts(self, texts: Sequence[Text], *, batch_size: int) -> Tensor:
            return torch.zeros(len(texts), 2)

    with pytest.raises(TypeError, match=r"expected a module with embed\(batch\)"):
        weigh(ModuleVictim(Predicts()), "bad")


def test_gradients_that_are_no_numbers() -> None:
    module = Weighted(scale=math.nan)
    with pytest.raises(VictimError, match="NaN gradients"):
        weigh(ModuleVictim(module), "film")


@pytest.mark.parametrize(
    ("compat", "order"), [("none", [0, 1, 3, 2]), ("textattack", [3, 1, 0, 2])]
)
def test_rounding_does_not_order_words(compat: Any, order: list[int]) -> None:
    """All words of a bag matter alike but for rounding, which depends on the batch."""

    class Rounded(BagVictim):
        def word_weights(self, documents: Any, *, compat: Any = "none") -> Any:
            return [[2 - 2e-6, 2 - 1e-6, 1.0, 2.0] for _ in documents]

    seen: list[int] = []

    class Spy(Synonyms):
        def propose(self, jobs: Any) -> Any:
            seen.extend(i for job in jobs for i in job.indices)
            return [[] for _ in jobs]

    attack = Attack(
        name="a2t",
        transformation=Spy(),
        search=Greedy(ranking="gradient"),
        compat=compat,
        white_box=True,
    )
    list(Engine(attack, Rounded()).run(samples("good good good good")))
    assert seen == order


def test_an_attack_in_order_of_the_gradients() -> None:
    """Words by falling gradient, and none behind what the model sees."""
    module = Weighted(max_length=3).eval()
    with torch.no_grad():
        module.table.weight.fill_(1.0)
    text = "say strong film film"
    order = sorted(range(3), key=lambda i: -module.expected(text)[i])
    synonyms = Synonyms({word: ["a"] for word in ("say", "strong", "film")})
    seen: list[int] = []

    class Spy(Synonyms):
        def propose(self, jobs: Any) -> Any:
            seen.extend(i for job in jobs for i in job.indices)
            return synonyms.propose(jobs)

    attack = Attack(
        name="a2t", transformation=Spy(), search=Greedy(ranking="gradient"), white_box=True
    )
    (record,) = Engine(attack, ModuleVictim(module)).run(samples(text))
    assert record.outcome == "failed"
    assert seen == order
