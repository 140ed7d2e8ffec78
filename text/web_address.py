"""Web addresses as they may be written down: without passwords and keys."""

import hashlib
import re
from functools import cache
from urllib.parse import unquote_plus

_HARMLESS = frozenset(
    (
        *("api-version", "api_version", "deployment", "format", "lang", "language", "model"),
        *("model_id", "region", "revision", "task", "v", "version"),
    )
)
"""Parameters whose values are written; any other one may be a key."""
_USER = re.compile(r"(?<=//)[^/?#]+(?=@)")
_PART = re.compile(r"[^?&;#]+")
_ROUNDS = 50_000


def redact(address: str) -> str:
    """Return an address with a mark in place of each of its secrets.

    Two keys have two marks, so that what is known about one address is not taken for that of
    another. A mark has 24 bits of a slow digest: too few to find the key by.

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
    left_out = {*users, *(value or name for name, _, value in values if not _said(name))} - {""}
    return left_out | {unquote_plus(secret) for secret in left_out}


def hide(message: str, secrets: set[str]) -> str:
    """Return a message in which no secret is left, nor six characters of one.

    A message may hold the beginning of an answer that repeats a secret, cut anywhere.

    Args:
        message: any text.
        secrets: those of less than four characters are left.
    """
    for secret in sorted(secrets, key=len, reverse=True):
        if len(secret) < 4:
            continue
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


def _said(name: str) -> bool:
    return name.strip().casefold() in _HARMLESS


def _parameter(part: str, front: str) -> str:
    name, equals, value = part.partition("=")
    if not equals:
        return _mark(name, front)
    return part if _said(name) or not value else f"{name}={_mark(value, front)}"


@cache
def _mark(secret: str, salt: str) -> str:
    raw = hashlib.pbkdf2_hmac("sha256", secret.encode(), salt.encode(), _ROUNDS)
    return f"***{raw.hex()[:6]}"
