"""Certificates in words as records, figures and a curve; comparison with attacks."""

import json
import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from attacks.digests import SHORT
from certify.threats import Substitutions, TextCertificate, Threat
from certify.threats.parsing import parse_k
from measure.charts import Series, error_bars, pixels
from run_files.event_files import evaluation_writer
from run_files.ledger import attack_ledgers
from run_files.run_directory import RunDirectory

Record = dict[str, Any]
POINTS = 20
"""Largest number of changes of a curve, if it is known for each text."""


class LabelledText(NamedTuple):
    """A sample of a split, with its text in the normal form of the threat, and its gold class."""

    sample_id: int
    text: str
    label: int


def format_changes(k: int | None) -> str:
    """Return a number of changes as the command line spells it."""
    return "all" if k is None else str(k)


def record(
    certificate: TextCertificate,
    ks: Sequence[int | None],
    names: Sequence[str],
    sample: LabelledText | None,
) -> Record:
    """Return the record of a certificate for `ks` changes; None is any number of them.

    `names` are those of the classes; a text of the command line has no `sample`.
    """
    identity = {} if sample is None else {"sample_id": sample.sample_id, "label": sample.label}
    other = certificate.witness_prediction
    return {
        **identity,
        "prediction": certificate.prediction,
        "class": names[certificate.prediction],
        "certified": format_changes(certificate.certified),
        "holds": {format_changes(k): hold for k, hold in zip(ks, certificate.holds, strict=True)},
        "kind": certificate.kind,
        **({} if certificate.confidence is None else {"confidence": certificate.confidence}),
        "witness": certificate.witness,
        "witness_class": None if other is None else names[other],
        "cut": certificate.cut,
        "unknown": certificate.unknown,
        **({} if certificate.passes is None else {"passes": certificate.passes}),
        "text": certificate.text,
    }


def figures(records: Sequence[Record], ks: Sequence[int | None], skipped: int) -> dict[str, float]:
    """Return the figures of a split, without the prefix of their names.

    `accuracy` is the clean accuracy, `accuracy@K` the share of samples with a correct prediction
    that is certified for K changes. The threat does not apply to the `skipped` samples.
    """
    # Shares are of all samples, right or wrong, so that accuracies compare.
    count = len(records)
    right = [line["prediction"] == line["label"] for line in records]
    values = {"accuracy": sum(right) / count}
    for k in map(format_changes, ks):
        held = (line["holds"][k] for line in records)
        values[f"accuracy@{k}"] = sum(r and h for r, h in zip(right, held, strict=True)) / count
    cut = sum(line["cut"] for line in records)
    if any("passes" in line for line in records):
        values["passes"] = float(sum(line["passes"] for line in records))
        values["unlisted"] = float(sum(line["kind"] == "lower bound" for line in records))
    return {**values, "samples": float(count), "skipped": float(skipped), "cut": float(cut)}


def detections(
    records: Sequence[Record], ks: Sequence[int | None], positive: int
) -> dict[str, float]:
    """Return the figures about the class `positive`, without the prefix of their names.

    `recall` is the share of the samples of the class that are detected, `recall@K` the share that
    stays detected by certificate, and `detected@K` the share of the detected ones that does.
    """
    own = [line for line in records if line["label"] == positive]
    detected = [line for line in own if line["prediction"] == positive]
    values = {"positives": float(len(own)), "recall": len(detected) / max(len(own), 1)}
    for k in map(format_changes, ks):
        held = sum(line["holds"][k] for line in detected)
        values[f"recall@{k}"] = held / max(len(own), 1)
        values[f"detected@{k}"] = held / max(len(detected), 1)
    return values


def stamp_of(threat: str, checkpoint: str) -> dict[str, str]:
    """Return the fields that tie a line to a threat and to weights, both given by digests."""
    return {"threat": threat[:SHORT], "checkpoint": checkpoint[:SHORT]}


class Curve(NamedTuple):
    """Certified accuracies in % by the number of changes; None for all words at once."""

    changes: Sequence[int | None]
    accuracy: Sequence[float]

    def as_series(self) -> tuple[Series, Sequence[str]]:
        """Return the line of a figure, and the names of its positions unless they are numbers."""
        names = () if None not in self.changes else tuple(map(format_changes, self.changes))
        positions = range(len(names)) if names else [k for k in self.changes if k is not None]
        return Series(name="certified", x=list(positions), mean=self.accuracy), names


