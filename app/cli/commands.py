"""The table of all commands, in the order of their first use, and the help of the program."""

import sys
from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import Any, Literal, NamedTuple

from app.cli.run_options import refuse_former

LIGHTNING = "app.cli.robust_cli"
"""File of the commands that take a method and a corpus."""
_OF_LIGHTNING = (
    *("--config", "-c", "--print_config", "--model", "--checkpoint", "--early_stopping", "--track"),
    *("--checkpoint_every_n_minutes", "--on_nonfinite_loss", "--radii", "--propagation"),
    "--generation",
)


class Way(NamedTuple):
    """A second way of a command of LightningCLI, on other texts or about another statement.

    Attributes:
        module: file that runs it, as `Command.module`.
        chosen_by: options of which one chooses this way.
        instead: options of the first way that are refused, with their replacement if any.
        container: as `Command.container`.
    """

    module: str
    chosen_by: tuple[str, ...]
    instead: Mapping[str, str]
    container: tuple[str, ...]


class Command(NamedTuple):
    """A command.

    Attributes:
        summary: one sentence about it.
        module: file that runs it: its docstring is the description in the help, `parser` returns
            the parser, and `run` takes the parsed options and returns the exit status.
        imports: libraries that take seconds to load (torch, Lightning): `at once`, only in `run`
            (`late`: a wrong command line is an error before), or `none`.
        container: options that the entry point of the image fills in (docker/entrypoint.sh).
        way: a second way of the command.
    """

    summary: str
    module: str = LIGHTNING
    imports: Literal["at once", "late", "none"] = "at once"
    container: tuple[str, ...] = ()
    way: Way | None = None


_RUN, _CORPUS = ("--run",), ("--run", "--data_dir")
COMMANDS = {
    "doctor": Command(
        "Check the installation and the machine.", "app.commands.doctor", imports="none"
    ),
    "train": Command("Fit a model, then test and certify its best checkpoint.", container=_CORPUS),
    "fit": Command("Train a model, or resume the training of a run.", container=_CORPUS),
    "validate": Command("Measure a checkpoint on the validation split.", container=_CORPUS),
    "test": Command(
        "Measure a checkpoint on the test split, without attack and under l2-PGD.",
        container=_CORPUS,
    ),
    "certify": Command(
        "Certify a checkpoint: a radius around each text, or changes of words (--threat).",
        container=_CORPUS,
        way=Way(
            "app.commands.certify",
            ("--threat",),
            {**dict.fromkeys(_OF_LIGHTNING, ""), "--trainer": "--device", "--data": "--data_dir"},
            _CORPUS,
        ),
    ),
    "certify export": Command(
        "Write certificates in words for others to check.", "app.commands.certify_export"
    ),
    "attack": Command(
        "Attack a model by changing words of texts: a run on its corpus, or any model (--victim).",
        # The image has word vectors, WordNet and models next to the corpora.
        container=(*_CORPUS, "--attack.resources"),
        way=Way(
            "app.commands.attack",
            ("--victim",),
            {
                **dict.fromkeys(_OF_LIGHTNING, ""),
                "--run": "--victim run:NAME",
                "--ckpt_path": "--victim run:NAME",
                "--trainer": "--device",
                "--data": "--dataset",
                "--data_dir": "--dataset",
                "--attack.split": "--dataset hf:ID:SPLIT",
                # Certificates in words are about a run on its corpus.
                "--attack.threat": "",
            },
            ("--attack.resources",),
        ),
    ),
    "attack merge": Command("Unite the shards of one attack.", "app.commands.attack_merge"),
    "attack pairs": Command(
        "Measure a model on published adversarial texts.", "app.commands.attack_pairs"
    ),
    "attack sheet": Command("Let people rate adversarial texts.", "app.commands.attack_sheet"),
    "attack validity": Command(
        "Count the adversarial texts that keep their meaning.", "app.commands.attack_validity"
    ),
    "augment": Command("Make changed copies of texts, without a model.", "app.commands.augment"),
    "predict": Command(
        "Predict the class of a text (--text), of a file, or of the test split.",
        container=_CORPUS,
        way=Way(
            "app.commands.predict",
            ("--text", "--file", "-"),
            {
                **dict.fromkeys((*_OF_LIGHTNING, "--data", "--data_dir"), ""),
                "--trainer": "--device",
            },
            _RUN,
        ),
    ),
    "serve": Command(
        "Show trained models in a browser.",
        "app.commands.serve",
        container=("--run", "--host", "--data_dir", "--resources"),
    ),
    "export": Command(
        "Write a trained model as a folder for others.", "app.commands.export", container=_RUN
    ),
    "diagnose": Command(
        "Measure a trained model, layer by layer.", "app.commands.diagnose", container=_RUN
    ),
    "attention": Command(
        "Draw the attention of a trained model.", "app.commands.attention", container=_RUN
    ),
    "runs": Command(
        "List the runs, their state and main figures.", "app.commands.runs_list", imports="none"
    ),
    "report": Command(
        "Write a page about a run: figures, certificates, attacks, what was not measured.",
        "app.commands.report",
        imports="late",
        container=_RUN,
    ),
    "compare": Command(
        "Print runs side by side, with tests.", "app.commands.compare", imports="late"
    ),
    "study": Command("Run many trainings and collect them.", "app.commands.study", imports="late"),
    "study table": Command("Make tables of a study.", "app.commands.study_table", imports="none"),
    "resources": Command("Download what attacks need.", "app.commands.resources", imports="none"),
    "resources counter-fit": Command(
        "Move the vectors of synonyms together.", "app.commands.counter_fit"
    ),
    "lists": Command("List what words may become, by recipes and typos.", "app.commands.lists"),
    "resources encode-words": Command("Let synonyms share a form.", "app.commands.encode_words"),
}
"""The commands by their names."""


