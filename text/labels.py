"""The meaning of a label in a file: decided here, for every command that reads labels."""

import math
import re
import sys
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any

_INTEGER = re.compile(r"([+-]?(?:0|[1-9][0-9]{0,99}))(?:\.0*)?")
_FRACTION = re.compile(r"[+-]?(?:0|[1-9][0-9]*)\.[0-9]*")
# The name of a class that is named by a number; matches `01` too.
_NUMERAL = re.compile(r"[+-]?\d+(?:\.\d*)?")
_ELEMENT = r"""(?:[+-]?\d+(?:\.\d*)?|'[^']*'|"[^"]*"|true|false)"""
# A list that was written as text: `[0, 3]`, `[0 1 0]`, `['joy', 'fear']`.
_LIST = re.compile(rf"\[\s*(?:{_ELEMENT}(?:\s*,\s*|\s+))*{_ELEMENT}?\s*\]", re.IGNORECASE)
# From it on, Python writes a float with an exponent.
_WRITTEN_OUT = 1e16
_NAN = "nan"
# Marks of rows without label (hub, SNLI, NaN as text), where no class has that name.
_ABSENT = frozenset({"-1", "-", _NAN})


class FileLabelsError(ValueError):
    """The labels of a file contradict each other: names and indices, or several in a row."""


def label_text(value: Any) -> str | None:
    """Return the spelling by which labels are compared: 1, 1.0, "1" and " 1.0 " are all "1".

    Args:
        value: a label from a file, the hub or NumPy.

    Returns:
        The spelling; None for None, NaN and an empty text.

    Raises:
        FileLabelsError: several labels, or a value of another kind.
    """
    if type(value) is str:  # nearly every label of a file
        return _spell(value)
    # Without numpy in memory no label is a number of numpy; `inspect` does not load it.
    if (numpy := sys.modules.get("numpy")) is not None and isinstance(value, numpy.generic):
        value = value.item()
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return None
    if isinstance(value, float) and value.is_integer() and abs(value) < _WRITTEN_OUT:
        value = int(value)
    # A bool is an int: True stays "True", it is not 1.
    if isinstance(value, bool | int | float):
        return str(value)
    if isinstance(value, str):
        return _spell(value)
    raise _several(value)


@lru_cache(maxsize=1024)
def _spell(value: str) -> str | None:
    text = unicodedata.normalize("NFC", value.strip())
    if _LIST.fullmatch(text):
        raise _several(text)
    if (integer := _INTEGER.fullmatch(text)) is not None:
        return str(int(integer[1]))
    return repr(float(text)) if _FRACTION.fullmatch(text) else text or None


def _several(value: Any) -> FileLabelsError:
    return FileLabelsError(
        f"got label {_brief(value)}, expected the name or the number of one class: a text with "
        "several labels (multi-label data) is not supported; write one label in each row, or a "
        "column of yes and no for each label, and train one model for each of these columns"
    )


def _brief(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:80]}..."


def is_number(text: str) -> bool:
    """Return True for a class name that is a number."""
    return _NUMERAL.fullmatch(text) is not None or text.isdigit()


def find_classes(labels: Iterable[str]) -> list[str]:
    """Return the classes that labels (of `label_text`) name: sorted, numbers by their size."""
    names = {label for label in labels if label.casefold() != _NAN}
    if all(_NUMERAL.fullmatch(name) for name in names):
        return sorted(names, key=lambda name: (float(name), name))
    return sorted(names)


def same_classes(first: Sequence[str], second: Sequence[str]) -> bool:
    """Return True for the same names in the same order, compared by `label_text`."""
    return [label_text(name) for name in first] == [label_text(name) for name in second]


