"""Requests and answers of a service, by JSON templates."""

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any, Literal, Protocol

from attacks.victims.http_settings import HttpSettings, fill_in, template
from attacks.victims.kinds import VictimError
from text import ClassLabels, Text

EACH = None
"""A step of a path: all elements of a list."""
Path = tuple[str | None, ...]
_NAMES = ("{scores}", "{label}", "{score}")


class AnswerError(VictimError):
    """An answer that cannot be used; with `again`, another try may give a better one."""

    def __init__(self, msg: str, *, again: bool = False) -> None:
        super().__init__(msg)
        self.again = again


class Exchange(Protocol):
    """Writes requests and reads answers.

    Attributes:
        size: texts of a request at most.
        outputs: kind of the numbers.
    """

    size: int
    outputs: Literal["probabilities", "logits", "labels"]

    def body(self, texts: Sequence[Text]) -> Any:
        """Return the JSON of a request about texts."""

    def rows(self, answer: Any, texts: Sequence[Text]) -> list[list[float] | AnswerError]:
        """Return a number for each class for each text, or the error of its answer.

        Raises:
            AnswerError: the answer as a whole is something else.
        """

    def about(self) -> dict[str, Any]:
        """Describe all that answers depend on."""


def columns(text: Text) -> tuple[str, ...]:
    """Return the one or two texts of a sample."""
    return (text,) if isinstance(text, str) else tuple(text)


def excerpt(value: Any) -> str:
    """Return the beginning of an answer, for a message."""
    text = repr(value)
    return text if len(text) <= 200 else f"{text[:200]}..."


def class_index(value: Any, classes: Sequence[str]) -> int:
    """Return the class that a label names, see `text.labels`; `LABEL_1` is the class of index 1.

    Raises:
        AnswerError: unknown class.
    """
    with suppress(ValueError):
        if (index := ClassLabels(classes)(value)) is not None:
            return index
    number = str(value).strip().casefold()
    # Hugging Face's names of classes without names.
    if number.startswith("label_") and number[6:].isdecimal() and int(number[6:]) < len(classes):
        return int(number[6:])
    msg = f"got label {value!r:.80}, expected one of {', '.join(classes)}: give --classes"
    raise AnswerError(msg)


class TemplateExchange:
    """A service whose requests and answers are described by JSON.

    Args:
        settings: with `request` and `answer`.
        classes: names of the classes.

    Raises:
        ValueError: templates that do not say where texts, labels and scores are.
    """

    def __init__(self, settings: HttpSettings, classes: Sequence[str]) -> None:
        self.classes = list(classes)
        self.request = template(settings.request, "request")
        self.answer = template(settings.answer, "answer")
        strings = set(_strings(self.request))
        self._batched = "{texts}" in strings
        if not self._batched and not any("{text}" in string for string in strings):
            msg = (
                f"got --http.request {settings.request!r:.200} without a place for the text, "
                'expected "{texts}" or "{text}" in it'
            )
            raise ValueError(msg)
        self.size = settings.per_request if self._batched else 1
        self._places = dict(_leaves(self.answer))
        self._check(settings)
        labels = "{scores}" not in self._places and "{score}" not in self._places
        self.outputs: Literal["probabilities", "logits", "labels"] = settings.outputs
        if labels:
            self.outputs = "labels"

    def about(self) -> dict[str, Any]:
        """See `Exchange`."""
        return {"request": self.request, "answer": self.answer, "outputs": self.outputs}

    def body(self, texts: Sequence[Text]) -> Any:
        """See `Exchange`."""
        if self._batched:
            both = [text if isinstance(text, str) else list(text) for text in texts]
            return fill_in(self.request, {"texts": both})
        parts = columns(texts[0])
        names = ("text", "text_pair")[: len(parts)]
        if len(parts) > 1 and not any("{text_pair}" in string for string in _strings(self.request)):
            msg = 'got pairs and an --http.request without "{text_pair}", expected a place for both'
            raise ValueError(msg)
        return fill_in(self.request, dict(zip(names, parts, strict=True)))

    def rows(self, answer: Any, texts: Sequence[Text]) -> list[list[float] | AnswerError]:
        """See `Exchange`."""
        if not self._batched:
            return [self._try_row(answer, self._places)]
        # `[*].label` of a list: the part before [*] leads to the list of texts.
        front = self._front()
        items = _at(answer, front)
        if not isinstance(items, list) or len(items) != len(texts):
            count = f"{len(items)} answers" if isinstance(items, list) else excerpt(items)
            msg = f"got {count} to {len(texts)} text(s), expected one for each: {excerpt(answer)}"
            raise AnswerError(msg, again=True)
        rest = {name: path[len(front) + 1 :] for name, path in self._places.items()}
        return [self._try_row(item, rest) for item in items]

    def _try_row(self, item: Any, paths: Mapping[str, Path]) -> list[float] | AnswerError:
        try:
            return self._row(item, paths)
        except AnswerError as error:
            return error

    def _front(self) -> Path:
        """Return the path to the list of texts."""
        path = next(iter(self._places.values()))
        return path[: path.index(EACH)]

    def _check(self, settings: HttpSettings) -> None:
        paths = self._places
        problem = None
        if not {"{scores}", "{label}"} & set(paths):
            problem = 'without "{scores}" or "{label}"'
        elif "{scores}" in paths and len(paths) > 1:
            problem = 'with "{scores}" and "{label}" or "{score}"'
        if self._batched and problem is None:
            if not all(EACH in path for path in paths.values()):
                problem = "without a list for the texts"
            elif len({path[: path.index(EACH)] for path in paths.values()}) > 1:
                problem = "with texts in several lists"
        if problem is None:
            skip = len(self._front()) + 1 if self._batched else 0
            rest = {name: path[skip:] for name, path in paths.items()}
            lists = {name: path.count(EACH) for name, path in rest.items()}
            # One list more than that of the texts: label and score of each class.
            if max(lists.values()) > ("{label}" in paths and "{score}" in paths):
                problem = "with more lists than texts and classes"
            elif len(set(lists.values())) > 1:
                problem = "with label and score in different lists"
            elif "{score}" in paths and not lists["{score}"] and len(self.classes) > 2:
                problem = "with the score of one class only, of more than two"
            elif "{score}" in paths and not lists["{score}"] and settings.outputs == "logits":
                problem = "with one logit only"
        if problem is not None:
            msg = (
                f'got --http.answer {settings.answer!r:.200} {problem}, expected "{{scores}}", or '
                '"{label}" and "{score}" in a list of classes, or "{label}" alone; with "{texts}" '
                "in the request, in a list of texts"
            )
            raise ValueError(msg)

    def _row(self, item: Any, paths: Mapping[str, Path]) -> list[float]:
        """Return the numbers of one text."""
        if "{scores}" in paths:
            return self._read_list(_at(item, paths["{scores}"]))
        label = paths["{label}"]
        score = paths.get("{score}")
        if score is None:
            index = class_index(_at(item, label), self.classes)
            return one_label(index, len(self.classes))
        if EACH not in label:
            return self._other(_at(item, label), _at(item, score))
        at = label.index(EACH)
        entries = _at(item, label[:at])
        if not isinstance(entries, list):
            msg = (
                f"got {excerpt(entries)}, expected a list of classes with their scores; an answer "
                "of another shape is described by --http.answer"
            )
            raise AnswerError(msg)
        names, numbers = label[at + 1 :], score[at + 1 :]
        values = {class_index(_at(e, names), self.classes): _at(e, numbers) for e in entries}
        return self._all(values, item)

    def _read_list(self, entries: Any) -> list[float]:
        if isinstance(entries, dict):
            return self._all(
                {class_index(key, self.classes): value for key, value in entries.items()}, entries
            )
        if not isinstance(entries, list) or len(entries) != len(self.classes):
            count = len(self.classes)
            msg = f"got scores {excerpt(entries)}, expected {count} numbers, one per class"
            raise AnswerError(msg)
        return [number(value) for value in entries]

    def _other(self, label: Any, score: Any) -> list[float]:
        """Return the probabilities of two classes, of which one is given."""
        index, value = class_index(label, self.classes), number(score)
        # Two classes: the other one gets the rest.
        return [value if i == index else 1 - value for i in range(2)]

    def _all(self, values: Mapping[int, Any], item: Any) -> list[float]:
        if len(values) < len(self.classes):
            missing = [name for i, name in enumerate(self.classes) if i not in values]
            msg = f"got no score of {', '.join(missing)} in {excerpt(item)}, expected all classes"
            raise AnswerError(msg)
        return [number(values[i]) for i in range(len(self.classes))]


