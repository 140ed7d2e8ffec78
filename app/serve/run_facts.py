"""Facts of the live page about a run: its corpus, its verdict, slices, and texts to try."""

import logging
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from datamodules import CORPORA, TextDataModule
from datamodules.batching.examples import fingerprint
from datamodules.batching.sampler import permutation
from datamodules.labelled_texts import labelled_texts
from measure.evidence import AttackEvidence, Evidence, read_evidence
from measure.verdict import RunVerdict, judge_evidence
from run_files.run_directory import RunDirectory, class_name
from run_files.sample_records import Record
from text import Text

log = logging.getLogger(__name__)

TEXTS = 100
"""Texts of the corpus that the page offers, and changed texts of each attack."""
LENGTHS = (10, 20, 50, 200)
"""Upper bounds of the slices by number of words."""
_LENGTH_NAMES = ("1-10", "11-20", "21-50", "51-200", "more than 200")
_ATTACKED = ("succeeded", "failed")
# Not the keys of corpora, attacks and `diagnose`: their permutations must not be the same.
_PERMUTATION_KEY = 6


@dataclass(frozen=True, kw_only=True)
class RunFacts:
    """Stored facts of a model; None for what is unknown, or cannot be read."""

    corpus: str | None = None
    verdict: RunVerdict | None = None
    slices: Sequence[Mapping[str, Any]] = ()  # see `slice_figures`
    # Of the test split, a fixed random choice: `text`, `text_pair` (of pairs), `label`, the gold
    # class, and `certified`, the threats of its certificates in words.
    texts: Sequence[Mapping[str, Any]] = ()
    # Right predictions that an attack has changed: `text`, `text_pair`, `label`, `attack`,
    # `adversarial` (the changed text), `adversarial_pair` and `becomes` (its class).
    flips: Sequence[Mapping[str, Any]] = ()


def read_facts(run: RunDirectory, *, data_dir: Path | None, characters: int) -> RunFacts:
    """Return the facts about the weights of a run; texts of more `characters` are left out.

    A file that cannot be read costs a line in the log, and the page has no figures.
    """
    texts, names, rows = _read_corpus(run, data_dir)
    try:
        evidence = read_evidence(run)
    except (OSError, ValueError) as error:
        log.warning("%s: no figures of its files: %s", run.name, error)
        return RunFacts(texts=_draw(texts, names, characters, {}))
    certified: defaultdict[int, list[str]] = defaultdict(list)
    for stage, part in evidence.in_words.items():
        # The corpus may have changed since, or be another one: sample ids are of its rows.
        if part.rows not in (None, rows):
            log.warning("%s: %s is about other rows than its corpus has now", run.name, part.file)
            continue
        for record in part.records:
            if record["certified"] != "0":
                certified[record["sample_id"]].append(stage.removeprefix("certify_"))
    return RunFacts(
        corpus=None if evidence.results is None else evidence.results.get("corpus"),
        verdict=judge_evidence(evidence),
        slices=slice_figures(evidence, texts),
        texts=_draw(texts, names, characters, certified),
        flips=changed_texts(evidence, characters),
    )


def _read_corpus(
    run: RunDirectory, data_dir: Path | None
) -> tuple[dict[int, tuple[Text, int]], Sequence[str], str | None]:
    """Return the texts and classes of the test split by sample id, names of classes, and a digest.

    Only corpora of this program are built: a class that the settings of the run name is never
    imported. Nothing, and a line in the log, if the corpus cannot be read.
    """
    try:
        config = run.config()
        corpus = CORPORA[class_name(config, "data") or ""]
        # All settings: they say which rows the test split has, and how they are read.
        arguments = dict(config["data"].get("init_args") or {})
        if data_dir is not None:
            arguments["data_dir"] = str(data_dir)
        source = corpus(**arguments)
        if not isinstance(source, TextDataModule):
            return {}, (), None
        source.setup("test")
        examples = source.examples("test")
        texts = {number: (text, label) for number, text, label in labelled_texts(examples)}
        return texts, source.class_names, fingerprint(examples)
    except Exception as error:  # whatever it is: the page works without texts
        log.info("%s: no texts of its corpus to choose from: %s", run.name, error)
        return {}, (), None


