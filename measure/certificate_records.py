"""Certificates in words as records: lines, figures, a curve, and what attacks show from above."""

import json
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from certify.threats import TextCertificate, Threat
from certify.threats.parsing import parse_k
from measure.charts import Series, error_bars, pixels
from run_files.event_files import evaluation_writer
from run_files.run_directory import RunDirectory
from run_files.weights import SHORT
from text.bounded_files import json_lines, read_json

Record = dict[str, Any]
POINTS = 20
"""Numbers of changes up to which a curve is drawn, where all of them are known."""


class Sample(NamedTuple):
    """A text with its class.

    Attributes:
        sample_id: its number in the split.
        text: as the threat is about it.
        label: gold class.
    """

    sample_id: int
    text: str
    label: int


def written(k: int | None) -> str:
    """Returns a number of changes as the command line has it."""
    return "all" if k is None else str(k)


def record(
    found: TextCertificate, ks: Sequence[int | None], names: Sequence[str], sample: Sample | None
) -> Record:
    """Returns the line of a certificate.

    Args:
        found: the certificate.
        ks: the numbers of changes that were asked about.
        names: of the classes.
        sample: the sample it is about; None for a text of the command line.
    """
    about = {} if sample is None else {"sample_id": sample.sample_id, "label": sample.label}
    other = found.witness_prediction
    return {
        **about,
        "prediction": found.prediction,
        "class": names[found.prediction],
        "certified": written(found.certified),
        "holds": {written(k): hold for k, hold in zip(ks, found.holds, strict=True)},
        "kind": found.kind,
        **({} if found.confidence is None else {"confidence": found.confidence}),
        "witness": found.witness,
        "witness_class": None if other is None else names[other],
        "cut": found.cut,
        "unknown": found.unknown,
        "text": found.text,
    }


def figures(records: Sequence[Record], ks: Sequence[int | None], skipped: int) -> dict[str, float]:
    """Returns the figures of a split by the last part of their names.

    `accuracy` is that of the predictions, `accuracy@K` the share of samples that are predicted
    rightly and certified for K changes.

    Args:
        records: of all samples.
        ks: the numbers of changes.
        skipped: samples that the threat says nothing about.
    """
    count = len(records)
    right = [line["prediction"] == line["label"] for line in records]
    found = {"accuracy": sum(right) / count}
    for k in map(written, ks):
        held = (line["holds"][k] for line in records)
        found[f"accuracy@{k}"] = sum(r and h for r, h in zip(right, held, strict=True)) / count
    cut = sum(line["cut"] for line in records)
    return {**found, "samples": float(count), "skipped": float(skipped), "cut": float(cut)}


def stamp_of(threat: str, checkpoint: str) -> dict[str, str]:
    """Returns what each line says that it is about.

    Args:
        threat: digest of the threat.
        checkpoint: digest of the weights.
    """
    return {"threat": threat[:SHORT], "checkpoint": checkpoint[:SHORT]}


class Curve(NamedTuple):
    """Certified accuracy in % by the number of changes.

    Attributes:
        changes: the numbers of changes; None for all words at once.
        accuracy: in %, as many.
    """

    changes: Sequence[int | None]
    accuracy: Sequence[float]

    def drawn(self) -> tuple[Series, Sequence[str]]:
        """Returns the line of a figure, and the names of its places where they are no numbers."""
        names = () if None not in self.changes else tuple(map(written, self.changes))
        places = range(len(names)) if names else [k for k in self.changes if k is not None]
        return Series(name="certified", x=list(places), mean=self.accuracy), names


def curve(records: Sequence[Record], ks: Sequence[int | None]) -> Curve:
    """Returns certified accuracy by the number of changes, 0 first and all words last."""
    right = [line for line in records if line["prediction"] == line["label"]]
    numbers = [k for k in ks if k]
    if None in ks and any(line["certified"] not in _known(ks) for line in records):
        # The largest number of each text is known.
        numbers = list(range(1, POINTS + 1))
        kept = [sum(_reaches(line["certified"], k) for line in right) for k in numbers]
    else:
        kept = [sum(line["holds"][str(k)] for line in right) for k in numbers]
    changes: list[int | None] = [0, *numbers]
    kept = [len(right), *kept]
    if None in ks:
        changes.append(None)
        kept.append(sum(line["holds"]["all"] for line in right))
    return Curve(changes, [100 * one / len(records) for one in kept])


def _known(ks: Sequence[int | None]) -> set[str]:
    return {"0", *map(written, ks)}


def _reaches(certified: str, k: int) -> bool:
    return certified == "all" or int(certified) >= k


def write(
    run: RunDirectory,
    name: str,
    records: Sequence[Record],
    ks: Sequence[int | None],
    about: Mapping[str, Any],
) -> None:
    """Writes curve and TensorBoard into a run.

    Args:
        run: where.
        name: of the files: certificates_NAME.
        records: of all samples.
        ks: the numbers of changes.
        about: weights, threat and rows.

    Raises:
        OSError: a file cannot be written.
    """
    found = curve(records, ks)
    line, names = found.drawn()
    figure = error_bars(
        [line],
        run.path / f"certificates_{name}.png",
        x_label="changes",
        y_label="certified accuracy, %",
        title=f"{run.name}: {about['threat']['name']}",
        ticks=names,
        description=json.dumps(about),
    )
    writer = evaluation_writer(run, f"certify_{name}")
    for k, value in zip(found.changes, found.accuracy, strict=True):
        # A curve over changes, where others are over steps.
        if k is None:
            writer.add_scalar(f"certify_{name}/accuracy_all", value / 100, 0)
        else:
            writer.add_scalar(f"certify_{name}/accuracy", value / 100, k)
    writer.add_image(f"certify_{name}/curve", pixels(figure), 0, dataformats="HWC")
    writer.close()


