"""Functional tests of a classifier: small groups of texts, each about one ability.

Sources: Ribeiro et al., "Beyond Accuracy: Behavioral Testing of NLP Models with CheckList", 2020
(minimum functionality tests and invariance tests); Roettger et al., "HateCheck: Functional Tests
for Hate Speech Detection Models", 2021.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from attacks.digests import content_digest
from attacks.victims.kinds import Victim
from measure.measurement import Measurement, Record
from measure.table_samples import LabelledTable, as_classes
from text import Text, label_text
from text.estimates import IntervalEstimate, aligned, wilson
from text.plural import plural
from text.subjects import Subject

AT_ONCE = 256
"""Texts of one question to the victim."""


class FunctionalTest(NamedTuple):
    """A text of a functional test.

    Attributes:
        sample_id: position in the file.
        text: the text.
        functionality: the ability that it tests.
        label: its class; None in a test of invariance.
        pair: texts of one functionality with the same pair must have the same prediction; None in
            a test with classes.
    """

    sample_id: int
    text: Text
    functionality: str
    label: int | None
    pair: str | None


@dataclass(frozen=True, kw_only=True)
class Functionality:
    """The outcome of one functionality: the number of passed tests, and their share."""

    name: str
    passed: int
    share: IntervalEstimate


def labelled_tests(
    table: LabelledTable, classes: Sequence[str], label_names: Sequence[str] | None = None
) -> list[FunctionalTest]:
    """Return the tests of a table whose labels are classes: the prediction must be the label.

    `label_names` are those of `as_classes`.

    Raises:
        ValueError: labels that are not classes, or numbers that cannot be the classes.
    """
    labels = {label_text(label) for _, _, label in table.rows} - {None}
    digits = all(label is not None and label.isdecimal() for label in labels)
    # 0 and 1 of a file about hate are not the first two of hate, offensive, neither.
    if (
        digits
        and label_names is None
        and table.names is None
        and not labels <= set(classes)
        and len(labels) != len(classes)
    ):
        numbers = sorted(map(str, labels))
        msg = (
            f"got the labels {', '.join(numbers)} in {table.name} for the classes "
            f"{', '.join(classes)}, expected as many: say which class each label is by "
            f"--label_names {','.join(f'{number}=CLASS' for number in numbers)}"
        )
        raise ValueError(msg)
    return [
        FunctionalTest(
            sample.sample_id, sample.text, table.groups[sample.sample_id], sample.label, None
        )
        for sample in as_classes(table, classes, label_names)
    ]


def invariance_tests(table: LabelledTable) -> list[FunctionalTest]:
    """Return the tests of a table whose labels are pairs: texts of a pair get one prediction.

    Raises:
        ValueError: a row without pair, or a pair of one text.
    """
    tests, sizes = [], dict[tuple[str, str], int]()
    for position, text, label in table.rows:
        if (pair := label_text(label)) is None:
            msg = f"{table.name}, row {position + 1}: got no pair, expected one"
            raise ValueError(msg)
        functionality = table.groups[position]
        tests.append(FunctionalTest(position, text, functionality, None, pair))
        sizes[functionality, pair] = sizes.get((functionality, pair), 0) + 1
    if single := [key for key, size in sizes.items() if size == 1]:
        functionality, pair = single[0]
        msg = (
            f"got {plural(len(single), 'pair')} of one text in {table.name} (the first: {pair} of "
            f"{functionality}), expected two or more texts with the same prediction"
        )
        raise ValueError(msg)
    return tests


class FunctionalTests(Measurement[FunctionalTest]):
    """Asks a classifier for its predictions of functional tests.

    `name` is that of the file in the run; `identity` has the weights of the classifier, or its
    name.
    """

    # Weights of a service or a function are unknown: a finished outcome is never reused.
    elsewhere = None
    replaces = True

    def __init__(
        self,
        victim: Victim,
        tests: Sequence[FunctionalTest],
        *,
        name: str,
        classes: Sequence[str],
        identity: Mapping[str, Any],
    ) -> None:
        self._victim, self._tests, self._identity = victim, tests, identity
        self.class_names = classes
        self.stage, self.file = f"functional/{name}", f"functional/{name}.jsonl"

    def subject(self) -> Subject:
        """Return the classifier and the tests."""
        rows = content_digest([[*test] for test in self._tests])
        return {**self._identity, "classes": list(self.class_names), "tests": rows}

    def samples(self) -> Sequence[FunctionalTest]:
        """Return all tests."""
        return self._tests

    def measure(self, samples: Sequence[FunctionalTest]) -> Iterator[Sequence[Record]]:
        """Yield the records of each batch."""
        for start in range(0, len(samples), AT_ONCE):
            batch = samples[start : start + AT_ONCE]
            logits = self._victim.logits([test.text for test in batch])
            yield [
                {**test._asdict(), "prediction": prediction}
                for test, prediction in zip(batch, logits.argmax(axis=1).tolist(), strict=True)
            ]

    def figures(self, records: Sequence[Record]) -> dict[str, float]:
        """Return the pass rate of all tests and of each functionality, with their counts."""
        rows = functionalities(records)
        count = sum(row.share.count for row in rows)
        passed = sum(row.passed for row in rows)
        values = {
            "pass_rate": passed / count,
            "mean_pass_rate": sum(row.share.value for row in rows) / len(rows),
            "samples": float(count),
            "functionalities": float(len(rows)),
        }
        for row in rows:
            values[f"pass_rate@{row.name}"] = row.share.value
            values[f"samples@{row.name}"] = float(row.share.count)
        return values

    def summary(self, records: Sequence[Record]) -> Any:
        """Return the functionalities with their intervals, the worst one first."""
        return [
            {"name": row.name, "passed": row.passed, "count": row.share.count}
            | {"pass_rate": row.share.value, "low": row.share.low, "high": row.share.high}
            for row in functionalities(records)
        ]


def functionalities(records: Sequence[Record]) -> list[Functionality]:
    """Return the outcome of each functionality, the lowest pass rate first.

    A test is a text with its class, or all texts of a pair.
    """
    outcomes: dict[str, list[bool]] = {}
    pairs: dict[tuple[str, str], set[int]] = {}
    for record in records:
        results = outcomes.setdefault(record["functionality"], [])
        if record["pair"] is None:
            results.append(record["prediction"] == record["label"])
        else:
            pair = record["functionality"], record["pair"]
            pairs.setdefault(pair, set()).add(record["prediction"])
    for (functionality, _), predictions in pairs.items():
        # A pair is one test, which passes if all its texts have one prediction.
        outcomes[functionality].append(len(predictions) == 1)
    rows = [
        Functionality(name=name, passed=sum(results), share=wilson(sum(results), len(results)))
        for name, results in outcomes.items()
    ]
    return sorted(rows, key=lambda row: (row.share.value, -row.share.count, row.name))


def functional_table(records: Sequence[Record]) -> str:
    """Return the pass rates as a table, the worst functionality first."""
    rows = functionalities(records)
    passed = sum(row.passed for row in rows)
    total = wilson(passed, sum(row.share.count for row in rows))
    cells = [
        [
            row.name,
            f"{row.passed} of {row.share.count}",
            f"{row.share.value:.3f}",
            f"{row.share.low:.3f} - {row.share.high:.3f}",
        ]
        for row in (*rows, Functionality(name="all", passed=passed, share=total))
    ]
    mean = sum(row.share.value for row in rows) / len(rows)
    table = aligned([["functionality", "passed", "pass rate", "95 % interval"], *cells])
    pairs = any(record["pair"] is not None for record in records)
    meaning = "all texts of a pair get the same prediction" if pairs else "the prediction is right"
    count = plural(len(rows), "functionality")
    return f"{table}\n\nmean of {count}: {mean:.3f}; a test passes if {meaning}"
