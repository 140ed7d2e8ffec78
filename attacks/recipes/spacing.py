"""Spaces and marks between the letters of words, or no spaces at all.

Source: meta-llama/llama-models issue 50, where blanks between all letters defeat Prompt-Guard-86M.
It changes the whole text; here the fewest words are changed that reach the goal.
A word in letters has more blanks around it, so that a reader still sees where it ends.
"""

from attacks.composition import Attack
from attacks.recipe_parts import RecipeParts
from attacks.recipes import NO_COUNTERPART, recipe
from attacks.transformations.variants import Variant


def letters(text: str) -> str:
    """Put a blank between characters."""
    return f" {' '.join(text)} "


def dots(text: str) -> str:
    """Put a full stop between characters."""
    return ".".join(text)


def hyphens(text: str) -> str:
    """Put a hyphen between characters."""
    return "-".join(text)


def halves(text: str) -> str:
    """Put a blank in the middle."""
    return f"{text[: len(text) // 2]} {text[len(text) // 2 :]}" if len(text) > 1 else text


def joined(text: str) -> str:
    """Leave out all white space."""
    return "".join(text.split())


@recipe(settings=("variants",), refused=NO_COUNTERPART)
def spacing(parts: RecipeParts) -> Attack:
    """Compose the attack by spaces."""
    return parts.whole_texts(
        [
            Variant("letters", letters),
            Variant("dots", dots),
            Variant("hyphens", hyphens),
            Variant("halves", halves),
            Variant("joined", joined, indivisible=True),
        ]
    )
