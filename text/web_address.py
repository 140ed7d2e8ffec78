"""Removes passwords and keys from web addresses before they are logged or stored."""

import hashlib
import re
from functools import cache
from urllib.parse import unquote_plus

# Parameters whose values are written; any other one may be a key.
_HARMLESS = frozenset(
    (
        *("api-version", "api_version", "deployment", "format", "lang", "language", "model"),
        *("model_id", "region", "revision", "task", "v", "version"),
    )
)
_USER = re.compile(r"(?<=//)[^/?#]+(?=@)")
_PART = re.compile(r"[^?&;#]+")
_ROUNDS = 50_000


def redact(address: str) -> str:
    """Return an address with each of its secrets replaced by a mark.

    Two keys have two marks, so that results for one address are never taken for those of another.

    Args:
        address: may have a name before it, as `http:https://HOST/PATH`.
    """
    front, question, back = re.fullmatch(r"([^?#]*)([?#]?)(.*)", address, re.DOTALL).groups()  # type: ignore[union-attr] # matches any text
    front = _USER.sub(lambda user: _mark(user[0], front.rpartition("@")[2]), front)
    return front + question + _PART.sub(lambda part: _parameter(part[0], front), back)


def secrets(address: str) -> set[str]:
    """Return the parts of an address that `redact` leaves out."""
    front, _, back = address.replace("#", "?", 1).partition("?")
    users = [part for user in _USER.findall(front) for part in (user, *user.split(":"))]
    values = [part.partition("=") for part in _PART.findall(back)]
    hidden = {*users, *(value or name for name, _, value in values if not _is_harmless(name))}
    hidden -= {""}
    return hidden | {unquote_plus(secret) for secret in hidden}


def hide(message: str, secrets: set[str]) -> str:
    """Return a message without any secret, and without any six characters of one.

    Args:
        message: any text.
        secrets: those of less than four characters are not hidden.
    """
    for secret in sorted(secrets, key=len, reverse=True):
        if len(secret) < 4:
            continue
        # Parts are hidden too: a message may quote a truncated response that repeats a secret.
        size = min(6, len(secret))
        pieces = {secret[i : i + size] for i in range(len(secret) - size + 1)}
        hidden = [False] * len(message)
        for i in range(len(message) - size + 1):
            if message[i : i + size] in pieces:
                hidden[i : i + size] = [True] * size
        message = "".join(
            character if not hidden[i] else "***" if not i or not hidden[i - 1] else ""
            for i, character in enumerate(message)
        )
    return message


def _is_harmless(name: str) -> bool:
    return name.strip().casefold() in _HARMLESS


def _parameter(part: str, front: str) -> str:
    name, equals, value = part.partition("=")
    if not equals:
        return _mark(name, front)
    return part if _is_harmless(name) or not value else f"{name}={_mark(value, front)}"


@cache
def _mark(secret: str, salt: str) -> str:
    raw = hashlib.pbkdf2_hmac("sha256", secret.encode(), salt.encode(), _ROUNDS)
    # 24 bits of a slow digest: too few to recover the key from.
    return f"***{raw.hex()[:6]}"
