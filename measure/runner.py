"""Run a measurement: resume it, share its samples among processes, file its outcome."""

import logging
import time
from collections.abc import Collection, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

from attacks.victims.kinds import VictimError
from measure.measurement import Archive, Measured, Measurement, Record, Sample
from run_files.distributed import Alone, Team, gather
from run_files.ledger import Ledger
from run_files.sample_records import Records
from run_files.shard import Shard
from text.plural import plural
from text.subjects import Subject
from training.interrupt import Stopped, interruption

log = logging.getLogger(__name__)


def run(
    measurement: Measurement[Sample],
    archive: Archive | None,
    *,
    team: Team = Alone(),
    shard: Shard | None = None,
) -> Measured:
    """Measure the samples that have no record yet, and file the outcome, if there is an archive.

    A kill loses only the records in progress. All processes call this together, and all get the
    outcome; the first one writes it. A `shard` is every N-th sample, with files of its own.

    Raises:
        ValueError: there is an outcome about another subject, finished or not.
        OSError: a file cannot be read or written.
    """
    subject = measurement.subject()  # once: it hashes the rows of a split
    ledgers = [] if archive is None else _ledgers(archive.files.path / measurement.file, shard)
    own = ledgers[0] if ledgers else None
    lead = team.is_global_zero
    # Only the first process may see the disk; all raise the same error.
    _agree(team, _problem(measurement, ledgers, subject) if lead else None)
    everything = measurement.samples()
    samples = everything if shard is None else shard.take(everything)
    only = None if shard is None else {sample.sample_id for sample in samples}
    path = None if own is None else own.records_path
    names = measurement.class_names
    with closing(Records(path, stamp=measurement.stamp(), class_names=names)) as records:
        done = records.begin(team, subject=subject, elsewhere=measurement.elsewhere)
        _agree(team, _stray(done, everything, records.folder))
        seconds, former = 0.0, set[int]()
        if own is not None and lead and not measurement.replaces:
            former = _add_former(records, ledgers, subject, done, only)
            seconds = own.seconds()
            if own.is_about(subject) and own.has_counted(len(done)):
                # Killed between the ledger and the end: it has the seconds of these parts.
                seconds -= records.seconds
            own.begin(subject)
        done = done.union(gather(team, list(former)))
        # Before new records: mixed ones could not be separated later.
        _agree(team, measurement.objection(records.known()))
        began = time.monotonic()
        remaining = [sample for sample in samples if sample.sample_id not in done]
        mine = measurement.share(remaining, team.global_rank, team.world_size)
        _work(measurement, records, mine, team)
        # The parts stay until the outcome is filed.
        merged = records.merge()
        seconds += records.seconds + time.monotonic() - began
        outcome = Measured(records=merged, seconds=seconds, total=len(everything))
        if archive is not None and own is not None and lead:
            if shard is None:
                _file(measurement, archive, outcome, subject)
            else:
                _file_shard(measurement, archive, outcome, subject, shard)
        # Only now: a kill before this line loses nothing.
        records.discard()
    return outcome


def _file(
    measurement: Measurement[Any], archive: Archive, outcome: Measured, subject: Subject
) -> None:
    """File an outcome whose records are on disk: pages, pictures, ledger, `results.json`."""
    figures = measurement.figures(outcome.records)
    measurement.write(archive.files, outcome)
    ledger = Ledger(archive.files.path / measurement.file)
    summary, samples = measurement.summary(outcome.records), len(outcome.records)
    ledger.finish(subject, outcome.seconds, summary, samples=samples)
    archive.file(
        measurement.stage,
        {f"{measurement.stage}/{name}": value for name, value in figures.items()},
        outcome.seconds,
        measurement.about(),
    )


def _file_shard(
    measurement: Measurement[Any],
    archive: Archive,
    outcome: Measured,
    subject: Subject,
    shard: Shard,
) -> None:
    """File one shard: its ledger also has the facts that are necessary to file all shards."""
    ledger = Ledger(shard_path(archive.files.path / measurement.file, shard))
    before = ledger.extra("shard") or {}
    facts = {
        **measurement.shard_facts(),
        "shard": str(shard),
        # A start with fewer samples than before discards none.
        "chosen": max(outcome.total, int(before.get("chosen", 0))),
        "evaluation": archive.admit(measurement.about()),
    }
    ledger.finish(subject, outcome.seconds, None, samples=len(outcome.records), shard=facts)


