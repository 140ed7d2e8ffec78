"""One record per sample from all processes: written immediately, merged at the end."""

import logging
import os
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from fnmatch import fnmatch
from pathlib import Path
from typing import IO, Any

from attacks.json_lines import append, cut_lines, open_lines, read_lines
from run_files import atomic
from run_files.distributed import Meeting, Team, gather, gather_parts
from text.file_lock import take
from text.subjects import Difference, Subject, as_stored, differences, joined

log = logging.getLogger(__name__)

Record = dict[str, Any]
"""A JSON object with an integer `sample_id`."""
_OF_CLASSES = ("label", "prediction", "pgd_prediction", "adversarial_prediction")
"""Fields with the index of a class; the name of the class is added as `label_name`, ..."""


class Records:
    """The records of one evaluation.

    Each process appends its records to a file of its own: `certificates.jsonl` has its parts in
    `certificates.parts/rank-0.jsonl`, ... . A killed program loses its current batch. At the end
    the first process writes the outcome, each sample once and in order, and the parts are deleted.

    The next start resumes from the parts, with any number of processes: `begin` returns the samples
    that are done. The first line of a part is its subject. Parts about another subject are deleted,
    or refused.

    Machines need not share a disk: records travel through the process group, and each process reads
    the parts that it can see.

    `path` is the outcome; None keeps all records in memory. Each line of it gets the fields of
    `stamp`, and names of classes next to their indices: by default those of the trainer's module.
    """

    def __init__(
        self,
        path: Path | None,
        *,
        stamp: Mapping[str, Any] | None = None,
        class_names: Sequence[str] | None = None,
    ) -> None:
        self.path = path
        self._class_names = class_names
        self.seconds = 0.0  # working time of former starts, for the slowest process
        self._stamp = dict(stamp or {})
        self._subject: Any = None
        self._began = 0.0
        self._mine: dict[int, Record] = {}
        self._done: frozenset[int] = frozenset()
        self._trainer: Team | None = None
        self._meeting: Meeting | None = None
        self._part: IO[bytes] | None = None
        self._lock: IO[bytes] | None = None

    @property
    def folder(self) -> Path | None:
        """Folder of the parts."""
        return None if self.path is None else self.path.with_suffix(".parts")

    def begin(
        self, trainer: Team, *, subject: Subject | None = None, elsewhere: str | None = None
    ) -> frozenset[int]:
        """Start, on all processes together; return the samples with records of former starts.

        The records depend on `subject`: checkpoint, samples, settings; with None, former ones are
        not used. Parts about another one are deleted, or refused with the advice `elsewhere`.

        Raises:
            ValueError: another program writes the same records, or the parts are about another
                subject and must not be deleted.
            OSError: this process cannot write its part.
        """
        self.close()
        self._trainer, self._meeting = trainer, Meeting(trainer)
        self._subject = None if subject is None else as_stored(subject)
        # All processes must raise together, and none may read the parts of a running program.
        locked = self._take_lock() if trainer.is_global_zero else True
        if not all(gather(trainer, [locked])):
            msg = (
                f"got {self.path} while another program writes it, expected to be alone; wait for "
                "that one, or give another --run"
            )
            raise ValueError(msg)
        records, stale, seconds = self._read_parts()
        for changes in gather_parts(trainer, next(filter(None, stale.values()), ())):
            if changes and elsewhere is not None:
                msg = (
                    f"got {self.folder} of a command that has not ended, with other settings "
                    f"({joined(changes)}), expected the same, to resume it: give these, "
                    f"{elsewhere}, or delete the folder"
                )
                raise ValueError(msg)
        self.seconds = max(gather(trainer, [seconds]))
        self._began = time.monotonic()
        self._mine, self._done = self._share(trainer, records)
        for part in stale:
            part.unlink(missing_ok=True)
        gather(trainer, [None])  # a barrier: no part begins while another process may delete it
        self._open(trainer.global_rank)
        if self._done:
            log.info("%d samples were done before, and are left out", len(self._done))
        return self._done

    def known(self) -> list[Record]:
        """Return the records that this process merges."""
        return list(self._mine.values())

    def add(self, records: Iterable[Record]) -> None:
        """Write records of this process; samples that have a record are left out.

        Raises:
            OSError: they could not be written.
        """
        new = [record for record in records if int(record["sample_id"]) not in self._done]
        new = [record for record in new if int(record["sample_id"]) not in self._mine]
        self._mine.update((int(record["sample_id"]), record) for record in new)
        # Records of this process are in memory too: `merge` needs no disk.
        if self._part is not None and new:
            now = time.monotonic()
            spent, self._began = now - self._began, now
            try:
                append(self._part, [*new, {"seconds": spent}])
            except OSError as error:
                msg = (
                    f"could not write {self.folder}: {error.strerror or error}; make room or "
                    "correct the permissions, then give the same command again"
                )
                raise OSError(msg) from error
        if self._meeting is not None:
            self._meeting.progress()

    def merge(self) -> list[Record]:
        """Write the outcome, and return all records by sample, on all processes together.

        The parts stay until `discard`.

        Raises:
            LostRankError: another process has made no progress for too long.
            OSError: the outcome could not be written; the parts are kept.
            RuntimeError: there was no `begin`.
        """
        if self._trainer is None or self._meeting is None:
            msg = "got merge() before begin(), expected begin() first"
            raise RuntimeError(msg)
        self._meeting.wait()
        by_sample: dict[int, Record] = {}
        for record in gather(self._trainer, list(self._mine.values())):
            # A distributed sampler may repeat samples to fill the last batches.
            by_sample.setdefault(int(record["sample_id"]), record)
        merged = [by_sample[sample] for sample in sorted(by_sample)]
        if self.path is not None and self._trainer.is_global_zero:
            names = self._class_names
            if names is None:
                module = getattr(self._trainer, "lightning_module", None)
                names = getattr(module, "class_names", None) or ()
            lines = ({**record, **_name_classes(record, names), **self._stamp} for record in merged)
            atomic.write_lines(self.path, lines)
        return merged

    def discard(self) -> None:
        """Delete the parts, on all processes together, after the outcome is filed."""
        if self._part is not None:
            self._part.close()
        if self._trainer is not None:
            gather(self._trainer, [None])  # a barrier: the outcome is on disk, the parts may go
        if self.folder is not None:
            for part in self._parts():
                part.unlink(missing_ok=True)
            with suppress(OSError):  # not empty on the machine with the lock: see `close`
                self.folder.rmdir()
        self.close()

    def close(self) -> None:
        """Close all files; the records are kept for the next start."""
        if self._part is not None:
            with suppress(OSError):  # a full disk has been reported when it was found
                self._part.close()
        if self._lock is not None and self.folder is not None:
            with suppress(OSError):  # the folder is not empty if there are parts
                (self.folder / ".lock").unlink()
                self.folder.rmdir()
            self._lock.close()
        self._part = self._lock = self._meeting = self._trainer = None
        self._mine, self._done = {}, frozenset()

    def _take_lock(self) -> bool:
        if self.folder is None:
            return True
        path = self.folder / ".lock"
        while True:
            self.folder.mkdir(parents=True, exist_ok=True)
            try:
                lock = path.open("wb")
            except FileNotFoundError:  # another process has just deleted the folder
                continue
            with suppress(OSError):  # a file system without locks
                if not take(lock):
                    lock.close()
                    return False
            # Its former owner may have deleted the file before this lock: then lock a new one.
            if path.is_file() and os.path.samestat(path.stat(), os.fstat(lock.fileno())):
                self._lock = lock
                return True
            lock.close()

    def _parts(self) -> list[Path]:
        """Return the parts that this process can see."""
        if self.folder is None:
            return []
        # Not `Path.glob`: it fails where another process deletes the folder while it looks.
        with suppress(FileNotFoundError), os.scandir(self.folder) as entries:
            names = sorted(entry.name for entry in entries)
            return [self.folder / name for name in names if fnmatch(name, "rank-*.jsonl")]
        return []

    def _read_parts(self) -> tuple[dict[int, Record], dict[Path, Sequence[Difference]], float]:
        """Return the records by sample, the changes of stale parts, and the working time."""
        records_by_id: dict[int, Record] = {}
        stale: dict[Path, Sequence[Difference]] = {}
        seconds = 0.0
        for path in self._parts():
            subject, records, _ = read_lines(path, _line)
            part_subject = subject if isinstance(subject, dict) else {}
            changes = differences(part_subject, self._subject or {})
            if self._subject is None or changes:
                stale[path] = changes if records else ()
                continue
            # A part has two kinds of lines: records, and the seconds since the line before.
            records_by_id |= {
                int(line["sample_id"]): line for line in records if "sample_id" in line
            }
            spent = (float(line["seconds"]) for line in records if line.keys() == {"seconds"})
            seconds = max(seconds, sum(spent))
        return records_by_id, stale, seconds

    @staticmethod
    def _share(
        trainer: Team, records: dict[int, Record]
    ) -> tuple[dict[int, Record], frozenset[int]]:
        """Return the records that this process merges (the first to see them), and all ids."""
        ids_by_rank = gather_parts(trainer, sorted(records))
        # Two machines with a common disk read the same parts: the lowest rank merges them.
        before = {sample for part in ids_by_rank[: trainer.global_rank] for sample in part}
        mine = {sample: record for sample, record in records.items() if sample not in before}
        return mine, frozenset(sample for part in ids_by_rank for sample in part)

    def _open(self, rank: int) -> None:
        if self.folder is None:
            return
        path = self.folder / f"rank-{rank}.jsonl"
        # Stale parts are deleted by now; an incomplete line at the end is cut off.
        self._part = open_lines(path)
        cut_lines(self._part, self._subject, read_part(path)[2])


def _name_classes(record: Record, names: Sequence[str]) -> Record:
    """Return the names of the classes in a record; tags and regression targets have none."""
    return {
        f"{key}_name": names[record[key]]
        for key in _OF_CLASSES
        if type(record.get(key)) is int and 0 <= record[key] < len(names)
    }


def read_part(path: Path) -> tuple[Any, list[Record], int]:
    """Return the subject of a part, its complete records, and the bytes of its lines."""
    subject, lines, length = read_lines(path, _line)
    return subject, [line for line in lines if "sample_id" in line], length


def _line(content: Any) -> Record:
    seconds = content.keys() == {"seconds"} and isinstance(content["seconds"], float)
    if not seconds and not isinstance(content["sample_id"], int):
        raise TypeError
    record: Record = content
    return record