def one_label(index: int, classes: int) -> list[float]:
    """Return the row of an answer that is a class alone."""
    return [float(i == index) for i in range(classes)]


def check_row(row: Sequence[float], classes: int, outputs: str) -> None:
    """Check the numbers of a text, one per class; a class alone is a distribution as well.

    Raises:
        AnswerError: they are not finite, or not the `outputs` that they should be.
    """
    if len(row) != classes or not all(map(math.isfinite, row)):
        msg = f"got scores {excerpt(list(row))}, expected {classes} finite numbers, one per class"
        raise AnswerError(msg)
    if outputs != "logits" and (min(row) < 0 or abs(math.fsum(row) - 1) > 0.01):
        msg = (
            f"got scores {excerpt(list(row))}, which are not probabilities (they sum to "
            f"{math.fsum(row):.4g}), expected numbers from 0 that sum to 1; or say "
            "--http.outputs logits"
        )
        raise AnswerError(msg)


def number(value: Any) -> float:
    """Return a finite number of an answer.

    Raises:
        AnswerError: it is something else.
    """
    try:
        # JSON's true is an int in Python.
        usable = isinstance(value, int | float) and not isinstance(value, bool)
        parsed = float(value) if usable else math.nan
    except OverflowError:
        parsed = math.inf
    if not math.isfinite(parsed):
        msg = f"got score {value!r:.80}, expected a finite number"
        raise AnswerError(msg)
    return parsed


def _at(value: Any, path: Path) -> Any:
    """Return the part of a JSON value at a path without lists."""
    for key in path:
        if not isinstance(value, dict) or key not in value:
            msg = f"got {excerpt(value)}, expected an object with {key!r}, as in --http.answer"
            raise AnswerError(msg)
        value = value[key]
    return value


def _leaves(value: Any, path: Path = ()) -> Iterator[tuple[str, Path]]:
    """Yield the placeholders of an answer with their paths."""
    if isinstance(value, dict):
        for key, child in value.items():
            yield from _leaves(child, (*path, key))
    elif isinstance(value, list):
        # A list with one element means any number of them.
        for child in value[:1]:
            yield from _leaves(child, (*path, EACH))
    elif value in _NAMES:
        yield value, path


def _strings(value: Any) -> Iterator[str]:
    if isinstance(value, dict | list):
        for child in value.values() if isinstance(value, dict) else value:
            yield from _strings(child)
    elif isinstance(value, str):
        yield value
