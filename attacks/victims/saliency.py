"""Weights of words in a prediction, by the gradient at the embedded tokens.

Source: Yoo and Qi, "Towards Improving Adversarial Training of NLP Models" (A2T), 2021, section 3.1.
A word's weight is the L1 norm of its gradient, averaged over its tokens. Words that the model does
not see, since the text is cut, have the weight `UNSEEN`.

The paper takes the loss against the model's own prediction. Its gradient has the probability of
error as a factor, which is 0 in single precision for a confident model. So the gradient here is
that of the log odds against the prediction: the same direction, hence the same order of words, and
it never vanishes.
"""

import zlib
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Literal, Protocol

import torch
from torch import Tensor, nn
from torch.nn import functional

from attacks.document import Candidate, Document
from text import Batch, Span, Text, Tokenizer, collate
from text.pretrained_tokenizer import encoding_spans

UNSEEN = float("-inf")
"""The weight of a word that the model does not see."""


class Differentiable(Protocol):
    """Embeds a batch and classifies the embedded tokens, as our classifiers do."""

    pairs: bool

    @property
    def device(self) -> torch.device:
        """The device of the weights."""

    def require_text(self) -> tuple[Tokenizer, list[str]]:
        """Return tokenizer and class names."""

    def embed(self, batch: Batch) -> Tensor:
        """`[B, N, d]`."""

    def classify(self, x: Tensor, mask: Tensor) -> Tensor:
        """`[B, C]`."""


def module_weights(
    module: Differentiable, documents: Sequence[Document], *, batch_size: int, training: bool
) -> list[list[float]]:
    """Return weights by the gradient at the output of a module's `embed`.

    Args:
        module: one of ours; its mode, parameters and their gradients stay unchanged.
        documents: at least one.
        batch_size: texts per forward and backward pass; texts of like length go together.
        training: as the reference does it: with dropout, cross-entropy, one text at a time. The
            dropout of a text is always the same.
    """
    tokenizer, _ = module.require_text()
    texts = [document.text for document in documents]
    encodings = tokenizer.encode(texts)

    def gradients(rows: list[int]) -> list[Tensor]:
        chunk = [encodings[row] for row in rows]
        batch = collate(chunk, pad_id=tokenizer.pad_id, pairs=module.pairs).to(module.device)
        # [B, N, d]: a leaf, so that no gradient reaches the parameters.
        x = module.embed(batch).detach().clone().requires_grad_()
        loss = _loss(module.classify(x, batch.mask), training=training)
        (gradient,) = torch.autograd.grad(loss, x)
        return [gradient[row, mask].float().cpu() for row, mask in enumerate(batch.mask)]

    spans = tokenizer.spans(texts)
    with in_mode(module, training=training):
        return _weights(documents, spans, gradients, batch_size=batch_size, training=training)


def transformer_weights(
    model: Any,
    tokenizer: Any,
    documents: Sequence[Document],
    *,
    batch_size: int,
    max_length: int,
    training: bool,
) -> list[list[float]]:
    """Return weights by the gradient at the input embeddings of a `transformers` classifier.

    See `module_weights`; texts have `max_length` tokens at most.

    Raises:
        TypeError: a slow tokenizer, or a model without input embeddings.
    """
    if not getattr(tokenizer, "is_fast", False):
        msg = (
            f"got {type(tokenizer).__name__}, expected a fast tokenizer: gradients need to know "
            "the position of each token in the text"
        )
        raise TypeError(msg)
    texts = [document.text for document in documents]
    coded = tokenizer(*split_pairs(texts), truncation=True, max_length=max_length)
    spans = encoding_spans(coded.encodings)
    captured: list[Tensor] = []

    def capture(_module: nn.Module, _inputs: Any, output: Tensor) -> Tensor:
        leaf = output.detach().clone().requires_grad_()
        captured.append(leaf)
        return leaf

    def gradients(rows: list[int]) -> list[Tensor]:
        batch = tokenizer.pad(
            {name: [values[row] for row in rows] for name, values in coded.items()},
            padding_side=padding_side(model),
            return_tensors="pt",
        ).to(model.device)
        captured.clear()
        # The hook replaces the embedded tokens by a leaf.
        handle = model.get_input_embeddings().register_forward_hook(capture)
        try:
            logits = model(**batch).logits
        finally:
            handle.remove()
        if not captured:
            msg = f"got {type(model).__name__}, which does not use its input embeddings"
            raise TypeError(msg)
        (gradient,) = torch.autograd.grad(_loss(logits, training=training), captured[0])
        mask = batch["attention_mask"].bool()
        return [gradient[row, mask[row]].float().cpu() for row in range(len(rows))]

    with in_mode(model, training=training):
        return _weights(documents, spans, gradients, batch_size=batch_size, training=training)


