"""Reads mutated files and counts errors that are not ours.

    python -m tests.fuzz --inputs 250000 [--seed 0] [--only NAME] [--save FOLDER]

Exit status 1 if any error is foreign; each kind is saved with its input.
"""

import argparse
import random
import resource
import signal
import sys
import tempfile
import traceback
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any

from tests.fuzz.readers import READERS, Reader
from text.bounded_files import DataError

ROOT = Path(__file__).parents[2]
PACKAGES = (
    *("app", "attacks", "certify", "datamodules", "layers", "lit_modules", "measure"),
    *("run_files", "text", "training"),
)
SECONDS = 20.0
"""Seconds of one input after which its reader hangs; the slowest takes a hundredth."""
MEMORY = 2 * 2**30
"""Bytes of memory that an input may take beyond what the program has before the first."""


class HangError(BaseException):
    """A reader has not ended; no handler of errors catches it."""


@dataclass
class Count:
    """What became of the inputs of a reader.

    Attributes:
        accepted: read.
        refused: refused by an error of ours.
        foreign: first input, by the kind of each foreign error.
        errors: number of foreign errors.
    """

    accepted: int = 0
    refused: int = 0
    foreign: dict[str, bytes] = field(default_factory=dict)
    errors: int = 0

    @property
    def inputs(self) -> int:
        """All inputs."""
        return self.accepted + self.refused + self.errors


def is_ours(error: BaseException) -> bool:
    """True for a `DataError`, and for a ValueError that a line of ours has raised."""
    if isinstance(error, DataError):
        return True
    frames = traceback.extract_tb(error.__traceback__)
    path = Path(frames[-1].filename)
    inside = path.is_relative_to(ROOT) and path.relative_to(ROOT).parts[0] in PACKAGES
    raised = inside and (frames[-1].line or "").startswith("raise ")
    return raised and isinstance(error, ValueError | FileNotFoundError)


@contextmanager
def limited() -> Iterator[None]:
    """Limit the memory of this process, and stop what hangs."""

    def stop(number: int, frame: FrameType | None) -> None:
        del number, frame
        raise HangError

    before = resource.getrlimit(resource.RLIMIT_AS)
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    handler = signal.signal(signal.SIGALRM, stop)
    resource.setrlimit(resource.RLIMIT_AS, (used + MEMORY, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, before)
        signal.signal(signal.SIGALRM, handler)


def try_input(reader: Reader, folder: Path, content: bytes, count: Count) -> None:
    """Let a reader read a file, and count how it ends."""
    path = folder / reader.file
    path.write_bytes(content)
    signal.setitimer(signal.ITIMER_REAL, SECONDS)
    try:
        reader.read(path)
        count.accepted += 1
    except (Exception, HangError) as error:
        signal.setitimer(signal.ITIMER_REAL, 0)
        if is_ours(error):
            count.refused += 1
            return
        count.errors += 1
        where = traceback.extract_tb(error.__traceback__)[-1]
        kind = f"{type(error).__name__} in {Path(where.filename).name}:{where.lineno}: {error}"
        count.foreign.setdefault(kind[:200], content)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)


def fuzz(inputs: int, seed: int, readers: Sequence[Reader] = READERS) -> dict[str, Count]:
    """Read `inputs` mutated files, shared out over the readers.

    Args:
        inputs: of all readers.
        seed: of the mutations.
        readers: under test.

    Raises:
        AssertionError: a reader does not read its good file.
    """
    counts = {reader.name: Count() for reader in readers}
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings(), limited():
        warnings.simplefilter("ignore")
        for number, reader in enumerate(readers):
            place = Path(folder) / str(number) / "runs"
            for name, content in ((reader.file, reader.seed), *reader.others):
                (place / name).parent.mkdir(parents=True, exist_ok=True)
                (place / name).write_bytes(content)
            rng = random.Random(f"{seed} {reader.name}")
            share = inputs // len(readers) + (number < inputs % len(readers))
            for _ in range(share):
                changed = reader.change(rng, reader.seed)
                try_input(reader, place, changed, counts[reader.name])
    return counts


def table(counts: dict[str, Count]) -> str:
    """Return the counts as aligned text, and a line for each kind of foreign error."""
    rows: list[tuple[Any, ...]] = [("reader", "inputs", "accepted", "refused", "foreign")]
    rows += [(name, c.inputs, c.accepted, c.refused, c.errors) for name, c in counts.items()]
    totals = [sum(row[i] for row in rows[1:]) for i in range(1, 5)]
    lines = [f"{row[0]:<20}" + "".join(f"{cell:>10}" for cell in row[1:]) for row in rows]
    lines.append(f"{'all':<20}" + "".join(f"{total:>10,}" for total in totals))
    lines += [f"{name}: {kind}" for name, c in counts.items() for kind in c.foreign]
    return "\n".join(lines)


def main(argv: Sequence[str]) -> int:
    """Run the command; see the module.

    Returns:
        1 if there was a foreign error.
    """
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument(
        "--inputs", type=int, default=250_000, help="mutated files (default: 250000)"
    )
    parser.add_argument("--seed", type=int, default=0, help="of the mutations (default: 0)")
    parser.add_argument("--only", default="", help="readers whose name begins so (default: all)")
    parser.add_argument("--save", type=Path, default=Path("fuzz"), help="folder of foreign inputs")
    args = parser.parse_args(argv)
    readers = [reader for reader in READERS if reader.name.startswith(args.only)]
    counts = fuzz(args.inputs, args.seed, readers)
    print(table(counts))
    foreign = [(name, kind, c.foreign[kind]) for name, c in counts.items() for kind in c.foreign]
    for number, (name, kind, content) in enumerate(foreign):
        args.save.mkdir(parents=True, exist_ok=True)
        (args.save / f"{number}.input").write_bytes(content)
        (args.save / f"{number}.txt").write_text(f"{name}, seed {args.seed}: {kind}\n")
    return 1 if foreign else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
