"""Changed copies of texts by the transformations of an attack, without a victim."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from random import Random
from typing import Any

from attacks.candidates import candidates
from attacks.composition import Attack, Context, Job, Verdict
from attacks.document import Document
from attacks.recipe_settings import RecipeSettings
from attacks.recipes import build
from text import Text, check_range

TOGETHER = 64
"""Texts that are changed in lock step: models of a transformation get one batch per step."""


class Augmenter:
    """Changes random words of texts, each by a random candidate that keeps all constraints.

    The numbers of a text come from the seed and its number. So its copies do not depend on the
    other texts, as long as models answer the same.

    Args:
        attack: its transformation, constraints and pre-constraints are used; search and goal are
            not.
        copies: changed copies of each text.
        share: share of the words that is changed, at least one word.
        seed: of the random numbers.
        columns: names of the texts of a pair.

    Raises:
        ValueError: a number out of its range.
    """

    def __init__(
        self,
        attack: Attack,
        *,
        copies: int = 1,
        share: float = 0.1,
        seed: int = 0,
        columns: Sequence[str] = ("text",),
    ) -> None:
        check_range({"copies": copies}, least=1)
        check_range({"share": share}, above=0, most=1)
        check_range({"seed": seed}, least=0)
        self.attack, self.copies, self.share = attack, copies, share
        self.seed, self.columns = seed, columns

    def run(self, texts: Sequence[Text], *, first: int = 0) -> Iterator[list[Text]]:
        """Yield the different copies of each text, in their order; fewer where only fewer differ.

        `first` is the number of the first text.
        """
        for start in range(0, len(texts), TOGETHER):
            part = texts[start : start + TOGETHER]
            yield from self._copy_together(part, first + start)

    def _copy_together(self, texts: Sequence[Text], first: int) -> list[list[Text]]:
        """Return the copies of some texts, one copy of all of them after the other."""
        originals = [Document.of(text, cut=self.attack.cut) for text in texts]
        # One generator per text, seeded by its number: other texts have no influence.
        draws = [Random((self.seed << 32) + first + i) for i in range(len(texts))]
        copies: list[dict[Text, None]] = [{} for _ in texts]
        for _ in range(self.copies):
            for i, changed in enumerate(self._change(originals, draws)):
                if changed.columns != originals[i].columns:
                    copies[i][changed.text] = None
        return [list(distinct) for distinct in copies]

    def _change(self, originals: Sequence[Document], draws: Sequence[Random]) -> list[Document]:
        current = list(originals)
        orders = [
            self._allowed(text, text, draw) for text, draw in zip(originals, draws, strict=True)
        ]
        for order, draw in zip(orders, draws, strict=True):
            draw.shuffle(order)
        remaining = [max(1, math.ceil(self.share * len(text))) for text in originals]
        while active := [i for i, order in enumerate(orders) if order and remaining[i]]:
            jobs, rows = list[Job](), list[int]()
            for i in active:
                # Numbers of the original: earlier changes may have moved or merged the word.
                index = current[i].position(orders[i].pop(0))
                if index is not None and index in self._allowed(originals[i], current[i], draws[i]):
                    jobs.append(Job(originals[i], current[i], [index], draws[i], 0))
                    rows.append(i)
            for i, options in zip(rows, candidates(self.attack, jobs), strict=True):
                if options:
                    current[i] = current[i].accept(draws[i].choice(options))
                    remaining[i] -= 1
        return current

    def _allowed(self, original: Document, current: Document, draw: Random) -> list[int]:
        context = Context(
            original=original,
            # Nothing is asked of a victim: any verdict will do.
            clean=Verdict(0.0, success=False, prediction=0),
            attack=self.attack,
            random=draw,
            columns=self.columns,
        )
        return context.allowed(current)


def augment(
    texts: Sequence[Text],
    recipe: str | RecipeSettings | Attack = "pwws",
    n: int = 1,
    *,
    share: float = 0.1,
    seed: int = 0,
    columns: Sequence[str] | None = None,
    **settings: Any,
) -> list[list[Text]]:
    """Return changed copies of texts, such as training data, by the transformations of an attack.

    No model is asked whether a copy is adversarial: labels stay right as far as the constraints of
    the recipe preserve the meaning.

    Args:
        texts: strings, or pairs of strings.
        recipe: name of a recipe (`attacks.recipes`), its settings, or a composed attack.
        n: copies of each text; fewer where only fewer differ.
        share: share of the words that is changed, at least one word.
        seed: of the random numbers; those of a text come from this and its place in the list.
        columns: names of the texts of a pair: `("premise", "hypothesis")` leaves the premise alone.
        settings: of `RecipeSettings`, for a recipe.

    Raises:
        ValueError: an unknown recipe, or a number out of its range.
    """
    if isinstance(recipe, Attack):
        attack = recipe
    else:
        chosen = RecipeSettings(recipe=recipe) if isinstance(recipe, str) else recipe
        attack = build(replace(chosen, **settings))
    if columns is None:
        columns = ("text",) if not texts or isinstance(texts[0], str) else ("text", "text_pair")
    augmenter = Augmenter(attack, copies=n, share=share, seed=seed, columns=columns)
    return list(augmenter.run(texts))
