"""Run all runs of a study (methods x corpora x seeds), each through its stages.

Then make tables of them, with intervals and tests. docs/studies.md explains the file.
"""

import argparse
import logging
import signal
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from app.cli.run_options import CommandParser, add_option
from app.study.cells import StudyContext, chains, lay_out, merge_shards, only, write_shard
from app.study.study import Cell, CellFigures, Study, StudyError
from app.study.study_file import examine, read_study
from app.study.yaml_reader import NAME
from run_files.shard import Shard
from run_files.shipped import settings_file
from run_files.terminal import harmless
from text.error_reasons import describe_error
from text.file_lock import locked
from text.module_names import real_name
from training.interrupt import SIGNALS, restored_handlers

if TYPE_CHECKING:
    from app.study.runner import CellOutcome, Stop, Work

# Slow libraries are imported only by the commands that need them.


def run(args: argparse.Namespace) -> int:
    """Run the command."""
    commands = {"run": _run, "status": _status, "collect": _collect, "merge": _merge}
    # Corpora would repeat their warnings for every cell; other users of the process keep theirs.
    logger = logging.getLogger(real_name("datamodules"))
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        return commands[args.command](args)
    finally:
        logger.setLevel(level)


def parser() -> argparse.ArgumentParser:
    """Return the parser of the command line."""
    arguments = CommandParser(prog="steadfast study", description=__doc__)
    commands = arguments.add_subparsers(dest="command", required=True, metavar="COMMAND")
    text = "run the remaining runs of a study; the same command resumes"
    run = _add_command(commands, "run", text)
    add = run.add_argument
    text = "runs at a time, each with its share of the cores, or one GPU each"
    add("--jobs", type=int, default=1, metavar="N", help=text)
    text = "where runs are computed: processes of this machine, or tasks of a Ray cluster"
    add("--executor", choices=("local", "ray"), default="local", help=text)
    text = "the Ray cluster: auto, HOST:PORT, ray://HOST:PORT (default: one on this machine)"
    add("--ray_address", metavar="ADDRESS", help=text)
    text = "run the I-th of N parts only, for machines of their own; then `study merge`"
    add("--shard", metavar="I/N", help=text)
    add("--check", action="store_true", help="only check the file, and list the runs")
    status = _add_command(commands, "status", "say how far each run is")
    for command in (run, status):
        text = "only the runs of these rows, on these corpora, and those that they need"
        command.add_argument("--only", nargs="+", default=[], metavar="NAME", help=text)
        text = "only the runs with these seeds, and those that they need"
        command.add_argument("--seeds", nargs="+", type=int, default=[], metavar="N", help=text)
    text = "make the tables of what is finished, without running anything"
    collect = _add_command(commands, "collect", text)
    for command in (run, status, collect):
        text = "folder of the corpora and of the resources of attacks; ${data_dir} in the file"
        text += "" if command is run else " (without it, the rows of corpora are not compared)"
        add_option(command, "--data_dir", type=Path, help=text)
        text = "a value that the study needs, for ${NAME} in its file; may be given several times"
        command.add_argument("--set", action="append", default=[], metavar="NAME=VALUE", help=text)
    text = "also the figures of runs that are not here, from the study.json of this study that was "
    text += "published earlier, for example docs/results/STUDY.json"
    collect.add_argument("--published", type=Path, metavar="FILE", help=text)
    merge = _add_command(commands, "merge", "make the tables of a study that was run in parts")
    text = "the files of the parts (default: those in RUNS_DIR/studies/STUDY)"
    merge.add_argument("parts", nargs="*", type=Path, metavar="PART", help=text)
    text = "print or write the tables of a study.json; --help says more"
    commands.add_parser("table", help=text, add_help=False)  # app/commands/study_table.py
    return arguments


def _add_command(
    commands: "argparse._SubParsersAction[CommandParser]", name: str, text: str
) -> argparse.ArgumentParser:
    description = f"{text[0].upper()}{text[1:]}."
    command = commands.add_parser(name, help=text, description=description)
    add = command.add_argument
    add("file", type=_path, metavar="STUDY.yaml", help="the study: configs/studies/example.yaml")
    add_option(command, "--runs_dir", type=Path)
    add_option(command, "--debug")
    return command


def _path(name: str) -> Path:
    """Return the file of a study; for a name, that of a shipped one."""
    try:
        return settings_file(name, folder="studies")
    except ValueError:
        return Path(name)  # `examine` reports it with all other errors


