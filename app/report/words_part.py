"""Certificates in words: certified accuracy, attacks above it, the worst texts."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from app.attack.attack_report import compare
from app.report.evidence import Evidence, Measured
from app.report.page_parts import WORST, Cell, Worst, share_cell, shortened
from app.threats.threat_records import Inside, Layer, Record, attacks_inside, sandwich
from certify.threats import THREATS, Threat, parse_threat
from certify.threats.parsing import parse_k
from text.word_settings import WordSettings


@dataclass(frozen=True)
class LayerRow:
    """A number of changes.

    Attributes:
        k: the number.
        certified: certified accuracy of all texts.
        attacks: names of the attacks with as many changes.
        below: certified accuracy of the texts that all of these have; None without attacks.
        attacked: accuracy under these attacks; None without attacks.
    """

    k: str
    certified: Cell
    attacks: Sequence[str]
    below: Cell | None
    attacked: Cell | None


@dataclass(frozen=True)
class InWords:
    """The certificates of one `certify --threat`.

    Attributes:
        name: of its files.
        statement: what may be changed.
        about: lines about the certificates.
        rows: for each number of changes.
        worst: texts that the fewest changes give another prediction.
        broken: numbers of the samples that are certified and that an attack has changed.
        texts: number of texts.
    """

    name: str
    statement: str
    about: Sequence[str]
    rows: Sequence[LayerRow]
    worst: Sequence[Worst]
    broken: Sequence[int]
    texts: int


def in_words(evidence: Evidence) -> Iterator[InWords]:
    """Yields the certificates in words on the test split.

    Args:
        evidence: of a run.
    """
    for stage, measured in evidence.in_words.items():
        about, records = measured.about, measured.records
        ks = [parse_k(k) for k in about["k"]]
        attacks, why = _attacks(evidence, measured)
        layers = sandwich(attacks, records, ks)
        broken = sorted({sample for layer in layers for sample in layer.broken})
        yield InWords(
            name=stage.removeprefix("certify_"),
            statement=about["threat"]["statement"],
            about=[*_about(measured), *([why] if why else [])],
            rows=[_row(layer, records) for layer in layers],
            worst=[*_worst(records)],
            broken=broken,
            texts=len(records),
        )


def _about(measured: Measured) -> Iterator[str]:
    kinds = Counter(line["kind"] for line in measured.records)
    yield ", ".join(f"{kind}: {count} texts" for kind, count in kinds.most_common())
    sure = {line["confidence"] for line in measured.records if "confidence" in line}
    if sure:
        yield f"each with confidence {min(sure):g}, of the smoothed classifier around the model"
    elif "bound" in (measured.about.get("around") or {}):
        yield "by a formula as printed, which guarantees nothing"
    elif measured.about.get("around"):
        yield "of the model behind an encoding of words"
    cut = sum(line["cut"] for line in measured.records)
    if cut:
        yield f"{cut} texts are longer than the model reads"


def _attacks(evidence: Evidence, measured: Measured) -> tuple[list[Inside], str]:
    """Returns the attacks inside the threat, and why none can be compared."""
    if "bound" in (measured.about.get("around") or {}):
        return [], "not compared with attacks: the formula guarantees nothing"
    if measured.about.get("around"):
        return [], "not compared with attacks: these are on the model itself"
    if not evidence.attacks:
        return [], ""
    try:
        threat = _threat(measured.about)
    except OSError as error:
        return [], f"not compared with attacks: {error.filename} cannot be read ({error.strerror})"
    except ValueError as error:
        return [], f"not compared with attacks: {' '.join(str(error).split())}"
    names = {one.name for one in evidence.attacks}
    found = attacks_inside(evidence.run, threat, "test")
    return [one for one in found if one.name in names], ""


def _threat(about: Mapping[str, Any]) -> Threat:
    """Returns the threat of some certificates.

    Raises:
        ValueError: nobody has said which words and lists it has, or the lists are others now.
        OSError: the lists cannot be read.
    """
    if (given := about.get("threat_from")) is None:
        msg = "an earlier version has certified these texts, and has not said which words they have"
        raise ValueError(msg)
    name, lists = about["threat"]["name"], given["lists"]
    k = None if THREATS[name].endless else 0
    threat = parse_threat(name, lists=lists, k=k, words=WordSettings(split=given["words"]))
    if threat.digest != about["threat"]["digest"]:
        msg = f"{lists} has other lists than those of the certificates"
        raise ValueError(msg)
    return threat


def _row(layer: Layer, records: Sequence[Record]) -> LayerRow:
    right = [line for line in records if line["prediction"] == line["label"]]
    held = sum(line["holds"][layer.k] for line in right) / len(records)
    below = attacked = None
    if layer.attacked is not None:
        below = share_cell(layer.certified, layer.samples)
        attacked = share_cell(layer.attacked, layer.samples)
    return LayerRow(layer.k, share_cell(held, len(records)), layer.attacks, below, attacked)


def _worst(records: Sequence[Record]) -> Iterator[Worst]:
    pairs = [
        (line, compare(line["text"], line["witness"]))
        for line in records
        if line["witness"] is not None and line["prediction"] == line["label"]
    ]
    counted = [(sum(piece.changed for piece in both[0]), line, both) for line, both in pairs]
    counted.sort(key=lambda one: (one[0], one[1]["sample_id"]))
    for count, line, (before, after) in counted[:WORST]:
        yield Worst(
            title=f"sample {line['sample_id']}: {line['class']} → {line['witness_class']}",
            facts=[
                f"{count} word{'s' * (count != 1)} changed",
                f"certified for {line['certified']}",
            ],
            before=[shortened(before)],
            after=[shortened(after)],
            broken=False,
        )


def contradiction(one: InWords) -> str:
    """Returns the sentence of a page with certificates that an attack contradicts."""
    samples = ", ".join(map(str, one.broken[:10]))
    more = f" and {len(one.broken) - 10} more" if len(one.broken) > 10 else ""
    return (
        f"an attack has changed {len(one.broken)} of {one.texts:,} texts inside their "
        f"certificate in words ({one.name}: samples {samples}{more})"
    )
