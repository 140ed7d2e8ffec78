"""DREAM: questions about dialogues, with three answers to choose from."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar

from datamodules.multiple_choice import MultipleChoice
from datamodules.sources.readers import Row
from datamodules.sources.structured import read_entries
from text.bounded_files import EXPANSION, LINE_LIMIT, DataError, brief


class DREAM(MultipleChoice):
    """Dialogue-based reading comprehension (Sun et al. 2019).

    6,116 questions to train, 2,040 to validate, 2,041 to test. The turns of a dialogue, joined by
    spaces, are the context; the question and an answer, joined by a space, are a choice. The hub's
    dataset is a loading script, which the `datasets` library does not run any more: put the
    official files into `dream/` (`dev.json` as `validation.json`).

    Args:
        data_dir: folder DIR with `dream/<split>.json[.gz]`: a list of [dialogue turns, questions,
            id], each question with `question`, `choice` (3 texts) and `answer`. Needed: the corpus
            is not on the hub (https://github.com/nlpdata/dream has the files).
    """

    corpus = "dream"
    classes: ClassVar[tuple[str, ...]] = ("A", "B", "C")
    text_columns = ("dialogue", "choice")
    label_column = "answer"
    endings: ClassVar[tuple[str, ...]] = (".json",)
    origin = "the official files are at https://github.com/nlpdata/dream"

    def _rows(self, path: Path) -> Iterator[Row]:
        # Each question repeats its dialogue: a file of megabytes could become terabytes.
        total, limit = 0, max(LINE_LIMIT, EXPANSION * path.stat().st_size)
        for row in read_entries(path):
            if row.problem is not None:
                yield row
                continue
            try:
                dialogue, questions = _entry(row.values["value"])
            except ValueError as error:
                yield row._replace(values={}, problem=str(error))
                continue
            total += len(dialogue) * len(questions)
            if total > limit:
                msg = (
                    f"{path}, {row.place}: got {len(questions):,} questions about a dialogue of "
                    f"{len(dialogue):,} characters, and more than {limit:,} to read in all, "
                    "expected a few questions about each: look at what is in it"
                )
                raise DataError(msg)
            for number, question in enumerate(questions, 1):
                try:
                    values = {"dialogue": dialogue, **_question(question, len(self.class_names))}
                    yield row._replace(values=values)
                except ValueError as error:
                    yield row._replace(values={}, problem=f"question {number}: {error}")


def _entry(value: Any) -> tuple[str, list[Any]]:
    """Return the dialogue and the questions of `[turns, questions, id]`."""
    match value:
        case [[*turns], [*questions], _] if turns and questions:
            if all(isinstance(turn, str) for turn in turns):
                return " ".join(turns), questions
    msg = f"got {brief(value)}, expected [dialogue turns, questions, id]"
    raise ValueError(msg)


def _question(value: Any, choices: int) -> dict[str, Any]:
    """Return the choices, and the index of the right one; None for a question without answer."""
    match value:
        case {"question": str(question), "choice": [*answers]} if all(
            isinstance(answer, str) and answer.strip() for answer in answers
        ):
            right = value.get("answer")
        case _:
            msg = f"got {brief(value)}, expected question, choice (a list of texts) and answer"
            raise ValueError(msg)
    # Checked before the question is copied for each choice.
    if len(answers) != choices:
        msg = f"got {len(answers)} choices in column 'choice', expected {choices}"
        raise ValueError(msg)
    if right is not None and answers.count(right) != 1:
        msg = f"got answer {brief(right)}, expected one of the choices {brief(answers)}, once"
        raise ValueError(msg)
    return {
        "choice": [f"{question} {answer}" for answer in answers],
        "answer": None if right is None else answers.index(right),
    }