def _context(args: argparse.Namespace) -> StudyContext:
    if wrong := [setting for setting in args.set if "=" not in setting]:
        msg = f"got --set {wrong[0]}, expected --set NAME=VALUE"
        raise StudyError(msg)
    for option, path in (("runs_dir", args.runs_dir), ("data_dir", args.data_dir)):
        # `runs_dir` is created by the first run.
        created = option == "runs_dir" and not path.exists()
        if path is not None and not path.is_dir() and not created:
            msg = f"got --{option} {path}, which is not a directory, expected one"
            raise StudyError(msg)
    return StudyContext(
        study=args.file.stem,
        runs_dir=args.runs_dir,
        data_dir=args.data_dir,
        values=dict(setting.split("=", 1) for setting in args.set),
        runs_only=args.command != "run" and args.data_dir is None,
    )


def _check(args: argparse.Namespace) -> "tuple[Study, list[Cell], Work]":
    """Return the study, its cells and their settings, after all checks."""
    study, problems = examine(args.file)
    context = _context(args)
    cells, more = lay_out(study, context)
    problems += more
    from app.study.cell_check import check
    from app.study.runner import Work

    # A wrong name of the file would make the names of all runs wrong.
    settings, more = check(cells, context) if NAME.fullmatch(study.name) else ({}, [])
    problems += more
    if problems:
        count = f"{len(problems)} problems" if len(problems) > 1 else "one problem"
        msg = "\n  ".join([f"got {args.file} with {count}, expected a study:", *problems])
        raise StudyError(msg)
    return study, cells, Work(context=context, settings=settings)


def _status(args: argparse.Namespace) -> int:
    study, cells, work = _check(args)
    selected = only(cells, args.only, args.seeds)
    from app.study.runner import state_of

    width, done = max((len(cell.run) for cell in selected), default=0), 0
    for cell, state in [(cell, state_of(cell, work)) for cell in selected]:
        ended = f"{state.ended} of {len(cell.stages)} stages"
        print(harmless(f"{cell.run:{width}}  {ended}  {state.words}"))
        done += state.words == "done"
    print(f"\n{study.name}: {done} of {len(selected)} runs are done")
    return 0


def _run(args: argparse.Namespace) -> int:
    if args.jobs < 1:
        msg = f"got --jobs {args.jobs}, expected at least 1"
        raise StudyError(msg)
    if args.ray_address is not None and args.executor != "ray":
        msg = f"got --ray_address {args.ray_address} without --executor ray, expected both"
        raise StudyError(msg)
    study, cells, work = _check(args)
    selected = only(cells, args.only, args.seeds)
    shard = Shard.of(args.shard) if args.shard else None
    if shard is not None:
        # Every N-th chain of `after` as a whole.
        selected = [cell for chain in shard.take(chains(selected)) for cell in chain]
    if args.check:
        print("\n".join([f"{study.name}: {len(selected)} runs", *(cell.run for cell in selected)]))
        return 0
    from app.study.live import StudyProgress
    from app.study.runner import Stop
    from app.study.schedule import Executor, LocalExecutor, RayExecutor, run_all
    from run_files.version import versions

    stop, out, runs_dir = Stop(), work.context.out, work.context.runs_dir
    out.mkdir(parents=True, exist_ok=True)
    with (
        _stop_at_signals(stop) as signals,
        StudyProgress(study, selected, runs_dir, args.jobs) as progress,
    ):
        executor: Executor = LocalExecutor(work, args.jobs, stop=stop, tell=progress.tell)
        if args.executor == "ray":
            executor = RayExecutor(work, args.jobs, stop=stop, address=args.ray_address)
        try:
            outcomes = run_all(selected, executor, progress, stop)
        finally:
            executor.close()
    # The exit status of a shell for a signal.
    if signals:
        _say(f"stopped by {signal.Signals(signals[0]).name}: the same command resumes")
        return 128 + signals[0]
    written = True
    with _tables(out):
        figures, unusable = _figures(study, cells if shard is None else selected, work, outcomes)
        outcomes |= unusable
        # A part of a study has no complete tables.
        if shard is None:
            written = _write(study, figures, versions(), out, unusable.keys())
        else:
            path = out / f"{study.name}.{shard.suffix()}.json"
            write_shard(path, study, shard, figures, versions())
            print(path)
    if failed := [cell for cell in selected if outcomes[cell.run].state != "done"]:
        _say(f"\n{len(failed)} of {len(selected)} runs are not done:")
    for cell in failed:
        outcome = outcomes[cell.run]
        _say(f"  {cell.run}: {outcome.error}{f' ({outcome.log})' if outcome.log else ''}")
    return 1 if failed or not written else 0


