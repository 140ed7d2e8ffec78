"""A vocabulary of word pieces built from a corpus, for encoders that are trained from scratch."""

from collections import Counter
from collections.abc import Iterable, Iterator

import tokenizers
from tokenizers import decoders, models, normalizers, pre_tokenizers, processors, trainers

from text.batch import Text
from text.pretrained_tokenizer import PretrainedTokenizer

SPECIALS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
"""In the order of their ids; BERT's own names, by which other programs find them."""
# Characters that have an id of their own; words with any other one are unknown.
_ALPHABET = 1000
# Words counted at a time. Beyond that, those seen once are forgotten, which bounds the memory.
_DISTINCT = 4_000_000
# Longer strings without a space are split at once, not counted: a line of Chinese, a list of data.
_LONG = 64
# Repetitions of a word in one string.
_RUN = 1000


def train_word_piece(
    texts: Iterable[Text], vocab_size: int, *, max_length: int, lowercase: bool = True
) -> PretrainedTokenizer:
    """Build BERT's tokenizer for a corpus (Devlin et al. 2019; Schuster & Nakajima 2012).

    The same texts in the same order give the same ids on every machine.

    Args:
        texts: read once; pairs count with both their texts.
        vocab_size: ids at most, the five specials included; fewer where the texts have fewer.
        max_length: tokens kept of a text, [CLS] and [SEP] included.
        lowercase: whether case and accents are dropped, as in BERT's "uncased" models.

    Raises:
        ValueError: no words in the texts, or a `vocab_size` that does not even hold the characters.
    """
    normalizer = normalizers.BertNormalizer(lowercase=lowercase)
    counts = _count(texts, normalizer)
    letters: Counter[str] = Counter()
    for word, n in counts.items():
        for letter in word:
            letters[letter] += n
    # The library would number characters in the order of a hash table that differs from process to
    # process, and break ties between pieces by these numbers. Here ties go by code point.
    frequent = sorted(sorted(letters), key=lambda letter: -letters[letter])[:_ALPHABET]
    alphabet = [prefix + letter for prefix in ("", "##") for letter in sorted(frequent)]
    if not frequent or vocab_size < len(SPECIALS) + len(alphabet):
        msg = (
            f"got vocab_size={vocab_size} for texts with {len(frequent)} different characters, "
            f"expected texts with words, and at least {len(SPECIALS)} ids for special tokens and "
            "two for each character"
        )
        raise ValueError(msg)
    trained = tokenizers.Tokenizer(models.WordPiece(unk_token="[UNK]"))
    trained.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    trainer = trainers.WordPieceTrainer(
        vocab_size=vocab_size,
        show_progress=False,
        initial_alphabet=frequent,
        limit_alphabet=len(frequent),
        # Only special tokens are numbered in the order of the list.
        special_tokens=[*SPECIALS, *alphabet],
    )
    trained.train_from_iterator(_repeat(counts), trainer)
    return _tokenizer(trained.get_vocab(), normalizer, max_length)


def _count(texts: Iterable[Text], normalizer: normalizers.Normalizer) -> Counter[str]:
    """Count the words, in alphabetical order."""
    split = pre_tokenizers.BertPreTokenizer()
    # Strings between spaces are counted first: far fewer need normalising and splitting.
    rough: Counter[str] = Counter()
    counts: Counter[str] = Counter()

    def take_apart(chunk: str, n: int) -> None:
        for word, _ in split.pre_tokenize_str(normalizer.normalize_str(chunk)):
            counts[word] += n

    for text in texts:
        for part in (text,) if isinstance(text, str) else text:
            chunks = part.split()
            if len(max(chunks, key=len, default="")) > _LONG:
                for chunk in (chunk for chunk in chunks if len(chunk) > _LONG):
                    take_apart(chunk, 1)
                chunks = [chunk for chunk in chunks if len(chunk) <= _LONG]
            rough.update(chunks)
        if len(rough) > _DISTINCT:
            rough = Counter({chunk: n for chunk, n in rough.items() if n > 1})
    # Each distinct chunk is split once, however often it occurs.
    for chunk, n in rough.items():
        take_apart(chunk, n)
    return Counter({word: counts[word] for word in sorted(counts)})


def _repeat(counts: Counter[str]) -> Iterator[str]:
    """Yield each word as often as it was counted: the trainer takes texts, not counts."""
    for word, n in counts.items():
        for start in range(0, n, _RUN):
            yield f"{word} " * min(_RUN, n - start)


def _tokenizer(
    vocab: dict[str, int], normalizer: normalizers.Normalizer, max_length: int
) -> PretrainedTokenizer:
    backend = tokenizers.Tokenizer(models.WordPiece(vocab, unk_token="[UNK]"))
    backend.normalizer = normalizer
    backend.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    backend.add_special_tokens(list(SPECIALS))
    backend.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]",
        pair="[CLS] $A [SEP] $B:1 [SEP]:1",
        special_tokens=[(token, vocab[token]) for token in ("[CLS]", "[SEP]")],
    )
    backend.decoder = decoders.WordPiece()
    return PretrainedTokenizer(
        backend.to_str(), max_length, pad_id=vocab["[PAD]"], unk_id=vocab["[UNK]"]
    )