@contextmanager
def returning(layer: nn.Module, output: Tensor) -> Iterator[None]:
    """Let a layer return an output, whatever its input is."""
    # What a forward hook returns replaces the output of its module.
    handle = layer.register_forward_hook(lambda *_: output)
    try:
        yield
    finally:
        handle.remove()


def split_pairs(texts: Sequence[Text]) -> tuple[list[str], list[str] | None]:
    """Return the first texts, and of pairs the second ones."""
    first = [text if isinstance(text, str) else text[0] for text in texts]
    second = [text[1] for text in texts if not isinstance(text, str)]
    return first, second or None


def module_gains(
    module: Differentiable,
    documents: Sequence[Document],
    candidates: Sequence[Sequence[Candidate]],
    *,
    batch_size: int,
    target: int | None = None,
) -> list[list[float]]:
    """Return the gains of candidates to first order, by the gradient at the output of `embed`.

    They are those of the class `target`, or of all but the predicted one if None. The mode of the
    module, its parameters and their gradients stay unchanged.
    """
    tokenizer, _ = module.require_text()

    def embedded(texts: list[Text]) -> list[Tensor]:
        batch = collate(tokenizer.encode(texts), pad_id=tokenizer.pad_id, pairs=module.pairs)
        batch = batch.to(module.device)
        x = module.embed(batch).detach()
        return [x[row, mask] for row, mask in enumerate(batch.mask)]

    def gradient(x: Tensor) -> Tensor:
        leaf = x.clone().unsqueeze(0).requires_grad_()
        mask = torch.ones(leaf.shape[:2], dtype=torch.bool, device=leaf.device)
        loss = _loss(module.classify(leaf, mask), training=False, target=target)
        (slope,) = torch.autograd.grad(loss, leaf)
        return slope[0]

    with in_mode(module, training=False):
        return _gains(documents, candidates, embedded, gradient, batch_size=batch_size)


def transformer_gains(
    model: Any,
    tokenizer: Any,
    documents: Sequence[Document],
    candidates: Sequence[Sequence[Candidate]],
    *,
    batch_size: int,
    max_length: int,
    target: int | None = None,
) -> list[list[float]]:
    """Return the gains of candidates to first order, by the gradient at the input embeddings.

    See `module_gains`.
    """
    table = model.get_input_embeddings()
    questions: list[Any] = []

    def embedded(texts: list[Text]) -> list[Tensor]:
        coded = tokenizer(*split_pairs(texts), truncation=True, max_length=max_length)
        questions[:] = [coded]
        ids_of = coded["input_ids"]
        return [table(torch.tensor(ids, device=model.device)).detach() for ids in ids_of]

    def gradient(x: Tensor) -> Tensor:
        leaf = x.clone().unsqueeze(0).requires_grad_()
        row = {name: values[:1] for name, values in questions[0].items()}
        batch = tokenizer.pad(row, return_tensors="pt").to(model.device)
        with returning(table, leaf):
            logits = model(**batch).logits
        loss = _loss(logits, training=False, target=target)
        (slope,) = torch.autograd.grad(loss, leaf)
        return slope[0]

    with in_mode(model, training=False):
        return _gains(documents, candidates, embedded, gradient, batch_size=batch_size)


def _gains(
    documents: Sequence[Document],
    candidates: Sequence[Sequence[Candidate]],
    embedded: Callable[[list[Text]], list[Tensor]],
    gradient: Callable[[Tensor], Tensor],
    *,
    batch_size: int,
) -> list[list[float]]:
    """Return the products of gradients and changes of the embedded tokens.

    `embedded` gives `[n, d]` of each text; `gradient` follows it, and gives `[n, d]` at a text.
    """
    result: list[list[float]] = []
    with torch.inference_mode(False), torch.enable_grad():
        for document, options in zip(documents, candidates, strict=True):
            (x,) = embedded([document.text])
            slope = gradient(x)
            row: list[float] = []
            for start in range(0, len(options), batch_size):
                texts = [candidate.text for candidate in options[start : start + batch_size]]
                for other in embedded(texts):
                    # First order: (x' - x) . gradient, for texts of as many tokens.
                    fits = other.shape == x.shape and not torch.equal(other, x)
                    row.append(float(((other - x) * slope).sum()) if fits else UNSEEN)
            result.append(row)
    return result


