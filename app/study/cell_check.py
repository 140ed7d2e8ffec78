"""Parses every cell by the real parser, before anything runs."""

import argparse
import contextlib
import io
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from app.cli.main import unwrap_constructor_error
from app.cli.robust_cli import RobustCLI
from app.cli.run_options import refuse_former
from app.study.cells import TRAINING, StudyContext, command_line, options_of, training_words, words
from app.study.study import Cell, Stage
from attacks import PGD, PGDSettings
from measure.attack_settings import AttackSettings, check_attacks
from text.error_reasons import describe_error

Parsed = Mapping[str, Any]
"""All settings of one command, as plain values."""
Kind = tuple[str, str, str]
"""Row, corpus and run before: cells of one kind differ in their seed only."""


class _Built(Exception):
    """The attributes of the parser are there."""


class _Parser(RobustCLI):
    """The command line, up to its parser."""

    def __init__(self) -> None:
        self.ready = False
        # LightningCLI parses in its constructor: the exception ends it once the parser exists.
        with contextlib.suppress(_Built):
            super().__init__(["train"])

    def parse_arguments(self, parser: Any, args: Any) -> None:
        """End the constructor the first time; parse afterwards."""
        if not self.ready:
            self.ready = True
            raise _Built
        super().parse_arguments(parser, args)

    def instantiate_trainer(self, **kwargs: Any) -> Any:
        """Build nothing: a trainer would begin the run."""

    def read(self, argv: Sequence[str], *, build: bool) -> Parsed:
        """Return the settings of a command line; `build` also checks that model and corpus fit.

        Raises:
            ValueError: the command would refuse the settings.
        """
        self.argv = list(argv)
        with _exit_as_error():
            self.setup_parser(True, *self._setup_parser_kwargs(self.parser_kwargs))
            self.parse_arguments(self.parser, None)
            self.subcommand = self.config["subcommand"]
            if build:
                self.instantiate_classes()
        settings: Parsed = self.config[self.subcommand].as_dict()
        return settings


def check(
    cells: Sequence[Cell], context: StudyContext
) -> tuple[dict[Kind, tuple[Parsed, ...]], list[str]]:
    """Return the settings of each stage by the kind of the cell, and one line for each problem.

    Commands are parsed once for cells that differ only in their seed.
    """
    parser = _Parser()
    settings: dict[Kind, tuple[Parsed, ...]] = {}
    problems: dict[str, list[str]] = {}
    for cell in cells:
        kind = kind_of(cell)
        if kind in settings:
            continue
        stages, failed = [], False
        for stage in cell.stages:
            where = f"rows.{cell.row}" + (f" on {cell.corpus}" if cell.corpus else "")
            try:
                stages.append(_read(parser, cell, stage, context))
            except (ValueError, OSError, TypeError) as error:
                # A stage after a failed training only repeats that its run is missing.
                if failed and "train it first" in str(error):
                    continue
                failed = True
                text = describe_error(unwrap_constructor_error(error))
                problems.setdefault(text, []).append(f"{where}, {stage.command}")
        settings[kind] = tuple(stages)
    lines = []
    for text, wheres in problems.items():
        more = f" and {len(wheres) - 2} more" if len(wheres) > 2 else ""
        lines.append(f"{'; '.join(wheres[:2])}{more}: {text}")
    return settings, lines


def kind_of(cell: Cell) -> Kind:
    """Return the kind of a cell."""
    return cell.row, cell.corpus, cell.after or ""


def _read(parser: _Parser, cell: Cell, stage: Stage, context: StudyContext) -> Parsed:
    if stage.command == "diagnose":
        from app.commands import diagnose

        return _plainly(diagnose.parser(), command_line(cell, stage, context))
    if stage.command == "transfer":
        from app.commands import attack_pairs

        return _plainly(attack_pairs.parser(), command_line(cell, stage, context)[1:])
    if stage.threat is not None:
        from app.commands import certify
        from attacks.word_sets import is_endless

        options = _plainly(certify.parser(), command_line(cell, stage, context))
        certify.numbers(options["k"], endless=is_endless(options["threat"]))
        return options
    if stage.command == "attack":  # an error in the settings of the run must not hide one here
        check_attacks(AttackSettings(recipe=stage.recipe))
    # An evaluation takes model and data from its run, which does not exist yet.
    line = [stage.command, *training_words(cell, context), *words(options_of(stage, context))]
    # The files of the run before a cell do not exist yet, either: nothing is built.
    build = cell.after is None and stage.command in TRAINING and not context.runs_only
    line += [f"--run={cell.run}", f"--runs_dir={context.runs_dir}"]
    if stage.command in TRAINING:
        line.append(f"--seed={cell.seed}")
    settings = parser.read(line, build=build)
    if stage.command == "attack":
        check_attacks(AttackSettings(**settings["attack"]))
    elif stage.command in ("train", "test"):
        PGD(**asdict(PGDSettings(**settings["pgd"])))
    return settings


def _plainly(parser: argparse.ArgumentParser, words: Sequence[str]) -> Parsed:
    """Return the options of a command outside LightningCLI."""
    with _exit_as_error():
        refuse_former(words[0], words)
        return vars(parser.parse_args(words[1:]))


@contextlib.contextmanager
def _exit_as_error() -> Iterator[None]:
    """Raise the exit of a parser as a ValueError with its message."""
    output = io.StringIO()
    try:
        with contextlib.redirect_stderr(output):
            yield
    except SystemExit as error:
        # Without the hint at --help at its end.
        reason = " ".join(output.getvalue().split()).removeprefix("error: ").split(" (`")[0]
        raise ValueError(reason or str(error)) from error
