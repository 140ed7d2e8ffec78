"""The whole text in base64, ROT13, hexadecimal digits or percent signs of addresses.

Source: Wei, Haghtalab, Steinhardt, "Jailbroken: How Does LLM Safety Training Fail?", 2023 (base64,
ROT13). It is an attack only where the reader decodes the text, as a language model or
a browser does: for people, nothing of the text remains. No instruction to decode is added.
"""

import base64
import codecs

from attacks.composition import Attack
from attacks.recipe_parts import RecipeParts
from attacks.recipes import NO_COUNTERPART, recipe
from attacks.transformations.variants import Variant


def rot13(text: str) -> str:
    """Move each letter by 13 places."""
    return codecs.encode(text, "rot13")


def base_64(text: str) -> str:
    """Return the bytes of the text in base64."""
    return base64.b64encode(_bytes(text)).decode()


def hexadecimal(text: str) -> str:
    """Return the bytes of the text in hexadecimal digits."""
    return _bytes(text).hex()


def percent(text: str) -> str:
    """Write each byte as in an address: %20 for a blank."""
    return "".join(f"%{byte:02X}" for byte in _bytes(text))


def _bytes(text: str) -> bytes:
    # A text from a JSON file may have single surrogates, which UTF-8 refuses.
    return text.encode("utf-8", "surrogatepass")


@recipe(settings=("variants",), refused=NO_COUNTERPART)
def encodings(parts: RecipeParts) -> Attack:
    """Compose the attack by encodings of the whole text."""
    return parts.whole_texts(
        [
            Variant("base64", base_64, indivisible=True),
            Variant("rot13", rot13, indivisible=True),
            Variant("hex", hexadecimal, indivisible=True),
            Variant("url", percent, indivisible=True),
        ]
    )
