"""The grammar of the embedded corpus: reviews of restaurants with their sentiment.

A sentence is generated for a label. Half of the constructions depend on word order: negation ("not
good" is negative, "not bad" positive), contrast (the clause after "but" wins; with "although" and
"despite" the main clause wins), "neither ... nor", and "could have been better" against "could not
have been better". In these, a bag of words has the same words in both classes.
"""

from collections.abc import Iterator, Sequence
from random import Random
from typing import NamedTuple


class Aspect(NamedTuple):
    """A topic of reviews: its names, singular and plural, and adjectives for this topic only."""

    singular: Sequence[str]
    plural: Sequence[str]
    good: Sequence[str]
    bad: Sequence[str]


ASPECTS = (
    Aspect(
        ("food", "cooking", "meal", "menu", "soup", "dessert"),
        ("dishes", "starters", "desserts"),
        ("tasty", "fresh", "delicious", "flavourful"),
        ("bland", "stale", "greasy", "tasteless"),
    ),
    Aspect(
        ("service", "waiter", "waitress", "staff", "owner"),
        ("waiters", "servers"),
        ("friendly", "attentive", "helpful", "polite"),
        ("rude", "slow", "careless", "unfriendly"),
    ),
    Aspect(
        ("room", "place", "decor", "terrace", "garden"),
        ("tables", "rooms"),
        ("cosy", "charming", "spotless", "welcoming"),
        ("noisy", "cramped", "dirty", "gloomy"),
    ),
    Aspect(
        ("wine", "coffee", "beer", "tea"),
        ("drinks", "cocktails", "wines"),
        ("refreshing", "crisp", "smooth"),
        ("watery", "sour", "lukewarm"),
    ),
    Aspect(
        ("bill", "price"),
        ("prices", "portions"),
        ("fair", "reasonable", "generous"),
        ("unfair", "unreasonable", "stingy"),
    ),
)

# Adjectives for all topics, by strength: 1 weak, 2 plain, 3 strong.
GOOD = {
    1: ("decent", "fine", "acceptable", "solid"),
    2: ("good", "great", "lovely", "pleasant", "nice", "enjoyable"),
    3: ("superb", "wonderful", "excellent", "outstanding", "fantastic", "perfect"),
}
BAD = {
    1: ("mediocre", "dull", "ordinary", "plain"),
    2: ("bad", "poor", "unpleasant", "disappointing", "nasty", "weak"),
    3: ("awful", "terrible", "dreadful", "horrible", "appalling", "dismal"),
}
# By the strength of the next word: nothing is "very superb" or "absolutely dull".
DEGREES = {
    1: ("quite", "rather"),
    2: ("very", "really", "so", "extremely"),
    3: ("absolutely", "truly", "simply"),
}
NOT = ("not", "never", "hardly", "far from", "anything but", "not at all", "by no means")
LIKED = ("loved", "enjoyed", "liked", "adored", "praised")
DISLIKED = ("hated", "disliked", "regretted", "despised", "resented")
VERDICTS = {
    True: (
        "the staff won us back",
        "we left happy that night",
        "we will be back soon",
        "it was worth every penny",
        "we felt at home all night",
        "the evening was a success",
    ),
    False: (
        "the staff lost us for good",
        "we left hungry that night",
        "we will stay away",
        "it was a waste of money",
        "we felt ignored all night",
        "the evening was a failure",
    ),
}
THAN = ("we expected", "we remembered", "last year", "the reviews said", "next door")
OPENERS = (
    "last night", "on our first visit", "this time", "on a busy friday", "for once",
    "at lunch", "after a long wait", "on our anniversary", "in the end", "all in all",
    "as usual", "with friends", "to be honest", "on a rainy tuesday",
)  # fmt: skip
CLOSERS = (
    "when we came by", "from start to finish", "that evening", "in my opinion", "on both visits",
    "for the whole family", "as far as I can tell", "on sunday", "at our table", "once again",
)  # fmt: skip
ASIDES = (
    "We came with four friends.", "My sister chose the place.", "It is right by the station.",
    "We had booked a week ahead.", "It was our second visit.", "They open at noon.",
    "We sat near the window.", "My parents live around the corner.", "I ordered the special.",
)  # fmt: skip