@contextmanager
def _stop_at_signals(stop: "Stop") -> Iterator[list[int]]:
    """Turn SIGTERM and Ctrl-C into a wish to stop inside the block; yield the signals."""
    # The runs save their state; a second signal kills them.
    signals: list[int] = []

    def handle(signum: int, frame: object) -> None:
        signals.append(signum)
        stop.wish()

    with restored_handlers():
        # Python allows handlers in the main thread only.
        if threading.current_thread() is threading.main_thread():
            for number in SIGNALS:
                signal.signal(number, handle)
        yield signals


def _collect(args: argparse.Namespace) -> int:
    study, cells, work = _check(args)
    from run_files.run_directory import RunDirectory
    from run_files.version import versions

    with _tables(work.context.out):
        figures, unusable = _figures(study, cells, work, {})
        here = {cell.run for cell in figures} | unusable.keys()
        if args.published is not None:
            from app.study.derivation import published_figures

            earlier = published_figures(args.published, study, versions())
            for cell in [cell for cell in earlier if cell.run not in here]:
                # It may have been made anew: its weights need not be those of the file.
                if RunDirectory(work.context.runs_dir / cell.run).begun:
                    _say(
                        f"{cell.run} is here, and not complete: its published figures are left out"
                    )
                else:
                    figures.append(cell)
        _write(study, figures, versions(), work.context.out, unusable.keys())
    print(f"{study.name}: figures of {len(figures)} of {len(cells)} runs")
    for run, outcome in unusable.items():
        _say(f"  {run} cannot be used: {outcome.error}")
    return 1 if unusable else 0


def _tables(out: Path) -> AbstractContextManager[None]:
    """Return the lock of a study's tables: the later of two commands writes the figures of both."""
    return locked(out / "study.json")


def _figures(
    study: Study, cells: Sequence[Cell], work: "Work", outcomes: "Mapping[str, CellOutcome]"
) -> "tuple[list[CellFigures], dict[str, CellOutcome]]":
    """Return the figures of all cells that any call has finished, and errors of unusable ones."""
    from app.study.collect import collect
    from app.study.runner import CellOutcome, state_of
    from run_files.run_directory import RunDirectory
    from run_files.weights import tensors_digest

    figures, unusable = [], {}
    for cell in cells:
        # This call has not looked at cells that it did not select.
        if cell.run not in outcomes or outcomes[cell.run].state != "done":
            state = state_of(cell, work)
            if state.error:
                unusable[cell.run] = CellOutcome(state="failed", error=state.error)
            if state.words != "done":
                continue
        try:
            measured = collect(study, cell, work.context.runs_dir)
        except (ValueError, OSError) as error:
            unusable[cell.run] = CellOutcome(state="failed", error=describe_error(error))
            continue
        weights = tensors_digest(RunDirectory(work.context.runs_dir / cell.run).chosen)
        figures.append(replace(measured, weights=weights))
    return figures, unusable


def _write(
    study: Study,
    figures: Sequence[CellFigures],
    versions: Mapping[str, str],
    out: Path,
    unusable: AbstractSet[str] = frozenset(),
) -> bool:
    """Write `study.json`, tables and pictures, or return False.

    Those of an earlier call are kept if they have figures of a run that is unusable now.
    """
    from app.commands.study_table import write_all
    from app.study.study_json import content, outcomes_of, read

    try:
        earlier = read(out / "study.json")
    except (StudyError, OSError):  # none, or of another version
        earlier = {"cells": ()}
    if lost := sorted(unusable & {cell["run"] for cell in earlier["cells"]}):
        _say(
            f"the tables in {out} are kept, with figures of {', '.join(lost)}, which cannot be "
            "used now: move these runs away, or give the study's file another name"
        )
        return False
    write_all(study, content(study, figures, versions), out, outcomes_of(study, figures))
    for column in study.columns:
        rows = {row.name for row in study.rows if column.corpus in (None, *row.corpora)}
        cells = [cell for cell in figures if column.corpus in (None, cell.corpus)]
        # A row that is not run yet may be the only one with this figure.
        complete = {cell.row for cell in cells} == rows
        if complete and not any(column.name in cell.values for cell in cells):
            _say(
                f"column {column.name}: no run has a figure {column.metric}, expected a metric of "
                "their results.json; correct the column, and give the same command again"
            )
    print(out)
    return True


def _merge(args: argparse.Namespace) -> int:
    study = read_study(args.file)
    out = StudyContext(study=study.name, runs_dir=args.runs_dir).out
    paths = args.parts or sorted(out.glob(f"{study.name}.shard-*-of-*.json"))
    if not paths:
        msg = f"got no parts in {out}, expected files that `study run --shard I/N` has written"
        raise StudyError(msg)
    with _tables(out):
        figures, versions = merge_shards(study, paths)
        _write(study, figures, versions, out)
    return 0


def _say(text: str) -> None:
    print(harmless(text), file=sys.stderr)
