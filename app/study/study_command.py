"""`python -m app study`: runs all runs of a study, and makes its tables."""

import argparse
import logging
import signal
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from app.cli.shipped import settings_file
from app.cli.terminal import harmless
from app.runs.shard import Shard
from app.study import parts
from app.study.cells import Place, laid_out, only
from app.study.study import Cell, CellFigures, Study, StudyError
from app.study.study_file import examine, read_study
from app.study.yaml_reader import NAME

if TYPE_CHECKING:
    from app.study.live import Progress
    from app.study.runner import Outcome, Stop, Work
    from app.study.schedule import Executor


def main(argv: Sequence[str]) -> int:
    """Runs `study`; see `Command.place`.

    Returns:
        The exit status: 0 done, 1 a run has failed, 130 or 143 stopped by a signal.

    Raises:
        StudyError: a study that cannot be run; the message lists all that is wrong with it.
        OSError: a file that cannot be read or written.
    """
    if argv[:1] == ["table"]:
        from app.study.table_command import table_main

        return table_main(argv[1:])
    args = parser().parse_args(argv)
    commands = {"run": _run, "status": _status, "collect": _collect, "merge": _merge}
    command = commands[args.command]
    with _silent("datamodules"):
        return command(args)


@contextmanager
def _silent(room: str) -> Iterator[None]:
    """Lets a room say nothing but errors, and as much as before afterwards."""
    logger = logging.getLogger(room)
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        logger.setLevel(level)


def parser() -> argparse.ArgumentParser:
    """Returns the parser of the command line."""
    made = argparse.ArgumentParser(
        prog="steadfast study",
        description="Run all runs of a study (methods x corpora x seeds), each through its stages, "
        "and make tables with intervals and tests of them. docs/studies.md explains the file.",
        allow_abbrev=False,
    )
    commands = made.add_subparsers(dest="command", required=True, metavar="COMMAND")
    run = _command(commands, "run", "run what is left of a study; the same command goes on")
    add = run.add_argument
    text = "runs at a time, each with its share of the cores, or one GPU each (default: 1)"
    add("--jobs", type=int, default=1, metavar="N", help=text)
    text = "where runs are computed: processes of this machine, or tasks of a Ray cluster "
    text += "(default: local)"
    add("--executor", choices=("local", "ray"), default="local", help=text)
    text = "the Ray cluster: auto, HOST:PORT, ray://HOST:PORT (default: one on this machine)"
    add("--ray_address", metavar="ADDRESS", help=text)
    text = "run the I-th of N parts only, for machines of their own; then `study merge`"
    add("--shard", metavar="I/N", help=text)
    add("--check", action="store_true", help="only check the file, and list the runs")
    status = _command(commands, "status", "say how far each run is")
    for one in (run, status):
        text = "only the runs of these rows, on these corpora, and those that they need"
        one.add_argument("--only", nargs="+", default=[], metavar="NAME", help=text)
        text = "only the runs with these seeds, and those that they need"
        one.add_argument("--seeds", nargs="+", type=int, default=[], metavar="N", help=text)
    text = "make the tables of what is finished, without running anything"
    collect = _command(commands, "collect", text)
    for one in (run, status, collect):
        text = "folder of the corpora and of the resources of attacks; ${data_dir} in the file"
        text += "" if one is run else " (without it, the rows of corpora are not compared)"
        one.add_argument("--data_dir", type=Path, metavar="DIR", help=text)
        text = "a value that the study needs, for ${NAME} in its file; may be given several times"
        one.add_argument("--set", action="append", default=[], metavar="NAME=VALUE", help=text)
    merge = _command(commands, "merge", "make the tables of a study that was run in parts")
    text = "the files of the parts (default: those in RUNS_DIR/studies/STUDY)"
    merge.add_argument("parts", nargs="*", type=Path, metavar="PART", help=text)
    text = "print or write the tables of a study.json; --help says more"
    commands.add_parser("table", help=text, add_help=False)
    return made


def _command(
    commands: "argparse._SubParsersAction[argparse.ArgumentParser]", name: str, text: str
) -> argparse.ArgumentParser:
    whole = f"{text[0].upper()}{text[1:]}."
    parser = commands.add_parser(name, help=text, description=whole, allow_abbrev=False)
    add = parser.add_argument
    runs = "directory of all runs (default: runs)"
    add("file", type=_study, metavar="STUDY.yaml", help="the study: configs/studies/example.yaml")
    add("--runs_dir", type=Path, default=Path("runs"), metavar="DIR", help=runs)
    add("--debug", action="store_true", help="show where an error came from (STEADFAST_DEBUG=1)")
    return parser