def _draw(
    texts: Mapping[int, tuple[Text, int]],
    names: Sequence[str],
    characters: int,
    certified: Mapping[int, Sequence[str]],
) -> list[dict[str, Any]]:
    numbers = list(texts)
    order = (numbers[i] for i in permutation(len(texts), _PERMUTATION_KEY).tolist())
    drawn = islice((n for n in order if _fits(texts[n][0], characters)), TEXTS)
    return [
        {
            **_columns(texts[number][0]),
            "label": names[texts[number][1]],
            "certified": list(certified.get(number, ())),
        }
        for number in drawn
    ]


def changed_texts(evidence: Evidence, characters: int) -> list[dict[str, Any]]:
    """Return the `flips` of `RunFacts`, of texts with at most `characters`."""
    flips: list[dict[str, Any]] = []
    for attack in _breaking(evidence):
        for record in [r for r in attack.records if r.outcome == "succeeded"][:TEXTS]:
            if record.adversarial is None or not _fits(record.text, characters):
                continue
            label, changed = record.adversarial_prediction, _columns(record.adversarial)
            flips.append(
                {
                    **_columns(record.text),
                    "label": evidence.class_name(record.label),
                    "attack": attack.name,
                    **{k.replace("text", "adversarial"): v for k, v in changed.items()},
                    "becomes": None if label is None else evidence.class_name(label),
                }
            )
    return flips


def _breaking(evidence: Evidence) -> list[AttackEvidence]:
    """Return the attacks on texts of the test split whose successes are errors of the model."""
    return [attack for attack in evidence.attacks if attack.of_test and attack.breaks]


def slice_figures(
    evidence: Evidence, texts: Mapping[int, tuple[Text, int]]
) -> list[dict[str, Any]]:
    """Return the figures of a run by class and by number of words.

    `texts` of the test split and their classes, by sample id, are for records without texts.

    Returns:
        A row for each slice: `by` (class or words), `name`, `samples`, `accuracy`, `certified` (the
        share that is right and certified in words; None without such records) and `flips`: by
        attack, the number of right predictions that it attacked and the share that it changed.
    """
    in_words = list(evidence.in_words.values())
    parts = [*in_words, evidence.predictions, evidence.certificates, evidence.pgd]
    clean = next((part.records for part in parts if part is not None), None)
    if clean is None or not evidence.classifies:
        return []
    attacks = {
        attack.name: [
            (r.line(), r.outcome == "succeeded") for r in attack.records if r.outcome in _ATTACKED
        ]
        for attack in _breaking(evidence)
    }
    if evidence.pgd is not None:
        right = [r for r in evidence.pgd.records if r["prediction"] == r["label"]]
        attacks["pgd on vectors"] = [(record, not record["survived"]) for record in right]

    rows: list[dict[str, Any]] = []
    keys: dict[str, Callable[[Record], int | None]] = {
        "class": lambda record: int(record["label"]),
        "words": lambda record: _length(record, texts),
    }
    for by, key in keys.items():
        for value in sorted({v for record in clean if (v := key(record)) is not None}):
            own = [record for record in clean if key(record) == value]
            right = [record for record in own if record["prediction"] == record["label"]]
            certified = sum(record.get("certified", "0") != "0" for record in right)
            flips = {
                name: [changed for record, changed in records if key(record) == value]
                for name, records in attacks.items()
            }
            rows.append(
                {
                    "by": by,
                    "name": evidence.class_name(value) if by == "class" else _LENGTH_NAMES[value],
                    "samples": len(own),
                    "accuracy": len(right) / len(own),
                    "certified": certified / len(own) if in_words else None,
                    "flips": {k: [len(v), sum(v) / len(v)] for k, v in flips.items() if v},
                }
            )
    return rows


def _length(record: Record, texts: Mapping[int, tuple[Text, int]]) -> int | None:
    """Return the slice of a record by number of words; None without its text."""
    text = record.get("text")
    if text is None and (sample := texts.get(int(record["sample_id"]))) is not None:
        # Another label: the corpus has changed since, and the number is of another text.
        text = sample[0] if sample[1] == record["label"] else None
    if text is None:
        return None
    return bisect_left(LENGTHS, len((text if isinstance(text, str) else " ".join(text)).split()))


def text_of(row: Mapping[str, Any]) -> Text:
    """Return the text, or the pair, of a row of `RunFacts.texts`."""
    return (row["text"], row["text_pair"]) if "text_pair" in row else row["text"]


def _columns(text: Text) -> dict[str, str]:
    return {"text": text} if isinstance(text, str) else {"text": text[0], "text_pair": text[1]}


def _fits(text: Text, characters: int) -> bool:
    return max(map(len, [text] if isinstance(text, str) else text)) <= characters
