"""Reads the shards of attacks, and makes one attack of each set of them."""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from attacks.interface import Outcome
from attacks.outcome import from_line
from attacks.summary import summarise
from measure.runner import shard_path
from measure.text_attack import ELSEWHERE
from run_files import results
from run_files.ledger import Ledger, attack_ledger
from run_files.run_directory import RunDirectory
from run_files.sample_records import Record
from run_files.shard import Shard
from text.subjects import differences, joined

# For example pwws.shard-1-of-4.jsonl, and .json for its ledger.
_FILE = re.compile(r"(?P<name>.+)\.shard-(?P<index>\d+)-of-(?P<count>\d+)\.jsonl?")
_SAME = ("chosen", "score", "target", "classes", "identity")
"""Facts that shards must share, besides the settings of the attack."""


class MergedAttack(NamedTuple):
    """All shards of one attack.

    Attributes:
        ledger: of the attack.
        subject: of the attack.
        facts: of the first shard; see `TextAttack.shard_facts`.
        records: of all samples, by their ids.
        seconds: of all shards.
        parts: records of each shard.
    """

    ledger: Ledger
    subject: dict[str, Any]
    facts: dict[str, Any]
    records: list[Record]
    seconds: float
    parts: list[Path]

    @property
    def name(self) -> str:
        """Name of the attack."""
        return self.ledger.name

    def outcome(self) -> Outcome:
        """Return records and figures."""
        records = [from_line(record) for record in self.records]
        goal, task = self.subject.get("goal"), self.subject.get("task")
        summary = summarise(records, score=self.facts["score"], goal=goal, task=task)
        return Outcome(name=self.name, records=records, summary=summary)


def merge_attacks(folder: RunDirectory, names: Sequence[str] | None = None) -> list[MergedAttack]:
    """Return the attacks of a run that have shards, or the named ones, in the order of a command.

    Raises:
        ValueError: shards are missing, damaged, of different settings, or of another division; or
            a complete attack of the same name has other settings.
    """
    attacks = [_merge(folder, name) for name in _names(folder, names)]
    return sorted(attacks, key=lambda attack: (attack.facts["place"], attack.name))


def check_weights(run: RunDirectory, attack: MergedAttack, digest: str | None) -> None:
    """Raise ValueError unless a run has the weights, with this digest, and rows of the shards."""
    attacked = attack.subject.get("checkpoint")
    if digest is not None and attacked != digest:
        msg = (
            f"got shards of {attack.name} of the checkpoint {str(attacked)[:12]}, and a run whose "
            f"checkpoint is {digest[:12]}, expected the same: give --ckpt_path FILE, or attack "
            "this one"
        )
        raise ValueError(msg)
    rows = attack.facts["evaluation"].get("rows", {})
    if results.foreign_subjects(run.results(), checkpoint=attacked, rows=rows):
        msg = (
            f"got {run.results_path} with figures about other weights or rows than the shards "
            f"of {attack.name}, expected the same: attack the rows that are there now, or move "
            "the file away"
        )
        raise ValueError(msg)


def _names(run: RunDirectory, requested: Sequence[str] | None) -> list[str]:
    """Return the names of the attacks to merge."""
    folder = run.path / "attacks"
    names = sorted({match["name"] for match in _matches(folder)})
    missing = [name for name in requested or () if name not in names]
    if missing or not names:
        there = f"there are those of {', '.join(names)}" if names else "there are none"
        msg = (
            f"got no shards of {', '.join(missing) or 'any attack'} in {folder} ({there}), "
            "expected NAME.shard-I-of-N.jsonl and .json: attack with --attack.shard I/N, or copy "
            "the shards of other machines there"
        )
        raise ValueError(msg)
    return names if requested is None else list(dict.fromkeys(requested))


def _matches(folder: Path) -> list[re.Match[str]]:
    paths = sorted(folder.iterdir()) if folder.is_dir() else []
    return [match for path in paths if (match := _FILE.fullmatch(path.name))]