def _stray(done: Collection[int], samples: Sequence[Sample], folder: Path | None) -> str | None:
    """Return the reason why records of a stopped measurement cannot count among those of `samples`.

    Samples are measured side by side: those that ended first are the easy ones.
    """
    more = len({*done} - {sample.sample_id for sample in samples})
    if not more:
        return None
    return (
        f"got --num_samples {len(samples)}, and in {folder} {plural(more, 'record')} of further "
        "samples, from a measurement of more of them that was stopped; expected --num_samples as "
        "large as there, because those that ended first are no random choice; or delete the folder"
    )


def _agree(team: Team, problem: str | None) -> None:
    """Raise ValueError in all processes if one of them has a problem."""
    for message in gather(team, [problem]):
        if message is not None:
            raise ValueError(message)


def _work(
    measurement: Measurement[Sample], records: Records, samples: Sequence[Sample], team: Team
) -> None:
    """Measure the samples of this process; if that ends early, report the finished records."""
    count = 0
    # No record, but progress: a slow attack is not a lost process.
    measurement.alive = lambda: records.add(())
    try:
        for part in measurement.measure(samples):
            records.add(part)
            count += len(part)
    except Exception as error:
        if records.path is None:
            raise
        state = (
            f"{count} of {len(samples)} samples are done and kept in {records.folder}: the same "
            "command resumes"
        )
        if isinstance(error, VictimError):
            msg = f"{error}; {state}"
            raise VictimError(msg) from error
        log.warning("%s", state)
        raise
    except Stopped:
        # Processes that wait for each other have to be stopped, too.
        if records.path is not None and team.world_size == 1:
            interruption.saved = str(records.folder)
        raise
    finally:
        del measurement.alive


def check_ledgers(
    kind: type[Measurement[Any]], records: Path, shard: Shard | None, subject: Subject
) -> None:
    """Raise ValueError if there is an outcome about another subject, of which a part is known."""
    if (problem := _problem(kind, _ledgers(records, shard), subject)) is not None:
        raise ValueError(problem)


def shard_path(records: Path, shard: Shard) -> Path:
    """Return the file of the records of a shard."""
    return records.with_name(f"{records.stem}.{shard.suffix()}{records.suffix}")


def _ledgers(records: Path, shard: Shard | None) -> list[Ledger]:
    """Return the ledger of a measurement, after the ledger of its shard, if any."""
    parts = [] if shard is None else [Ledger(shard_path(records, shard))]
    return [*parts, Ledger(records)]


def _problem(
    kind: Measurement[Any] | type[Measurement[Any]], ledgers: Sequence[Ledger], subject: Subject
) -> str | None:
    if kind.elsewhere is None:
        return None
    find = _fewer if kind.replaces else Ledger.problem
    problems = (find(ledger, subject, kind.elsewhere) for ledger in ledgers)
    return next(filter(None, problems), None)


def _fewer(ledger: Ledger, subject: Subject, elsewhere: str) -> str | None:
    """Return the reason not to replace a finished outcome by one of fewer samples."""
    now = subject.get("num_samples")
    if now is None or (count := len(ledger.records())) <= now:
        return None
    return (
        f"got --num_samples {now}, and {count:,} samples in {ledger.records_path}, expected no "
        f"fewer: {elsewhere}, or delete {ledger.path.with_suffix('')}.*"
    )


def _add_former(
    records: Records,
    ledgers: Sequence[Ledger],
    subject: Subject,
    done: Collection[int],
    only: Collection[int] | None,
) -> set[int]:
    """Add the records of finished outcomes about the same subject; return their samples.

    `ledgers` are those of the full measurement and of the shard: either may be there. The samples
    `done` have a record; a shard has `only` some of all samples.
    """
    former: dict[int, Record] = {}
    for ledger in ledgers:
        for line in ledger.records() if ledger.is_about(subject) else ():
            sample = int(line["sample_id"])
            if sample not in done and (only is None or sample in only):
                former.setdefault(sample, line)
    records.add(former.values())
    return set(former)