class Layer(NamedTuple):
    """Certificates for a number of changes below attacks with as many.

    Attributes:
        k: number of changes.
        samples: number of those that all of the attacks have; of all samples without attacks.
        certified: share of these samples.
        attacks: names of the attacks.
        attacked: share of these samples that no attack has changed; None without attacks.
        broken: samples that are certified and that an attack has changed.
    """

    k: str
    samples: int
    certified: float
    attacks: tuple[str, ...]
    attacked: float | None
    broken: tuple[int, ...]


class Inside(NamedTuple):
    """An attack that was held inside a threat.

    Attributes:
        name: of its files.
        k: largest number of changes.
        outcomes: by the number and the text of the sample; a text outside of the set is no success.
    """

    name: str
    k: int | None
    outcomes: Mapping[tuple[int, str], str]

    @property
    def changed(self) -> set[tuple[int, str]]:
        """The samples that it has changed."""
        return {key for key, outcome in self.outcomes.items() if outcome == "succeeded"}


def sandwich(
    attacks: Sequence[Inside], records: Sequence[Record], ks: Sequence[int | None]
) -> list[Layer]:
    """Compares certificates with attacks on the same classifier inside the same threat.

    Accuracy under attack is that of the attacks with as many changes, over the samples that all of
    them have. An attack with fewer changes can contradict a certificate, too.

    Args:
        attacks: see `attacks_inside`.
        records: of all samples.
        ks: the numbers of changes.
    """
    layers = []
    for k in ks:
        mine = [one for one in attacks if one.k == k]
        weaker = [one for one in attacks if k is None or (one.k is not None and one.k <= k)]
        common = set.intersection(*(set(one.outcomes) for one in mine)) if mine else set()
        lines = [line for line in records if not mine or _key(line) in common]
        right = [line for line in lines if line["prediction"] == line["label"]]
        fell = set[tuple[int, str]]().union(*(one.changed for one in mine))
        count = max(len(lines), 1)
        stood = sum(_key(line) not in fell for line in right) / count
        changed = set[tuple[int, str]]().union(*(one.changed for one in weaker))
        held = [
            line
            for line in records
            if line["holds"][written(k)] and line["prediction"] == line["label"]
        ]
        layers.append(
            Layer(
                k=written(k),
                samples=len(lines),
                certified=sum(line["holds"][written(k)] for line in right) / count,
                attacks=tuple(one.name for one in mine),
                attacked=stood if mine else None,
                broken=tuple(line["sample_id"] for line in held if _key(line) in changed),
            )
        )
    return layers


def _key(line: Record) -> tuple[int, str]:
    return line["sample_id"], line["text"]


def attacks_inside(run: RunDirectory, threat: Threat, split: str) -> list[Inside]:
    """Returns the attacks of a run on a split that were held inside a threat.

    Args:
        run: with `attacks/`.
        threat: with any number of changes.
        split: name of the split.
    """
    inside = []
    for side in sorted((run.path / "attacks").glob("*.json")):
        about = read_json(side, "settings of an attack").get("about", {})
        of = about.get("threat") or {}
        if of.get("digest") != threat.digest or about.get("split", "test") != split:
            continue
        lines = json_lines(side.with_suffix(".jsonl"), "records of an attack")
        rows = [row for _, row in lines if row.get("outcome", "error") != "error"]
        k = parse_k(of["k"])
        found = {_key(row): _outcome(row, threat.at(k)) for row in rows}
        inside.append(Inside(side.stem, k, found))
    return inside


def _outcome(row: Record, threat: Threat) -> str:
    """The outcome of an attack; outside of the set it has failed: a crossing may lead there."""
    outcome, changed = str(row["outcome"]), row["adversarial"]
    inside = outcome != "succeeded" or threat.contains(row["text"], changed)
    return outcome if inside else "failed"


def table(values: Mapping[str, float], layers: Sequence[Layer], kinds: Mapping[str, int]) -> str:
    """Returns what the command prints.

    Args:
        values: of `figures`.
        layers: of `sandwich`.
        kinds: number of certificates of each kind.
    """
    shown = "claimed, %" if "unproven" in kinds else "certified, %"
    lines = [
        f"{values['samples']:.0f} texts ({', '.join(f'{n} {kind}' for kind, n in kinds.items())}); "
        f"{values['skipped']:.0f} skipped, {values['cut']:.0f} longer than the model reads",
        f"accuracy {100 * values['accuracy']:.1f} %",
        f"{'changes':>7}  {shown:>12}  {'attacked, %':>11}  {'gap':>5}",
    ]
    for one in layers:
        attacked = "-" if one.attacked is None else f"{100 * one.attacked:.1f}"
        gap = "-" if one.attacked is None else f"{100 * (one.attacked - one.certified):.1f}"
        names = f"  {', '.join(one.attacks)}" if one.attacks else ""
        lines.append(f"{one.k:>7}  {100 * one.certified:>12.1f}  {attacked:>11}  {gap:>5}{names}")
        if one.broken:
            lines.append(
                f"contradiction: samples {', '.join(map(str, one.broken[:10]))} are certified and "
                "were changed"
            )
    return "\n".join(lines)