class Grammar:
    """Sentences for a label, drawn with a seed.

    Only `Random.random` is used: Python guarantees its stream for a seed, but not that of `choice`.
    """

    def __init__(self, seed: int) -> None:
        self._random = Random(seed)

    def _chance(self, probability: float) -> bool:
        return self._random.random() < probability

    def _pick(self, items: Sequence[str]) -> str:
        return items[int(self._random.random() * len(items))]

    def _aspects(self) -> Iterator[Aspect]:
        """Yield the aspects in random order."""
        remaining = list(ASPECTS)
        while remaining:
            yield remaining.pop(int(self._random.random() * len(remaining)))

    def _subject(self, aspect: Aspect) -> tuple[str, str]:
        """Return a noun phrase and its form of "to be"."""
        if self._chance(0.3):
            return f"the {self._pick(aspect.plural)}", "were"
        return f"the {self._pick(aspect.singular)}", "was"

    def _adjective(self, aspect: Aspect, good: bool, degree: float = 0.0) -> str:
        """Return an adjective for the aspect, with the probability `degree` after an adverb."""
        if self._chance(0.4):
            strength, words = 2, aspect.good if good else aspect.bad
        else:
            strength = 1 + int(self._random.random() * 3)
            words = (GOOD if good else BAD)[strength]
        adverb = f"{self._pick(DEGREES[strength])} " if self._chance(degree) else ""
        return adverb + self._pick(words)

    def _clause(self, aspect: Aspect, good: bool) -> str:
        """Return a main clause that means `good`."""
        subject, be = self._subject(aspect)
        draw = self._random.random()
        if draw < 0.60:
            clause = f"{subject} {be} {self._adjective(aspect, good, 0.35)}"
        elif draw < 0.73:
            denied = f"{be}n't" if self._chance(0.3) else f"{be} {self._pick(NOT)}"
            clause = f"{subject} {denied} {self._adjective(aspect, not good)}"
        elif draw < 0.78:
            clause = f"{subject} {be} {'better' if good else 'worse'} than {self._pick(THAN)}"
        elif draw < 0.82:
            word = self._pick(("better", "worse"))
            denied = "not " if good == (word == "better") else ""
            clause = f"{subject} could {denied}have been {word}"
        elif draw < 0.89:
            clause = f"we {self._pick(LIKED if good else DISLIKED)} {subject}"
        elif draw < 0.92:
            verb = self._pick(("mind", "regret") if good else ("like", "enjoy"))
            clause = f"we did not {verb} {subject}"
        else:
            clause = self._pick(VERDICTS[good])
        return clause

    def _contrast(self, good: bool) -> str:
        """Return two clauses that disagree; the one that prevails means `good`."""
        first, second, *_ = self._aspects()
        loses, wins = self._clause(first, not good), self._clause(second, good)
        noun = f"the {self._adjective(first, not good)} {self._pick(first.singular)}"
        # Repeated by frequency: "but" is the most common form. A trailing ", although ..." is the
        # hardest to learn.
        forms = (
            *(f"{loses}, but {wins}",) * 4,
            *(f"although {loses}, {wins}",) * 2,
            f"{noun.removeprefix('the ')}, but {wins}",
            f"{loses}, yet {wins}",
            f"{loses}; however, {wins}",
            f"even though {loses}, {wins}",
            f"despite {noun}, {wins}",
            f"{wins}, although {loses}",
            f"{wins}, even though {loses}",
            f"{wins}, despite {noun}",
        )
        return self._pick(forms)

    def _neither(self, good: bool) -> str:
        """Return two qualities, or two aspects, denied together."""
        first, second, *_ = self._aspects()
        subject, be = self._subject(first)
        word = self._adjective(first, not good)
        if self._chance(0.5):
            other = self._pick((BAD if good else GOOD)[2])
            return f"{subject} {be} neither {word} nor {other}"
        shared = self._pick((BAD if good else GOOD)[2])
        return f"neither {subject} nor the {self._pick(second.singular)} was {shared}"

    def _uneven(self, good: bool) -> str:
        """Return two opinions side by side that disagree; the much stronger one decides."""
        first, second, *_ = self._aspects()
        strong, be = self._subject(first)
        weak, be_too = self._subject(second)
        parts = [
            f"{strong} {be} {self._pick(DEGREES[3])} {self._pick((GOOD if good else BAD)[3])}",
            f"{weak} {be_too} {self._pick(DEGREES[1])} {self._pick((BAD if good else GOOD)[1])}",
        ]
        if self._chance(0.5):
            parts.reverse()
        return " and ".join(parts)

    def sentence(self, good: bool) -> str:
        """Return one review of 5 to 30 tokens that means `good`."""
        draw = self._random.random()
        if draw < 0.38:
            body = self._clause(next(self._aspects()), good)
        elif draw < 0.60:
            first, second, *_ = self._aspects()
            body = f"{self._clause(first, good)} and {self._clause(second, good)}"
        elif draw < 0.65:
            body = self._neither(good)
        elif draw < 0.71:
            body = self._uneven(good)
        else:
            body = self._contrast(good)
        if self._chance(0.35):
            body = f"{self._pick(OPENERS)}, {body}"
        if self._chance(0.25):
            body = f"{body} {self._pick(CLOSERS)}"
        text = f"{body[0].upper()}{body[1:]}{'!' if self._chance(0.1) else '.'}"
        # 18 words: with punctuation, "n't" and the added sentence at most 30 tokens.
        if self._chance(0.25) and len(body.split()) <= 18:
            text = f"{self._pick(ASIDES)} {text}"
        return text


def generate(seed: int, count: int) -> Iterator[tuple[str, int]]:
    """Yield distinct sentences with their labels, alternately 0 negative and 1 positive."""
    grammar = Grammar(seed)
    texts: set[str] = set()
    while len(texts) < count:
        label = len(texts) % 2
        text = grammar.sentence(label == 1)
        if text not in texts:
            texts.add(text)
            yield text, label
