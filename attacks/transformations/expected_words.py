"""Replaces words by the predictions of a masked language model (BAE-R; A2T-MLM).

Source: Garg and Ramakrishnan, "BAE: BERT-based Adversarial Examples for Text Classification", 2020.
Only replacement (R) is done, as in all comparisons with BAE; the model sees the text around the
word, not the word.
"""

from collections.abc import Sequence
from string import ascii_letters
from typing import Any

from attacks.compat import Compat
from attacks.composition import Job
from attacks.document import Candidate
from attacks.resources.language_model import MaskFiller, Query
from attacks.resources.passages import Passage, Passages
from attacks.transformations.case import in_case_of


class MaskedLMSwap:
    """Replaces a word by the likeliest words of a masked language model.

    Of a pair the model sees only the text with the word: it would copy words of the other text.

    Args:
        model: model of `transformers` with a masked-language-model head (from
            `attacks.resources.language_model.load_masked_lm`); used in evaluation mode.
        tokenizer: fast tokenizer of the model.
        k: words proposed.
        minimum_confidence: probability below which a word is not proposed.
        whole_words: propose whole words only. The reference also takes word pieces without their
            marks: "##ing" becomes "ing".
        restore_case: give words the case of the one they replace; most vocabularies are in lower
            case.
        max_length: tokens that the model is shown, those around the mask; all it takes if None.
        batch_size: texts per forward pass at first; halved when memory runs out. If not given 256,
            on a CPU 32.
        compat: `textattack`: word pieces, case as it comes, both texts of a pair in one, and of a
            long text only the beginning.

    Raises:
        ValueError: settings that propose nothing, or a tokenizer without mask.
        TypeError: a slow tokenizer.
    """

    def __init__(
        self,
        model: Any,
        tokenizer: Any,
        k: int = 50,
        *,
        minimum_confidence: float = 0.0,
        whole_words: bool = True,
        restore_case: bool = True,
        max_length: int | None = None,
        batch_size: int | None = None,
        compat: str = "none",
    ) -> None:
        self.reference = Compat(compat).reference
        self.restore_case = restore_case and not self.reference
        self.model = MaskFiller(
            model,
            tokenizer,
            k,
            minimum_confidence=minimum_confidence,
            whole_words=whole_words and not self.reference,
            middle=not self.reference,
            max_length=max_length,
            batch_size=batch_size,
        )

    def propose(self, jobs: Sequence[Job]) -> list[list[Candidate]]:
        """See `Transformation`."""
        passages = Passages(joined=self.reference)
        masked: list[list[tuple[int, Query]]] = []
        for job in jobs:
            document = job.current
            passage_of = [(i, passages.of(document, document.column_of(i))) for i in job.indices]
            masked.append([(i, self._masked(passage, i)) for i, passage in passage_of])
        words = self.model.fill([query for row in masked for _, query in row])
        return [
            [
                candidate
                for index, query in row
                for candidate in job.current.replace_by(
                    index, self._fitting(words[query], job.current.words[index])
                )
            ]
            for job, row in zip(jobs, masked, strict=True)
        ]

    def _masked(self, passage: Passage, index: int) -> Query:
        """Put the mask in a word's place; returns the text and the position of the mask.

        On each side it keeps at most as many words as the model takes tokens.
        """
        position, reach = passage.place(index), self.model.max_length
        # Words far from the mask are cut off: the model could not see them.
        start, end = passage.spans[position]
        begin, stop = 0, len(passage.text)
        if position > reach and not self.reference:
            begin = passage.spans[position - reach][0]
        if position + reach < len(passage.spans):
            stop = passage.spans[position + reach][1]
        text = passage.text[begin:start] + self.model.mask + passage.text[end:stop]
        return text, start - begin

    def _fitting(self, words: Sequence[str], old: str) -> list[str]:
        """Select the words of the model that may replace a word."""
        if self.reference:
            # Numbers count among the k, as in the reference.
            return [
                word for word in words if word != old and not set(ascii_letters).isdisjoint(word)
            ]
        if self.restore_case:
            # Different cases of one word become equal.
            words = list(dict.fromkeys(in_case_of(word, old) for word in words))
        return [word for word in words if word != old]
