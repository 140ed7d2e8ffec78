"""The settings that hold an attack inside the set of texts of a certificate."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from attacks.set_names import check_names

if TYPE_CHECKING:
    from attacks.resources.catalogue import Resources
    from certify.threats import Threat
    from text import WordSettings


@dataclass(frozen=True, kw_only=True)
class ThreatSettings:
    """The set of texts that an attack may use, as `certify --threat` takes it.

    Attributes:
        kind: none; synonyms, characters or words (docs/certificates/words.md); or perturbation sets
            with commas between (docs/robust_words.md).
        lists: JSON file with synonyms.
        k: number of changes at most; `all` for any number of synonyms or words of sets, as if it
            were not given.
    """

    kind: str = "none"
    lists: str | None = None
    k: int | Literal["all"] | None = None

    def __post_init__(self) -> None:
        """Raise ValueError for settings that do not fit together; files are not read."""
        if self.kind not in ("none", "synonyms", "characters", "words"):
            check_names(self.kind)
        if isinstance(self.k, int) and self.k < 0:
            msg = f"got threat.k={self.k}, expected a whole number of at least 0, or all"
            raise ValueError(msg)
        if self.kind == "none" and (self.lists is not None or self.k is not None):
            msg = f"got threat.lists={self.lists} and k={self.k} without threat.kind, expected both"
            raise ValueError(msg)
        if (self.lists is not None) != (self.kind == "synonyms"):
            msg = (
                f"got threat.kind={self.kind} and lists={self.lists}, expected a file of lists for "
                "synonyms, and only for them"
            )
            raise ValueError(msg)
        if self.kind in ("characters", "words") and not isinstance(self.k, int):
            setting = "without k" if self.k is None else f"and k={self.k}"
            msg = f"got threat.kind={self.kind} {setting}, expected a number of changes"
            raise ValueError(msg)

    def threat(self, words: "WordSettings", resources: "Resources") -> "Threat | None":
        """Return the set for the words of the model; None if there is none.

        Perturbation sets take WordNet and vectors from `resources`.

        Raises:
            ValueError: a broken file.
            OSError: the file cannot be read.
        """
        if self.kind == "none":
            return None
        from attacks.word_sets import find_threat

        # For the threat, None is any number.
        k = None if self.k == "all" else self.k
        return find_threat(self.kind, lists=self.lists, k=k, words=words, resources=resources)