class Call(NamedTuple):
    """A command line of a command.

    Attributes:
        name: of the command.
        command: its entry in the table.
        words: those that follow the name.
        way: the second way of the command, if an option chooses it.
    """

    name: str
    command: Command
    words: list[str]
    way: Way | None

    @property
    def module(self) -> str:
        """File that runs it."""
        return self.command.module if self.way is None else self.way.module

    @property
    def wants_help(self) -> bool:
        """True if it asks for the help."""
        return bool({"--help", "-h"} & set(self.words))

    def parse(self) -> Any:
        """Return the options of a command outside LightningCLI; a wrong one ends the program."""
        return import_module(self.module).parser().parse_args(self.words)

    def run(self) -> int:
        """Run a command outside LightningCLI; return its exit status."""
        status: int = import_module(self.module).run(self.parse())
        return status


def find_command(argv: Sequence[str]) -> Call | None:
    """Return the call of a command line; None if it does not begin with a command."""
    for count in (2, 1):
        name, words = " ".join(argv[:count]), list(argv[count:])
        if len(argv) >= count and (command := COMMANDS.get(name)) is not None:
            way = command.way
            options = {word.partition("=")[0] for word in words}
            return Call(name, command, words, way if way and options & {*way.chosen_by} else None)
    return None


def run_command(name: str, words: Sequence[str]) -> int:
    """Run a command outside LightningCLI; see `Call.run`.

    Args:
        name: of the command.
        words: its options.
    """
    call = find_command([*name.split(), *words])
    if call is None or call.module == LIGHTNING:
        msg = f"got {name}, expected a command outside LightningCLI"
        raise ValueError(msg)
    return call.run()


def check_options(call: Call) -> None:
    """Refuse former names of options, and options of the other way of the command.

    Raises:
        ValueError: the message names the option to use.
    """
    refuse_former(call.name, call.words)
    if call.way is None:
        return
    options = [word.partition("=")[0] for word in call.words]
    chosen = next(option for option in options if option in call.way.chosen_by)
    for option in options:
        for other, instead in call.way.instead.items():
            if option == other or option.startswith(f"{other}."):
                msg = f"got {option} with {chosen}, expected {instead or 'one of the two'}"
                raise ValueError(msg)


def chooser(name: str, option: str) -> str | None:
    """Return the options that choose the way of a command that takes this option; None if none."""
    command = COMMANDS.get(name)
    if command is None or command.way is None:
        return None
    actions = import_module(command.way.module).parser()._option_string_actions
    return " or ".join(command.way.chosen_by) if option in actions else None


def container_options(argv: Sequence[str]) -> tuple[str, ...]:
    """Return the options of a command that the entry point of the image fills in."""
    call = find_command(argv)
    return () if call is None else (call.way or call.command).container


def help_of_all() -> str:
    """Return the help of the program: all commands, without loading any of them."""
    width = max(map(len, COMMANDS)) + 2
    lines = [f"  {words:<{width}}{command.summary}" for words, command in COMMANDS.items()]
    return "\n".join(
        (
            "usage: steadfast COMMAND [settings]",
            "",
            "Trains, attacks and certifies text classifiers.",
            "",
            "commands:",
            *lines,
            "",
            "options:",
            f"  {'-h, --help':<{width}}Print this and end.",
            f"  {'--version':<{width}}Print the version and end.",
            "",
            "steadfast COMMAND --help lists the settings of a command.",
            "A first run: steadfast train --config configs/default.yaml",
        )
    )


if __name__ == "__main__":
    if sys.argv[1] in COMMANDS:
        # In reverse order: the entry point inserts each at the front.
        print(*(container_options(sys.argv[1:])[::-1] or ["none"]))
