"""Characters that people read as the same text, or do not see, and a tokenizer does not.

Source: Hackett et al., "Bypassing Prompt Injection and Jailbreak Detection in LLM Guardrails",
2025, which lists these ways, and Boucher et al., "Bad Characters", 2022. Both change the whole
text. Here the fewest words are changed that reach the goal, each way alone and then all together.
`tags` and `smuggling` are invisible: they are an attack only where the reader is a program, such
as a language model, that reads the code points. `bad-characters` puts one such character into a
word.
"""

from attacks.composition import Attack
from attacks.recipe_parts import RecipeParts
from attacks.recipes import NO_COUNTERPART, recipe
from attacks.transformations.unseen import TWINS
from attacks.transformations.variants import Variant

_FLIPPED = dict(
    zip(
        "abcdefghijklmnopqrstuvwxyz0123456789?!.,'",
        "ɐqɔpǝɟƃɥᴉɾʞlɯuodbɹsʇnʌʍxʎz0ƖᄅƐㄣϛ9ㄥ86¿¡˙'‚",
        strict=True,
    )
)
"""Characters that look like others upside down."""


def homoglyphs(text: str) -> str:
    """Replace characters by those of other scripts that look the same."""
    return "".join(TWINS.get(char, char) for char in text)


def zero_width(text: str) -> str:
    """Put a zero-width space between characters."""
    return "\u200b".join(text)


def marks(text: str) -> str:
    """Put an acute accent on each character."""
    return "".join(f"{char}\u0301" for char in text)


def underline(text: str) -> str:
    """Put a line below each character, by a combining mark."""
    return "".join(f"{char}\u0332" for char in text)


def full_width(text: str) -> str:
    """Take the wide forms of ASCII characters."""
    return "".join(chr(ord(char) + 0xFEE0) if "!" <= char <= "~" else char for char in text)


def bidirectional(text: str) -> str:
    """Store the characters in reverse order, with marks that have them shown from right to left."""
    return f"\u202e{text[::-1]}\u202c"


def upside_down(text: str) -> str:
    """Turn the text round."""
    return "".join(_FLIPPED.get(char, char) for char in reversed(text.lower()))


def tags(text: str) -> str:
    """Write the text in tag characters (U+E0000), which are not shown."""
    return "".join(chr(0xE0000 + ord(char)) if char.isascii() else char for char in text)


def smuggling(text: str) -> str:
    """Hide the bytes of the text in variation selectors behind an emoji."""
    hidden = (
        chr(0xFE00 + byte) if byte < 16 else chr(0xE0100 + byte - 16)
        for byte in text.encode("utf-8", "surrogatepass")
    )
    return "\U0001f600" + "".join(hidden)


@recipe(settings=("variants",), refused=NO_COUNTERPART)
def unicode(parts: RecipeParts) -> Attack:
    """Compose the attack by characters of Unicode."""
    return parts.whole_texts(
        [
            Variant("homoglyphs", homoglyphs),
            Variant("zero-width", zero_width),
            Variant("marks", marks),
            Variant("underline", underline),
            Variant("full-width", full_width),
            Variant("bidirectional", bidirectional),
            Variant("upside-down", upside_down),
            Variant("tags", tags),
            Variant("smuggling", smuggling),
        ]
    )
