"""Heat maps of runs: attacks by models, and the transfer of attacked texts to other models."""

from collections.abc import Collection, Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

from attacks.digests import file_digest
from measure.evidence import UNTARGETED, AttackEvidence, Evidence, Transfer
from run_files.ledger import attack_ledger
from text.estimates import IntervalEstimate, wilson


class RunAttacks(NamedTuple):
    """The figures of a run for heat maps."""

    name: str
    corpus: str
    weights: str  # SHA-256
    accuracy: Mapping[str, IntervalEstimate]  # under each attack
    own: Mapping[str, IntervalEstimate]  # on the changed texts of each of its own attacks
    transfers: Sequence[Transfer]  # accuracy on the changed texts of other runs
    blind: Collection[str] = ()  # attacks among those of `accuracy`
    records: Mapping[str, str] = MappingProxyType({})  # SHA-256 of those of each attack


class HeatRow(NamedTuple):
    """A row of a heat map: its name, and the share of each run, if it was measured."""

    name: str
    cells: Sequence[IntervalEstimate | None]
    doubted: Sequence[bool] = ()  # True for a share of a blind attack: it measures no robustness


class HeatMap(NamedTuple):
    """A table with shaded cells, a column for each run."""

    caption: str
    head: str
    columns: Sequence[str]
    rows: Sequence[HeatRow]


def run_attacks(evidence: Evidence) -> RunAttacks:
    """Return the figures of a run for heat maps."""
    own = {}
    for attack in evidence.attacks:
        # The texts of `attack pairs`: also those that the search has changed without success.
        changed = [record for record in attack.records if record.adversarial is not None]
        right = sum(record.adversarial_prediction == record.label for record in changed)
        if changed:
            own[attack.name] = wilson(right, len(changed))
    return RunAttacks(
        name=evidence.run.name,
        corpus="" if evidence.results is None else evidence.results["corpus"],
        weights=evidence.weights,
        accuracy={
            _title(attack): attack.summary.accuracy
            for attack in evidence.attacks
            if attack.of_test and attack.breaks
        },
        own=own,
        transfers=evidence.transfers,
        records={
            a.name: file_digest(attack_ledger(evidence.run, a.name).records_path)
            for a in evidence.attacks
        },
        blind={_title(attack) for attack in evidence.attacks if attack.summary.unreliable},
    )


def _title(attack: AttackEvidence) -> str:
    # The accuracy on the texts of one class does not compare with that on all.
    return attack.name if attack.goal == UNTARGETED else f"{attack.name} ({attack.goal})"


def heat_maps(runs: Sequence[RunAttacks]) -> list[HeatMap]:
    """Return the maps that several runs, or a run and the texts of others, have."""
    maps = []
    columns = [run.name for run in runs]
    names = dict.fromkeys(name for run in runs for name in run.accuracy)
    if len(runs) > 1 and names:
        rows = [
            HeatRow(
                name,
                [run.accuracy.get(name) for run in runs],
                tuple(name in run.blind for run in runs),
            )
            for name in names
        ]
        maps.append(HeatMap("Accuracy under each attack", "attack", columns, rows))
    attacks = dict.fromkeys(transfer.attack for run in runs for transfer in run.transfers)
    maps += [_transfer_map(attack, runs) for attack in attacks]
    return maps


def _transfer_map(attack: str, runs: Sequence[RunAttacks]) -> HeatMap:
    """Return the accuracy of each run on the texts that an attack has changed on each model."""
    weights = {run.name: run.weights for run in runs}
    records = {run.name: run.records.get(attack) for run in runs}
    rows: dict[str, dict[str, IntervalEstimate]] = {}
    for run in runs:
        own = run.own.get(attack)
        if own is not None:
            rows.setdefault(run.name, {})[run.name] = own
        for transfer in run.transfers:
            if transfer.attack == attack:
                other = weights.get(transfer.source, transfer.weights) != transfer.weights
                name = f"{transfer.source}, other weights" if other else transfer.source
                # The attack may have run again since, on the same weights.
                present = records.get(transfer.source)
                if not other and transfer.records and present not in (None, transfer.records):
                    name = f"{transfer.source}, other texts"
                rows.setdefault(name, {})[run.name] = transfer.accuracy
    return HeatMap(
        f"Transfer of {attack}: accuracy left on the changed texts of the model of the row",
        "changed on",
        list(weights),
        [HeatRow(name, [*map(shares.get, weights)]) for name, shares in rows.items()],
    )
