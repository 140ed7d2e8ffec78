"""Cuts runs of letters into words, for scripts that have no spaces between them."""

import re
from collections.abc import Iterable
from typing import TYPE_CHECKING

from attacks.digests import content_digest

if TYPE_CHECKING:
    from attacks.document import Spans

_UNSPACED = re.compile(
    "[\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"  # Chinese characters
    "\u3040-\u30ff\u31f0-\u31ff]"  # Japanese syllables
    "[\u3099\u309a\ufe00-\ufe0f\U000e0100-\U000e01ef]*"
)
_PART = re.compile(f"(?:{_UNSPACED.pattern})|(?:(?!{_UNSPACED.pattern}).)+", re.DOTALL)


def characters(run: str) -> "Spans":
    """Cut a run into its characters where these are Chinese or Japanese; other parts stay whole."""
    return [match.span() for match in _PART.finditer(run)]


class LongestWords:
    """Cuts a run into the longest words of a list, from left to right; single characters else."""

    def __init__(self, words: Iterable[str]) -> None:
        self.words = frozenset(word for word in words if len(word) > 1)
        self.longest = max(map(len, self.words), default=1)

    def about(self) -> dict[str, str]:
        """See `attacks.fingerprint`."""
        return {"words": content_digest(sorted(self.words))}

    def __call__(self, run: str) -> "Spans":
        """Return start and end of each word of a run."""
        spans: Spans = []
        parts = characters(run)
        at = 0
        while at < len(parts):
            start, end = parts[at]
            # The longest word first; a single character always fits.
            for count in range(min(self.longest, len(parts) - at), 1, -1):
                if run[start : parts[at + count - 1][1]] in self.words:
                    end = parts[at + count - 1][1]
                    break
            spans.append((start, end))
            at = next((i for i in range(at, len(parts)) if parts[i][0] >= end), len(parts))
        return spans
