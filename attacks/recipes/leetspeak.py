"""Digits and signs that look like letters: "fr33 3ntry".

Sources: Hackett et al., "Bypassing Prompt Injection and Jailbreak Detection in LLM Guardrails",
2025 ("numbers"); Eger et al., "Text Processing Like Humans Do", 2019 (VIPER), has visual
perturbations at random. Here the fewest words are changed that reach the goal.
"""

from attacks.composition import Attack
from attacks.recipe_parts import RecipeParts
from attacks.recipes import NO_COUNTERPART, recipe
from attacks.transformations.variants import Variant

_DIGITS = str.maketrans("aeiostAEIOST", "431057431057")
_SIGNS = str.maketrans("aeilosbgtzAEILOSBGTZ", "@3!10$89+2" * 2)


def digits(text: str) -> str:
    """Write a e i o s t as 4 3 1 0 5 7."""
    return text.translate(_DIGITS)


def signs(text: str) -> str:
    """Write a e i l o s b g t z as @ 3 ! 1 0 $ 8 9 + 2."""
    return text.translate(_SIGNS)


def vowels(text: str) -> str:
    """Write * for the vowels."""
    return "".join("*" if char in "aeiouAEIOU" else char for char in text)


@recipe(settings=("variants",), refused=NO_COUNTERPART)
def leetspeak(parts: RecipeParts) -> Attack:
    """Compose the attack by digits and signs."""
    return parts.whole_texts(
        [Variant("digits", digits), Variant("signs", signs), Variant("vowels", vowels)]
    )