def _loss(logits: Tensor, *, training: bool, target: int | None = None) -> Tensor:
    """Return the sum over the batch that is differentiated: log odds for a target, if any."""
    logits = logits.float()
    if target is not None:
        rivals = torch.cat([logits[:, :target], logits[:, target + 1 :]], dim=1)
        return (logits[:, target] - rivals.logsumexp(dim=1)).sum()
    predicted = logits.argmax(dim=1)
    if training:
        return functional.cross_entropy(logits, predicted, reduction="sum")
    own = logits.gather(1, predicted.unsqueeze(1)).squeeze(1)
    # log odds: logsumexp of the others minus the predicted logit.
    other_logits = logits.scatter(1, predicted.unsqueeze(1), -torch.inf)
    return (other_logits.logsumexp(dim=1) - own).sum()


def _weights(
    documents: Sequence[Document],
    spans: Sequence[Sequence[Span]],
    gradients: Callable[[list[int]], list[Tensor]],
    *,
    batch_size: int,
    training: bool,
) -> list[list[float]]:
    """Return the weights of all documents; `gradients` returns `[n, d]` for each of some rows."""
    # Texts of like length share a batch.
    order = sorted(range(len(documents)), key=lambda row: len(spans[row]))
    # Dropout draws for a whole batch: a text has its own draws in any company only alone.
    batch_size = 1 if training else batch_size
    result: list[list[float]] = [[] for _ in documents]
    # The engine may be called under inference mode, where nothing could be differentiated.
    with torch.inference_mode(False), torch.enable_grad():
        for start in range(0, len(order), batch_size):
            rows = order[start : start + batch_size]
            with _seeded("\n".join(documents[rows[0]].columns) if training else None):
                parts = gradients(rows)
            for row, gradient in zip(rows, parts, strict=True):
                result[row] = word_norms(gradient, spans[row], documents[row])
    return result


def padding_side(model: Any) -> Literal["left", "right"]:
    """Return the side on which padding changes nothing; the tokenizer may say another.

    Positions are counted from the left, so that padding there moves the text (GPT-2). XLNet counts
    from the text, and classifies by its last token.
    """
    return "left" if getattr(model.config, "summary_type", None) == "last" else "right"


def word_norms(gradient: Tensor, spans: Sequence[Span], document: Document) -> list[float]:
    """Return the L1 norm of each word's mean gradient over the tokens that overlap it.

    `gradient` is `[n, d]` of the n tokens, `spans` are their positions.
    """
    starts = [(column, start) for column, start, _ in document.spans]
    tokens, words = [], []
    for token, (column, start, end) in enumerate(spans):
        # Words that begin before the token ends and end behind its start.
        word = bisect_right(starts, (column, end - 1)) - 1
        while word >= 0 and start < end and document.spans[word][0] == column:
            if document.spans[word][2] <= start:
                break
            tokens.append(token)
            words.append(word)
            word -= 1
    where = torch.tensor(words, dtype=torch.int64)
    total = gradient.new_zeros(len(document), gradient.shape[-1])
    # [words, d]: sums over the tokens of each word.
    total.index_add_(0, where, gradient[torch.tensor(tokens, dtype=torch.int64)])
    count = torch.bincount(where, minlength=len(document))
    # Words without tokens, beyond the longest text, would divide 0 by 0.
    norms = total.abs().sum(dim=1) / count.clamp_min(1)
    weights: list[float] = torch.where(count > 0, norms, UNSEEN).tolist()
    return weights


@contextmanager
def in_mode(module: Any, *, training: bool) -> Iterator[None]:
    """Set the mode of every part, and restore it afterwards."""
    parts: list[nn.Module] = list(module.modules())
    before = [part.training for part in parts]
    try:
        module.train(training)
        for part in parts:
            # An attack must not change the statistics of batch norms.
            if isinstance(part, nn.modules.batchnorm._BatchNorm):  # their one base
                part.eval()
        yield
    finally:
        for part, mode in zip(parts, before, strict=True):
            part.training = mode


@contextmanager
def _seeded(text: str | None) -> Iterator[None]:
    """Seed random numbers by a text inside the context; do nothing if None."""
    if text is None:
        yield
        return
    # By default, `fork_rng` would copy the generators of all GPUs.
    device = [torch.cuda.current_device()] if torch.cuda.is_available() else []
    with torch.random.fork_rng(devices=device):
        # Not `hash`, which gives a text another number in each process.
        torch.manual_seed(zlib.crc32(text.encode("utf-8", "surrogatepass")))
        yield