class ClassLabels:
    """The meaning of the labels of one file, in terms of known classes.

    A label that names a class is that class; case counts only where names differ in nothing else.
    A label is an index only where no class is named by a number. One file has names or indices,
    never both.

    Args:
        class_names: names of the classes, by index.
        synonyms: other names of the classes, in the same order.
        data_names: names of 0, 1, ... in the file, where the data set declares them.
        meanings: class index of each label, set by the user; any other label is then an error.
    """

    def __init__(
        self,
        class_names: Sequence[str],
        synonyms: Sequence[Sequence[str]] = (),
        *,
        data_names: Sequence[str] = (),
        meanings: Mapping[str, int] | None = None,
    ) -> None:
        self.class_names = list(class_names)
        self.data_names = list(data_names)
        self._name: str | None = None
        self._number: str | None = None
        self._meanings = meanings
        self._parsed: dict[str, int | None] = {}
        self._exact: dict[str, int] = {}
        self._folded: dict[str, int] = {}
        for names in (class_names, *synonyms):
            self._add(names)
        self._numbered = any(is_number(name) for name in self.class_names)
        # LABEL_0 is transformers' default name: such classes have no names, only numbers.
        self._unnamed = len(self.data_names) in (0, len(self.class_names)) and all(
            name in (f"LABEL_{i}", str(i)) for i, name in enumerate(self.class_names)
        )
        if meanings is not None:
            self._exact, self._folded = {}, {}
            for label, index in meanings.items():
                self._exact[label_text(label) or ""] = index
                self._folded[label.strip().casefold()] = index

    def _add(self, names: Sequence[str]) -> None:
        """Add names of the classes, except ambiguous names, which would mean two classes."""
        for table, fold in ((self._exact, False), (self._folded, True)):
            spelled: dict[str, set[int]] = {}
            for index, name in enumerate(names):
                text = label_text(name) or ""
                spelled.setdefault(text.casefold() if fold else text, set()).add(index)
            for text, indices in spelled.items():
                if len(indices) == 1:
                    table.setdefault(text, *indices)

    @property
    def by_number(self) -> bool:
        """True if a label so far was a number instead of the name of a class."""
        return self._number is not None and not self._unnamed

    def find(self, text: str) -> int | None:
        """Return the class of a name; None if it names none."""
        return self._exact.get(text, self._folded.get(text.casefold()))

    def __call__(self, value: Any) -> int | None:
        """Return the class of a label, by its index; None for a row without label.

        Raises:
            ValueError: no such class.
            FileLabelsError: several labels; or the labels before were of the other kind, names or
                indices.
        """
        if type(value) is not str:
            return self._parse(label_text(value))
        if value not in self._parsed:  # a file has the same few labels in all rows
            self._parsed[value] = self._parse(label_text(value))
        return self._parsed[value]

    def _parse(self, text: str | None) -> int | None:
        if text is None:
            return None
        # At most nine digits: longer numbers are no indices.
        number = int(text) if text.isascii() and text.isdigit() and len(text) < 10 else None
        data_name = None if number is None else self._data_name(number)
        if self._meanings is not None:
            index = self.find(text)
            index = self.find(data_name) if index is None and data_name is not None else index
        elif data_name is not None and number is not None:
            # The data set declares that this number is an index, not a name.
            index = number if self._unnamed else self.find(data_name)
            self._agree(number=text)
        elif (index := self.find(text)) is not None:
            self._agree(name=text)
        elif number is not None and not self._numbered and number < len(self.class_names):
            index = number
            self._agree(number=text)
        if index is None and text.casefold() not in _ABSENT:
            raise self._unknown(text, data_name)
        return index

    def _data_name(self, number: int) -> str | None:
        """Return the name that the data set has for a number."""
        return label_text(self.data_names[number]) if number < len(self.data_names) else None

    def _unknown(self, text: str, data_name: str | None) -> ValueError:
        label = _brief(text) if data_name is None else f"{text} ({data_name})"
        msg = f"unknown label {label}, expected one of {_brief(self.class_names)}"
        if not (self._numbered or self._meanings or self.data_names):
            msg += f" or 0 ... {len(self.class_names) - 1}"
        return ValueError(msg)

    def _agree(self, *, name: str | None = None, number: str | None = None) -> None:
        self._name, self._number = self._name or name, self._number or number
        if self._name is not None and self._number is not None:
            msg = (
                f"got the label {_brief(self._name)}, which names a class, and the label "
                f"{self._number}, which is an index, in one file, expected one kind: names of "
                f"classes ({', '.join(self.class_names)}), or indices"
            )
            raise FileLabelsError(msg)

    def legend(self) -> str:
        """Return the meanings of the numbers of the file: `0 = contradiction, 1 = entailment`."""
        numbers = range(len(self.data_names or self.class_names))
        indices = [
            number if name is None or self._unnamed else self.find(name)
            for number in numbers
            for name in [self._data_name(number)]
        ]
        return ", ".join(
            f"{number} = {self.class_names[index]}"
            for number, index in zip(numbers, indices, strict=True)
            if index is not None
        )