def _study(given: str) -> Path:
    """The file of a study; that of a shipped one by its name."""
    try:
        return settings_file(given, folder="studies")
    except ValueError:
        return Path(given)  # examined later, with all that may be wrong with it


def _place(args: argparse.Namespace) -> Place:
    values = {}
    for given in args.set:
        name, equals, value = given.partition("=")
        if not equals:
            msg = f"got --set {given}, expected --set NAME=VALUE"
            raise StudyError(msg)
        values[name] = value
    for option, path in (("runs_dir", args.runs_dir), ("data_dir", args.data_dir)):
        lacking = option == "data_dir" and path is not None and not path.exists()
        if lacking or (path is not None and path.exists() and not path.is_dir()):
            msg = f"got --{option} {path}, which is no folder, expected one"
            raise StudyError(msg)
    return Place(
        study=args.file.stem,
        runs_dir=args.runs_dir,
        data_dir=args.data_dir,
        values=values,
        runs_only=args.command != "run" and args.data_dir is None,
    )


def _checked(args: argparse.Namespace) -> "tuple[Study, list[Cell], Work]":
    """The study, its cells and their settings, after all checks.

    Raises:
        StudyError: the message lists all that is wrong.
    """
    study, problems = examine(args.file)
    place = _place(args)
    cells, found = laid_out(study, place)
    problems += found
    from app.study.cell_check import check
    from app.study.runner import Work

    # Of a file with a wrong name, so are all names of runs.
    settings, found = check(cells, place) if NAME.fullmatch(study.name) else ({}, [])
    problems += found
    if problems:
        count = f"{len(problems)} problems" if len(problems) > 1 else "one problem"
        msg = "\n  ".join([f"got {args.file} with {count}, expected a study:", *problems])
        raise StudyError(msg)
    return study, cells, Work(place=place, settings=settings)


def _status(args: argparse.Namespace) -> int:
    study, cells, work = _checked(args)
    wanted = only(cells, args.only, args.seeds)
    from app.study.runner import state_of

    states = {cell.run: state_of(cell, work) for cell in wanted}
    width = max(map(len, states), default=0)
    for cell in wanted:
        state, ended = states[cell.run]
        print(harmless(f"{cell.run:{width}}  {ended} of {len(cell.stages)} stages  {state}"))
    done = sum(state == "done" for state, _ in states.values())
    print(f"\n{study.name}: {done} of {len(wanted)} runs are done")
    return 0


def _run(args: argparse.Namespace) -> int:
    if args.jobs < 1:
        msg = f"got --jobs {args.jobs}, expected at least 1"
        raise StudyError(msg)
    if args.ray_address is not None and args.executor != "ray":
        msg = f"got --ray_address {args.ray_address} without --executor ray, expected both"
        raise StudyError(msg)
    study, cells, work = _checked(args)
    wanted = only(cells, args.only, args.seeds)
    shard = Shard.of(args.shard) if args.shard else None
    if shard is not None:
        wanted = parts.take(wanted, shard)
    if args.check:
        print(f"{study.name}: {len(wanted)} runs")
        print("\n".join(cell.run for cell in wanted))
        return 0
    from app.runs.version import versions
    from app.study.live import Progress
    from app.study.runner import Stop
    from app.study.schedule import run_all

    stop = Stop()
    work.place.out.mkdir(parents=True, exist_ok=True)
    with (
        _heard(stop) as heard,
        Progress(study, wanted, work.place.runs_dir, args.jobs) as progress,
    ):
        executor = _executor(args, work, stop, progress)
        try:
            outcomes = run_all(wanted, executor, progress, stop)
        finally:
            executor.close()
    if heard:
        _say(f"stopped by {signal.Signals(heard[0]).name}: the same command goes on")
        return 128 + heard[0]
    figures, refused = _figures(study, cells if shard is None else wanted, work, outcomes)
    outcomes |= refused
    if shard is None:
        _write(study, figures, versions(), work.place.out)
    else:
        path = parts.path_of(study.name, shard, work.place.out)
        parts.write(path, study, shard, figures, versions())
        print(path)
    return _report(wanted, outcomes)