def curve(records: Sequence[Record], ks: Sequence[int | None]) -> Curve:
    """Return the certified accuracy by number of changes, from 0 to all words."""
    right = [line for line in records if line["prediction"] == line["label"]]
    numbers = [k for k in ks if k]
    if None in ks and any(
        line["certified"] not in {"0", *map(format_changes, ks)} for line in records
    ):
        # The certifier knows the largest number of each text: more points than the numbers in ks.
        numbers = list(range(1, POINTS + 1))
        largest = [
            math.inf if c == "all" else int(c) for c in (line["certified"] for line in right)
        ]
        counts = [sum(k <= limit for limit in largest) for k in numbers]
    else:
        counts = [sum(line["holds"][str(k)] for line in right) for k in numbers]
    # No change: every correct prediction counts, except those a smoothed classifier abstains from.
    changes: list[int | None] = [0, *numbers]
    counts = [sum(line["holds"].get("0", True) for line in right), *counts]
    if None in ks:
        changes.append(None)
        counts.append(sum(line["holds"]["all"] for line in right))
    return Curve(changes, [100 * count / len(records) for count in counts])


def write(
    run: RunDirectory,
    name: str,
    records: Sequence[Record],
    ks: Sequence[int | None],
    subject: Mapping[str, Any],
) -> None:
    """Write the curve into a run, as PNG and for TensorBoard.

    Raises:
        OSError: a file cannot be written.
    """
    points = curve(records, ks)
    line, names = points.as_series()
    figure = error_bars(
        [line],
        run.path / f"certificates_{name}.png",
        x_label="changes",
        y_label="certified accuracy, %",
        title=f"{run.name}: {subject['threat']['name']}",
        ticks=names,
        description=json.dumps(subject),
    )
    writer = evaluation_writer(run, f"certify_{name}")
    for k, value in zip(points.changes, points.accuracy, strict=True):
        # The axis of this curve is the number of changes, not the training step.
        if k is None:
            writer.add_scalar(f"certify_{name}/accuracy_all", value / 100, 0)
        else:
            writer.add_scalar(f"certify_{name}/accuracy", value / 100, k)
    writer.add_image(f"certify_{name}/curve", pixels(figure), 0, dataformats="HWC")
    writer.close()


class SandwichLevel(NamedTuple):
    """Certificates and attacks for the same number of changes.

    Attributes:
        k: number of changes.
        samples: number of samples that all attacks have in common; of all samples without attacks.
        certified: share of these samples.
        attacks: names of the attacks.
        attacked: accuracy under all attacks on these samples; None without attacks.
        broken: certified samples that an attack has changed: a contradiction.
    """

    k: str
    samples: int
    certified: float
    attacks: tuple[str, ...]
    attacked: float | None
    broken: tuple[int, ...]


class ConfinedAttack(NamedTuple):
    """An attack inside a threat.

    Attributes:
        name: name of its files.
        k: largest number of changes.
        outcomes: outcomes by the number and the text of the sample; a text outside of the threat is
            a failure.
        outside: number of these.
    """

    name: str
    k: int | None
    outcomes: Mapping[tuple[int, str], str]
    outside: int = 0

    @property
    def changed(self) -> set[tuple[int, str]]:
        """The samples with a success."""
        return {key for key, outcome in self.outcomes.items() if outcome == "succeeded"}


def sandwich(
    attacks: Sequence[ConfinedAttack], records: Sequence[Record], ks: Sequence[int | None]
) -> list[SandwichLevel]:
    """Compare certificates with `attacks_inside` the same threat, on the same classifier.

    The accuracy under attack is the one under all attacks with this number of changes, on their
    common samples. An attack with fewer changes can contradict a certificate, too.
    """
    layers = []
    for k in ks:
        exact = [attack for attack in attacks if attack.k == k]
        weaker = [
            attack for attack in attacks if k is None or (attack.k is not None and attack.k <= k)
        ]
        # Keys include the text: an attack on other texts of the same ids does not count.
        common = set.intersection(*(set(attack.outcomes) for attack in exact)) if exact else set()
        lines = [line for line in records if not exact or _key(line) in common]
        right = [line for line in lines if line["prediction"] == line["label"]]
        fell = set[tuple[int, str]]().union(*(attack.changed for attack in exact))
        count = max(len(lines), 1)  # no common samples: shares of 0
        robust = sum(_key(line) not in fell for line in right) / count
        changed = set[tuple[int, str]]().union(*(attack.changed for attack in weaker))
        held = [
            line
            for line in records
            if line["holds"][format_changes(k)] and line["prediction"] == line["label"]
        ]
        layers.append(
            SandwichLevel(
                k=format_changes(k),
                samples=len(lines),
                certified=sum(line["holds"][format_changes(k)] for line in right) / count,
                attacks=tuple(attack.name for attack in exact),
                attacked=robust if exact else None,
                broken=tuple(line["sample_id"] for line in held if _key(line) in changed),
            )
        )
    return layers


