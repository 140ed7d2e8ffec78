"""Adds the options that commands share."""

import argparse


def command_parser(
    command: str, description: str, *, epilog: str | None = None, runs: bool = True
) -> argparse.ArgumentParser:
    """Make a parser with `--debug`, and with `--runs_dir` for a command that reads runs.

    Args:
        command: name of the command.
        description: text of `--help`.
        epilog: the end of `--help`.
        runs: False for a command that reads no runs.
    """
    parser = argparse.ArgumentParser(
        prog=f"steadfast {command}", description=description, epilog=epilog, allow_abbrev=False
    )
    add = parser.add_argument
    if runs:
        text = "directory of all runs (default: runs)"
        add("--runs_dir", default="runs", metavar="DIR", help=text)
    add("--debug", action="store_true", help="show where an error came from (STEADFAST_DEBUG=1)")
    return parser


def run_parser(
    command: str, description: str, *, device: bool = True, several: bool = False
) -> argparse.ArgumentParser:
    """Make a parser with the options that name a run, a checkpoint and a device.

    Args:
        command: name of the command.
        description: text of `--help`.
        device: False for a command that computes nothing.
        several: True for a command about several runs; `run` is a list then.
    """
    parser = command_parser(command, description)
    add = parser.add_argument
    run = "the run (default: the run of --ckpt_path)"
    if several:
        add("--run", metavar="NAME", action="append", help=f"{run}; may be given several times")
    else:
        add("--run", metavar="NAME", help=run)
    add("--ckpt_path", metavar="FILE", help="the checkpoint (default: best.ckpt of the run)")
    if device:
        text = "auto (default: a GPU if there is one), cpu, cuda, cuda:1"
        add("--device", default="auto", help=text)
    return parser
