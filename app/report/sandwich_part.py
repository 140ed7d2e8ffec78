"""Certified radii against all attacks of a run, text by text."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from app.report.report_pictures import Picture, sandwich_picture
from attacks.outcome import AttackRecord
from measure.evidence import AttackEvidence, Evidence, StageRecords
from measure.radius_sandwich import AttackPoint, Ball, TextSandwich, embedded_distances, sandwich

_WORST = 5
"""Rows of the table of the tightest certificates."""


class PGDCheck(NamedTuple):
    """PGD against the certificates: points of clean texts and of texts under PGD."""

    points: Sequence[AttackPoint] = ()
    epsilon: float | None = None  # radius of PGD; None where it is not comparable, for the `reason`
    reason: str = ""
    proven: int = 0  # texts whose certificate is larger
    changed: int = 0  # certified texts that PGD has changed


class TextAttackCheck(NamedTuple):
    """A text attack against the certificates."""

    name: str
    changed: int  # certified texts whose prediction it has changed
    clean: Sequence[AttackPoint] = ()
    points: Sequence[AttackPoint] = ()  # changed texts at a known distance
    inside: int = 0  # changed texts inside their certificate
    reason: str = ""  # why there is nothing to compare, if so


@dataclass(frozen=True)
class SandwichCheck:
    """The certificates of a run against its attacks; no picture if no radius is positive."""

    texts: Sequence[TextSandwich]
    pgd: PGDCheck
    attacks: Sequence[TextAttackCheck]
    picture: Picture | None

    @property
    def broken(self) -> list[TextSandwich]:
        """Texts that an attack has changed inside their certificate."""
        return [text for text in self.texts if text.broken]

    @property
    def compared(self) -> bool:
        """True if at least one attack is comparable with the certificates."""
        return self.pgd.epsilon is not None or any(not a.reason for a in self.attacks)

    @property
    def rounded(self) -> int:
        """Number of texts whose change may be rounding."""
        return sum(text.rounded > 0 and not text.broken for text in self.texts)

    @property
    def tightest(self) -> list[TextSandwich]:
        """Texts whose certificate is nearest to their next change."""
        texts = [t for t in self.texts if t.above and t.above.distance > 0 and t.ball.radius > 0]
        return sorted(texts, key=lambda text: (-text.ratio, text.ball.sample_id))[:_WORST]


def check_sandwich(evidence: Evidence, number: int) -> SandwichCheck | None:
    """Return the certificates of a run against its attacks; None without certificates."""
    certificates = evidence.certificates
    if certificates is None:
        return None
    balls = {}
    for record in certificates.records:
        # No constant: every margin is more than rounding.
        slope = math.inf if record["lipschitz"] is None else float(record["lipschitz"])
        sample = record["sample_id"]
        balls[sample] = Ball(sample, record["prediction"], float(record["radius"]), slope)
    pgd = _check_pgd(evidence.pgd, certificates, balls)
    attacks = [_check_attack(evidence, attack, balls) for attack in evidence.attacks]
    points = [point for attack in attacks for point in (*attack.clean, *attack.points)]
    texts = sandwich(balls.values(), [*pgd.points, *points])
    # Without a positive radius the picture would be empty.
    drawn = any(ball.radius > 0 for ball in balls.values())
    picture = sandwich_picture(f"sandwich-{number}", texts) if drawn else None
    return SandwichCheck(texts, pgd, attacks, picture)


def _check_pgd(
    pgd: StageRecords | None, proven: StageRecords, balls: Mapping[int, Ball]
) -> PGDCheck:
    if pgd is None:
        return PGDCheck(reason="PGD was not run")
    settings = pgd.settings.get("pgd") or {}
    if settings.get("norm") != "l2" or not isinstance(settings.get("epsilon"), int | float):
        return PGDCheck(reason="PGD was not run in the l2 norm of certificates")
    if pgd.rows is None or pgd.rows != proven.rows:
        return PGDCheck(reason="PGD and certificates are not of the same rows")
    epsilon, points, changed = float(settings["epsilon"]), [], 0
    for record in pgd.records:
        sample, attacked = record["sample_id"], record["pgd_prediction"]
        changed += sample in balls and attacked != balls[sample].prediction
        # Without an attack the prediction must be the certified one: distance 0.
        points.append(AttackPoint(sample, "no attack, in float32", 0.0, record["prediction"]))
        points.append(AttackPoint(sample, "PGD", epsilon, attacked))
    larger = sum(ball.radius > epsilon for ball in balls.values())
    return PGDCheck(points, epsilon, proven=larger, changed=changed)


def _check_attack(
    evidence: Evidence, attack: AttackEvidence, balls: Mapping[int, Ball]
) -> TextAttackCheck:
    certified = (record for record in attack.records if record.sample_id in balls)
    changed = [
        record
        for record in certified
        if record.adversarial_prediction not in (None, balls[record.sample_id].prediction)
    ]
    proven = evidence.certificates
    if attack.rows is None or proven is None or attack.rows != proven.rows:
        reason = "not of the same rows as the certificates"
        return TextAttackCheck(attack.name, len(changed), reason=reason)
    clean = [
        AttackPoint(record.sample_id, f"{attack.name}, clean text", 0.0, record.prediction)
        for record in attack.records
        if record.prediction is not None
    ]
    distances, reason = _distances(evidence, changed)
    points = [
        AttackPoint(record.sample_id, attack.name, distance, record.adversarial_prediction)
        for record, distance in zip(changed, distances, strict=True)
        if distance is not None and record.adversarial_prediction is not None
    ]
    # The ball is open: a point at the radius is no contradiction.
    inside = sum(point.distance < balls[point.sample_id].radius for point in points)
    return TextAttackCheck(attack.name, len(changed), clean, points, inside, reason)


def _distances(
    evidence: Evidence, records: Sequence[AttackRecord]
) -> tuple[list[float | None], str]:
    """Return the distances of the embedded texts, and why there are none."""
    if not records:
        return [], ""  # without loading the model
    if not evidence.run.chosen.is_file():
        return [None] * len(records), "the checkpoint is not in the run"
    try:
        return embedded_distances(evidence.run.chosen, records), ""
    # A backbone, a resource or a user's own class may be missing on this machine.
    except Exception as error:
        return [None] * len(records), f"the model cannot be loaded ({error})"
