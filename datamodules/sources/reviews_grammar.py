"""The grammar of the embedded corpus: reviews of restaurants, each with the sentiment it means.

A sentence is made for a label: the rules choose how to say it. Half of the constructions turn on
word order: negation ("not good" is negative, "not bad" positive), contrast (what follows "but" wins
over what precedes it; with "although" and "despite" the main clause wins), "neither ... nor", and
"could have been better" against "could not have been better". A bag of words sees the same words in
both classes there.
"""

from collections.abc import Iterator, Sequence
from random import Random
from typing import NamedTuple


class Aspect(NamedTuple):
    """Something reviews speak of: its names (plural ones apart), and what is said of it only."""

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

# Said of anything, by strength: 1 weak, 2 plain, 3 strong.
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
# By the strength of the word they stand before: nothing is "very superb" or "absolutely dull".
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

    Only `Random.random` is used: Python documents that its stream for a seed never changes, which
    it does not for `choice` and the like.
    """

    def __init__(self, seed: int) -> None:
        self._random = Random(seed)

    def _chance(self, probability: float) -> bool:
        return self._random.random() < probability

    def _pick(self, items: Sequence[str]) -> str:
        return items[int(self._random.random() * len(items))]

    def _aspects(self) -> Iterator[Aspect]:
        """Aspects in random order."""
        left = list(ASPECTS)
        while left:
            yield left.pop(int(self._random.random() * len(left)))

    def _subject(self, aspect: Aspect) -> tuple[str, str]:
        """A noun phrase, and the form of "to be" that goes with it."""
        if self._chance(0.3):
            return f"the {self._pick(aspect.plural)}", "were"
        return f"the {self._pick(aspect.singular)}", "was"

    def _adjective(self, aspect: Aspect, good: bool, degree: float = 0.0) -> str:
        """A word for the aspect, with an adverb of degree before it that often."""
        if self._chance(0.4):
            strength, words = 2, aspect.good if good else aspect.bad
        else:
            strength = 1 + int(self._random.random() * 3)
            words = (GOOD if good else BAD)[strength]
        adverb = f"{self._pick(DEGREES[strength])} " if self._chance(degree) else ""
        return adverb + self._pick(words)

    def _clause(self, aspect: Aspect, good: bool) -> str:
        """A main clause that means `good`."""
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
        """Two clauses that disagree; the one that English lets win means `good`."""
        first, second, *_ = self._aspects()
        loses, wins = self._clause(first, not good), self._clause(second, good)
        noun = f"the {self._adjective(first, not good)} {self._pick(first.singular)}"
        # As often as listed: "but" is the common way, and a clause that is cancelled only after it
        # was said (", although ...") is the hardest to learn.
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
        """Two qualities, or two aspects, denied together."""
        first, second, *_ = self._aspects()
        subject, be = self._subject(first)
        word = self._adjective(first, not good)
        if self._chance(0.5):
            other = self._pick((BAD if good else GOOD)[2])
            return f"{subject} {be} neither {word} nor {other}"
        shared = self._pick((BAD if good else GOOD)[2])
        return f"neither {subject} nor the {self._pick(second.singular)} was {shared}"

    def _uneven(self, good: bool) -> str:
        """Two opinions side by side that disagree; the much stronger one decides."""
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
        """One review of 5 to 30 tokens that means `good`."""
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
        # Words, not tokens: punctuation and "n't" come on top of them, up to 30 tokens in all.
        if self._chance(0.25) and len(body.split()) <= 18:
            text = f"{self._pick(ASIDES)} {text}"
        return text


def generate(seed: int, count: int) -> Iterator[tuple[str, int]]:
    """Distinct sentences with their labels, 0 negative and 1 positive by turns."""
    grammar = Grammar(seed)
    seen: set[str] = set()
    while len(seen) < count:
        label = len(seen) % 2
        text = grammar.sentence(label == 1)
        if text not in seen:
            seen.add(text)
            yield text, label