def _key(line: Record) -> tuple[int, str]:
    return line["sample_id"], line["text"]


def attacks_inside(run: RunDirectory, threat: Threat, split: str) -> list[ConfinedAttack]:
    """Return the attacks of a run on a split that a threat covers.

    They were told of the threat, with any `k`; or they are the published recipe of one of its
    perturbation sets, and count for any number of changes.
    """
    inside = []
    for ledger in attack_ledgers(run):
        subject = ledger.subject()
        confinement = subject.get("threat") or {}
        covered = not confinement and _is_recipe_of(threat, subject)
        if covered:
            confinement = {"k": "all", "digest": threat.digest}
        # Older records have no split: they are of the test split.
        if confinement.get("digest") != threat.digest or subject.get("split", "test") != split:
            continue
        # A sample with an error was not attacked to the end.
        rows = [row for row in ledger.records() if row.get("outcome", "error") != "error"]
        k = parse_k(confinement["k"])
        outcomes = {_key(row): _outcome(row, threat.at(k)) for row in rows}
        outside = sum(outcomes[_key(row)] != row["outcome"] for row in rows)
        if outcomes:  # an unfinished attack has none
            inside.append(ConfinedAttack(ledger.name, k, outcomes, outside))
    return inside


def _is_recipe_of(threat: Threat, subject: Mapping[str, Any]) -> bool:
    if not isinstance(threat, Substitutions):
        return False
    return any(part.name == subject.get("attack.name") for part in threat.sets)


def _outcome(row: Record, threat: Threat) -> str:
    """Return the outcome of an attack inside a threat."""
    outcome, changed = str(row["outcome"]), row["adversarial"]
    # A crossover of two texts inside of the threat may be outside: no evidence against it.
    inside = outcome != "succeeded" or threat.contains(row["text"], changed)
    return outcome if inside else "failed"


def table(
    values: Mapping[str, float], layers: Sequence[SandwichLevel], kinds: Mapping[str, int]
) -> str:
    """Return the table of `figures` and `sandwich`; `kinds` counts the kinds of certificates."""
    heading = "claimed, %" if "unproven" in kinds else "certified, %"
    lines = [
        f"{values['samples']:.0f} texts ({', '.join(f'{n} {kind}' for kind, n in kinds.items())}); "
        f"{values['skipped']:.0f} skipped, {values['cut']:.0f} longer than the model reads",
        f"accuracy {100 * values['accuracy']:.1f} %",
        f"{'changes':>7}  {heading:>12}  {'attacked, %':>11}  {'gap':>5}",
    ]
    if "passes" in values:
        lines[1] += (
            f"; {values['passes']:.0f} inputs listed, {values['unlisted']:.0f} texts have more"
        )
    if "recall" in values:
        ks = [name.partition("@")[2] for name in values if name.startswith("recall@")]
        lines[1] += (
            f"; recall {100 * values['recall']:.1f} % of {values['positives']:.0f} positives"
        )
        lines[2:2] = [
            f"k = {k}: certified recall {100 * values[f'recall@{k}']:.1f} %, "
            f"{100 * values[f'detected@{k}']:.1f} % of the detected"
            for k in ks
        ]
    for level in layers:
        attacked = "-" if level.attacked is None else f"{100 * level.attacked:.1f}"
        gap = "-" if level.attacked is None else f"{100 * (level.attacked - level.certified):.1f}"
        names = f"  {', '.join(level.attacks)}" if level.attacks else ""
        lines.append(
            f"{level.k:>7}  {100 * level.certified:>12.1f}  {attacked:>11}  {gap:>5}{names}"
        )
        if level.broken:
            samples = ", ".join(map(str, level.broken[:10]))
            lines.append(f"contradiction: samples {samples} are certified and were changed")
    return "\n".join(lines)
