"""The noise of a smoothed classifier in training: each text is replaced by a random one."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random
from typing import Literal, get_args

from certify.smoothing import Smoothing
from certify.smoothing.random_texts import RandomTexts, random_texts
from certify.threats import Synonyms
from text import Batch, Encoding, WordTokenizer, check_choice, collate

TrainedNoise = Literal["none", "mask", "delete", "substitute"]


@dataclass(frozen=True, kw_only=True)
class SmoothingNoise:
    """The random texts that a model is trained on: those of `certify --smooth`.

    Attributes:
        noise: none: clean texts; mask: RanMASK; delete: CERT-ED, AdaptDel; substitute: SAFER.
        rate: share of the words that are masked, or probability of a word to be deleted.
        keep: words that a text keeps on average, at most, of noise=delete: longer texts have a
            larger rate; no limit if null.
        mask: word that replaces masked words; an unknown word if the training texts do not have it.
        lists: JSON file with a list of words for each word, for noise=substitute.
        hops: steps of a neighbourhood in the lists.
    """

    noise: TrainedNoise = "none"
    rate: float = Smoothing.rate
    keep: float | None = Smoothing.keep
    mask: str = Smoothing.mask
    lists: str | None = None
    hops: int = Smoothing.hops

    def __post_init__(self) -> None:
        """Check the settings.

        Raises:
            ValueError: a setting out of its range, or lists that are missing or not needed.
        """
        check_choice("smoothing.noise", self.noise, get_args(TrainedNoise))
        noise = Smoothing.noise if self.noise == "none" else self.noise
        Smoothing(noise=noise, rate=self.rate, keep=self.keep, hops=self.hops)  # checks these
        if (self.lists is not None) != (self.noise == "substitute"):
            msg = (
                f"got smoothing.noise={self.noise} and lists={self.lists}, expected a file of "
                "lists for substitute, and only for it"
            )
            raise ValueError(msg)

    @property
    def unused(self) -> dict[str, str]:
        """Return the settings without effect, each with the setting that disables it."""
        names = {
            "none": ("rate", "keep", "mask", "hops"),
            "mask": ("keep", "hops"),
            "delete": ("mask", "hops"),
            "substitute": ("rate", "keep", "mask"),
        }[self.noise]
        return dict.fromkeys(names, f"smoothing.noise={self.noise}")

    def texts(self, tokenizer: WordTokenizer) -> RandomTexts | None:
        """Return the distribution that is certified; None without noise.

        Raises:
            ValueError: broken lists, lists for texts, words without a certificate, or a mask that
                is not a word.
            OSError: the lists cannot be read.
        """
        if self.noise == "none":
            return None
        if self.noise == "mask" and tokenizer.tokens(self.mask) != [self.mask]:
            msg = f"got smoothing.mask={self.mask!r}, expected one word in lower case"
            raise ValueError(msg)
        words = tokenizer.splitter.settings
        threat = (
            Synonyms(lists={}, texts={}, words=words)
            if self.lists is None
            else Synonyms.read(Path(self.lists), words=words)
        )
        return random_texts(
            self.noise, threat, rate=self.rate, keep=self.keep, mask=self.mask, hops=self.hops
        )


def random_batch(
    batch: Batch, texts: RandomTexts, tokenizer: WordTokenizer, *, seed: int, epoch: int
) -> Batch:
    """Draw a random text for each single text of a batch, by seed and epoch of the run.

    Truncated words are not part of the text; an unknown word has no list. The ids are those of the
    tokenizer.
    """
    # A function of seed, epoch and sample: it needs no state in a checkpoint, and does not depend
    # on batches and processes.
    drawn = [
        _draw(ids[:length], texts, tokenizer, Random(f"{seed} {epoch} {sample}"))
        for ids, length, sample in zip(
            batch.input_ids.tolist(), batch.lengths.tolist(), batch.sample_ids.tolist(), strict=True
        )
    ]
    noisy = collate(drawn, pad_id=tokenizer.pad_id).to(batch.input_ids.device)
    return replace(noisy, sample_ids=batch.sample_ids, labels=batch.labels)


def _draw(
    ids: Sequence[int], texts: RandomTexts, tokenizer: WordTokenizer, random: Random
) -> Encoding:
    vocabulary = tokenizer.vocabulary
    words = [vocabulary.lookup_token(index) for index in ids]
    # Like the tokenizer: a text without words becomes the unknown word.
    drawn = vocabulary(texts.draw(words, random)) or [tokenizer.unk_id]
    return Encoding(drawn, [0] * len(drawn))