def _executor(
    args: argparse.Namespace, work: "Work", stop: "Stop", progress: "Progress"
) -> "Executor":
    if args.executor == "ray":
        from app.study.ray_executor import RayExecutor

        return RayExecutor(work, args.jobs, stop=stop, address=args.ray_address)
    from app.study.local_executor import LocalExecutor

    return LocalExecutor(work, args.jobs, stop=stop, tell=progress.tell)


@contextmanager
def _heard(stop: "Stop") -> Iterator[list[int]]:
    """Turns SIGTERM and Ctrl-C into a wish to stop inside the block; yields those that came."""
    heard: list[int] = []

    def handle(signum: int, frame: object) -> None:
        heard.append(signum)
        stop.wish()

    if threading.current_thread() is not threading.main_thread():
        yield heard
        return
    before = {which: signal.signal(which, handle) for which in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield heard
    finally:
        for which, handler in before.items():
            signal.signal(which, handler)


def _collect(args: argparse.Namespace) -> int:
    study, cells, work = _checked(args)
    from app.runs.version import versions

    figures, refused = _figures(study, cells, work, {})
    work.place.out.mkdir(parents=True, exist_ok=True)
    _write(study, figures, versions(), work.place.out)
    print(f"{study.name}: figures of {len(figures)} of {len(cells)} runs")
    for run, outcome in refused.items():
        _say(f"  {run} cannot be used: {outcome.error}")
    return 1 if refused else 0


def _figures(
    study: Study, cells: Sequence[Cell], work: "Work", outcomes: "Mapping[str, Outcome]"
) -> "tuple[list[CellFigures], dict[str, Outcome]]":
    """The figures of all finished cells, also of those that former starts have finished.

    Returns:
        The figures; and by run what is wrong with a run whose figures cannot be used.
    """
    from app.runs.run_directory import RunDirectory
    from app.runs.weights import tensors_digest
    from app.study.collect import collect
    from app.study.runner import Outcome, state_of

    found, refused = [], {}
    for cell in cells:
        state = outcomes[cell.run].state if cell.run in outcomes else state_of(cell, work)[0]
        if state == "done":
            chosen = RunDirectory(work.place.runs_dir / cell.run).chosen
            try:
                figures = collect(study, cell, work.place)
            except (ValueError, OSError) as error:
                refused[cell.run] = Outcome(state="failed", error=" ".join(str(error).split()))
                continue
            found.append(replace(figures, weights=tensors_digest(chosen)))
    return found, refused


def _write(
    study: Study, figures: Sequence[CellFigures], versions: Mapping[str, str], out: Path
) -> None:
    """Writes `study.json`, tables and pictures."""
    from app.study.study_json import content, outcomes_of
    from app.study.table_command import write_all

    write_all(study, content(study, figures, versions), out, outcomes_of(study, figures))
    for column in study.columns:
        on = [one for one in figures if column.corpus in (None, one.corpus)]
        if on and not any(column.name in one.values for one in on):
            _say(
                f"column {column.name}: no run has a figure {column.metric}, expected a metric of "
                "their results.json; correct the column, and give the same command again"
            )
    print(out)


def _report(cells: Sequence[Cell], outcomes: "Mapping[str, Outcome]") -> int:
    """Lists what has failed; returns the exit status."""
    bad = [cell for cell in cells if outcomes[cell.run].state != "done"]
    if not bad:
        return 0
    _say(f"\n{len(bad)} of {len(cells)} runs are not done:")
    for cell in bad:
        outcome = outcomes[cell.run]
        log = f" ({outcome.log})" if outcome.log else ""
        _say(f"  {cell.run}: {outcome.error}{log}")
    return 1


def _merge(args: argparse.Namespace) -> int:
    study = read_study(args.file)
    out = Place(study=study.name, runs_dir=args.runs_dir).out
    paths = args.parts or sorted(out.glob(f"{study.name}.shard-*-of-*.json"))
    if not paths:
        msg = f"got no parts in {out}, expected files that `study run --shard I/N` has written"
        raise StudyError(msg)
    figures, versions = parts.merged(study, paths)
    out.mkdir(parents=True, exist_ok=True)
    _write(study, figures, versions, out)
    return 0


def _say(text: str) -> None:
    print(harmless(text), file=sys.stderr)