def _merge(run: RunDirectory, name: str) -> MergedAttack:
    """Read, compare and merge all shards of an attack."""
    ledger = attack_ledger(run, name)
    matches = [match for match in _matches(ledger.path.parent) if match["name"] == name]
    counts = sorted({int(match["count"]) for match in matches})
    if len(counts) > 1:
        msg = (
            f"got shards of {name} in {' and in '.join(map(str, counts))} parts, expected one "
            f"division: delete {ledger.path.with_suffix('')}.shard-*-of-N.* of the others"
        )
        raise ValueError(msg)
    shards = {
        shard: Ledger(shard_path(ledger.records_path, shard))
        for shard in (Shard(index, counts[0]) for index in range(1, counts[0] + 1))
    }
    _check_there(name, shards)
    facts = {shard: _facts(shard, part) for shard, part in shards.items()}
    first = next(iter(shards))
    subject = shards[first].subject()
    by_sample: dict[int, Record] = {}
    for shard, part in shards.items():
        changes = differences(subject, part.subject())
        changes += differences(_comparable(facts[first]), _comparable(facts[shard]))
        if changes:
            msg = (
                f"got other settings in shard {shard} of {name} than in {first}: "
                f"{joined(changes)}; expected the same: give the shard the settings of the others, "
                f"after deleting {part.path.with_suffix('')}.*"
            )
            raise ValueError(msg)
        records = part.records()
        ids = [int(record["sample_id"]) for record in records]
        # Counts ids that repeat within this file, and those that an earlier shard has.
        twice = len(ids) - len(set(ids).difference(by_sample))
        expected = shard.size(facts[shard]["chosen"])
        if twice or len(ids) < expected:
            msg = (
                f"got {len(ids)} records in {part.records_path} ({twice} of samples that other "
                f"records are about), expected the {expected} of its own: copy the file again, or "
                "delete it and give the command of the shard again"
            )
            raise ValueError(msg)
        by_sample.update(zip(ids, records, strict=True))
    if (problem := ledger.problem(subject, ELSEWHERE)) is not None:
        raise ValueError(problem)
    # Earlier records of the undivided attack stay, as `attack` itself would resume after them.
    for record in ledger.records():
        by_sample.setdefault(int(record["sample_id"]), record)
    return MergedAttack(
        ledger,
        subject,
        facts[first],
        records=[by_sample[sample_id] for sample_id in sorted(by_sample)],
        seconds=sum(part.seconds() for part in shards.values()),
        parts=[part.records_path for part in shards.values()],
    )


def _check_there(name: str, shards: Mapping[Shard, Ledger]) -> None:
    """Raise ValueError unless all shards exist and have ended."""
    lacks: dict[str, list[str]] = {}
    for shard, part in shards.items():
        ledger, records = part.path.is_file(), part.records_path.is_file()
        if not ledger:
            problem = "without .json" if records else "missing"
        elif not records or part.extra("shard") is None:
            problem = "not ended"
        else:
            continue
        lacks.setdefault(problem, []).append(str(shard.index))
    if lacks:
        count, folder = len(shards), next(iter(shards.values())).path.parent
        order = [name for name in ("missing", "without .json", "not ended") if name in lacks]
        listed = [f"{problem}: {', '.join(lacks[problem])}" for problem in order]
        msg = (
            f"got {name} in {count} shards, of which not all are in {folder} "
            f"({'; '.join(listed)}), expected all {count}: give `attack --attack.shard I/{count}` "
            "for these (again), or copy their .jsonl and .json there"
        )
        raise ValueError(msg)


# Types of the facts in a ledger, which may come from another machine.
_KEYS = {"place": int, "chosen": int, "score": str, "classes": list}
_KEYS |= dict.fromkeys(("facts", "identity", "evaluation"), dict)


def _facts(shard: Shard, ledger: Ledger) -> dict[str, Any]:
    """Return the facts about the complete attack that a shard has stored."""
    facts = ledger.extra("shard") or {}
    if facts.get("shard") != str(shard) or not all(
        isinstance(facts.get(key), kind) for key, kind in _KEYS.items()
    ):
        msg = (
            f"got {ledger.path} with unreadable content, expected the end of shard {shard}: copy "
            "it again, or delete it and give the command of the shard again"
        )
        raise ValueError(msg)
    return facts


def _comparable(facts: Mapping[str, Any]) -> dict[str, Any]:
    identity = {key: value for key, value in facts["identity"].items() if key != "run"}
    # The name of a run may differ on the machine that made a shard.
    same = {key: facts.get(key) for key in _SAME} | {"identity": identity}
    return {**same, "rows": facts["evaluation"].get("rows")}
