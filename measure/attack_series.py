"""Run several attacks on one model, one after the other, and report them."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from attacks.interface import Outcome
from attacks.validity.checks import Checks, ValidityLimits
from measure.attack_report import report
from measure.attack_settings import AttackPlan, AttackSettings, applied
from measure.measurement import Archive, Measured
from measure.runner import run, shard_path
from measure.text_attack import AttackedModel, TextAttack
from measure.validity_files import file_validity
from run_files.distributed import Alone, Team
from run_files.shard import Shard
from run_files.terminal import harmless


class AttackSeries(NamedTuple):
    """Attacks that have ended, in the order of the command; `shard` is None for all samples."""

    attacks: Sequence[TextAttack]
    measured: Sequence[Measured]
    shard: Shard | None

    def outcomes(self) -> dict[str, Outcome]:
        """Return records and figures by name; empty for a shard: its figures mean nothing."""
        if self.shard is not None:
            return {}
        pairs = zip(self.attacks, self.measured, strict=True)
        return {attack.name: attack.outcome(measured.records) for attack, measured in pairs}

    def validity(self, folder: Path, checks: Checks) -> list[str]:
        """Count the adversarial texts that keep their meaning; return lines to print."""
        paths = [folder / attack.file for attack in self.attacks]
        if self.shard is not None:
            # Each shard has a file of its own; `attack merge` merges them.
            paths = [shard_path(path, self.shard) for path in paths]
        return [line for path in paths for line in file_validity(path, checks, ValidityLimits())]

    def report(self, title: str, class_names: Sequence[str], notes: Sequence[str]) -> str:
        """Return the table to print, with a title and notes below."""
        settings = self.attacks[0].settings
        pairs = list(zip(self.attacks, self.measured, strict=True))
        spent = ", ".join(f"{attack.name} {measured.seconds:.1f} s" for attack, measured in pairs)
        return report(
            self.outcomes(),
            class_names,
            show=settings.show,
            title=f"{title} ({spent})",
            notes=[*applied(settings, [attack.planned for attack in self.attacks]), *notes],
        )

    def shard_report(self, folder: Path | None, merge: str) -> str:
        """Return the lines to print for a shard, which has no table.

        The option `merge` names the folder of the files for `attack merge`.
        """
        assert self.shard is not None  # the caller has checked it
        lines = []
        for attack, measured in zip(self.attacks, self.measured, strict=True):
            location = (
                "" if folder is None else f" in {shard_path(folder / attack.file, self.shard)}"
            )
            lines.append(
                f"{attack.name}: shard {self.shard}, {self.shard.size(measured.total)} of "
                f"{measured.total} samples{location} ({measured.seconds:.1f} s)"
            )
        command = f"with all shards in one folder: python -m steadfast attack merge {merge}"
        return "\n".join(["", *map(harmless, [*lines, command])])


def run_series(
    planned: Sequence[AttackPlan],
    settings: AttackSettings,
    model: AttackedModel,
    archive: Archive | None,
    *,
    team: Team = Alone(),
    **options: Any,
) -> AttackSeries:
    """Attack a model with every composition; file each outcome as soon as its attack ends.

    Without an archive, nothing is filed. `options` are those of `TextAttack`.
    """
    shard = None if settings.shard is None else Shard.of(settings.shard)
    attacks = [
        # All are built before the first one runs: an impossible goal raises at once.
        TextAttack(attack_plan, settings, model, position=position, **options)
        for position, attack_plan in enumerate(planned)
    ]
    measured = []
    for attack in attacks:
        if archive is not None:
            # Before the run, so that TensorBoard shows the examples under this stage.
            archive.begin(attack.stage)
        measured.append(run(attack, archive, team=team, shard=shard))
    return AttackSeries(attacks, measured, shard)
