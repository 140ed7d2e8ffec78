"""Runs a command of the program inside a test."""

from collections.abc import Sequence

from app.cli.commands import find_command


def run_command(name: str, words: Sequence[str]) -> int:
    """Run a command outside LightningCLI; return its exit status.

    Args:
        name: of the command.
        words: its options.
    """
    call = find_command([*name.split(), *words])
    assert call is not None, name
    return call.run()
