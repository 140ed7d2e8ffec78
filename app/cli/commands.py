"""The table of all commands, in the order of their first use, and the help of the program."""

import sys
from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import Any, Literal, NamedTuple

from app.cli.run_options import refuse_former
from text.module_names import real_name

LIGHTNING = "cli.robust_cli"
"""File of the commands that take a method and a corpus."""
_OF_LIGHTNING = (
    *("--config", "-c", "--print_config", "--model", "--checkpoint", "--early_stopping", "--track"),
    *("--checkpoint_every_n_minutes", "--on_nonfinite_loss", "--radii", "--propagation"),
    "--generation",
)


class Command(NamedTuple):
    """A command, in a module `file` of `app`.

    Its docstring is the description in the help, `parser` returns the parser, and `run` takes the
    parsed options and returns the exit status. An exception of `run` is one line on standard error
    (`entry` in app/cli/main.py).
    """

    file: str
    summary: str  # one sentence
    # Libraries that take seconds to load: torch and Lightning `at once`, or only in `run` (`late`:
    # a wrong command line is an error before); `torch` alone where nothing is trained; or `none`.
    imports: Literal["at once", "torch", "late", "torch late", "none"] = "at once"
    container: tuple[str, ...] = ()  # options that docker/entrypoint.sh fills in
    way: "Command | None" = None  # a second way of the command, in another file
    chosen_by: tuple[str, ...] = ()  # of a second way: options of which one chooses it
    instead: Mapping[str, str] = {}  # of it: refused options of the first one, and which to use


def _on_corpus(summary: str, *container: str, way: Command | None = None) -> Command:
    return Command(LIGHTNING, summary, container=("--run", "--data_dir", *container), way=way)


_RUN, _RUN_AND_DATA = ("--run",), ("--run", "--data_dir")
_SERVED = (*_RUN, "--host", "--data_dir", "--resources")
_REFUSED = {**dict.fromkeys(_OF_LIGHTNING, ""), "--trainer": "--device"}
_WORDS = Command(
    "commands.certify",
    "",
    "torch",
    _RUN_AND_DATA,
    chosen_by=("--threat",),
    instead={**_REFUSED, "--data": "--data_dir"},
)
_VICTIM = Command(
    "commands.attack",
    "",
    container=("--attack.resources",),
    chosen_by=("--victim",),
    instead={
        **_REFUSED,
        "--run": "--victim run:NAME",
        "--ckpt_path": "--victim run:NAME",
        "--data": "--dataset",
        "--data_dir": "--dataset",
        "--attack.split": "--dataset hf:ID:SPLIT",
        "--attack.threat": "",  # certificates in words are about a run on its corpus
    },
)
_TEXTS = Command(
    "commands.predict",
    "",
    "torch",
    _RUN,
    chosen_by=("--text", "--file", "-"),
    instead={**_REFUSED, "--data": "", "--data_dir": ""},
)
_RECIPE = Command(
    "commands.train_recipe",
    "",
    "late",
    _RUN_AND_DATA,
    chosen_by=("--recipe",),
    instead={"--ckpt_path": "", "--pgd": "", "--radii": ""},
)
COMMANDS = {
    "doctor": Command("commands.doctor", "Check the installation and the machine.", "none"),
    "inspect": Command(
        "commands.inspect", "Show what is in files of texts and labels, and their problems.", "none"
    ),
    "train": _on_corpus("Fit a model, then test and certify its best checkpoint.", way=_RECIPE),
    "fit": _on_corpus("Train a model, or resume the training of a run."),
    "validate": _on_corpus("Measure a checkpoint on the validation split."),
    "test": _on_corpus("Measure a checkpoint on the test split, without attack and under l2-PGD."),
    "certify": _on_corpus(
        "Certify a checkpoint: a radius around each text, or changes of words (--threat).",
        way=_WORDS,
    ),
    "certify export": Command(
        "commands.certify_export", "Write certificates in words for others to check.", "torch"
    ),
    "attack": _on_corpus(
        "Attack a model by changing words of texts: a run on its corpus, or any model (--victim).",
        "--attack.resources",  # the image has word vectors and models next to the corpora
        way=_VICTIM,
    ),
    "attack merge": Command("commands.attack_merge", "Unite the shards of one attack."),
    "attack pairs": Command(
        "commands.attack_pairs", "Measure a model on published adversarial texts."
    ),
    "attack text": Command(
        "commands.attack_text", "Attack texts that are typed.", container=("--attack.resources",)
    ),
    "attack sheet": Command("commands.attack_sheet", "Let people rate adversarial texts."),
    "attack validity": Command(
        "commands.attack_validity", "Count the adversarial texts that keep their meaning."
    ),
    "check": Command(
        "commands.check", "Check limits on errors and flips of a classifier, for CI.", "torch"
    ),
    "functional": Command(
        "commands.functional",
        "Measure a classifier by functional tests, such as HateCheck.",
        "torch",
    ),
    "measure": Command(
        "commands.measure", "Measure a classifier by a measurement of a plug-in.", "torch"
    ),
    "augment": Command("commands.augment", "Make changed copies of texts, without a model."),
    "predict": _on_corpus(
        "Predict the class of a text (--text), of a file, or of the test split.", way=_TEXTS
    ),
    "serve": Command("commands.serve", "Show trained models in a browser.", "torch", _SERVED),
    "export": Command(
        "commands.export", "Write a trained model as a folder for others.", "torch", _RUN
    ),
    "diagnose": Command(
        "commands.diagnose", "Measure a trained model, layer by layer.", "torch", _RUN
    ),
    "attention": Command(
        "commands.attention", "Draw the attention of a trained model.", "torch", _RUN
    ),
    "runs": Command("commands.runs_list", "List the runs, their state and main figures.", "none"),
    "report": Command(
        "commands.report",
        "Write a page about a run: figures, certificates, attacks, what was not measured.",
        "torch late",
        _RUN,
    ),
    "site": Command(
        "commands.site", "Write the reports of all runs as a static site.", "torch late"
    ),
    "compare": Command("commands.compare", "Print runs side by side, with tests.", "late"),
    "study": Command("commands.study", "Run many trainings and collect them.", "late"),
    "study table": Command("commands.study_table", "Make tables of a study.", "none"),
    "resources": Command("commands.resources", "Download what attacks need.", "none"),
    "resources counter-fit": Command(
        "commands.counter_fit", "Move the vectors of synonyms together."
    ),
    "lists": Command("commands.lists", "List what words may become, by recipes and typos."),
    "resources encode-words": Command(
        "commands.encode_words", "Cluster words, so that most synonyms share a form."
    ),
    "resources paraphrases": Command(
        "commands.paraphrases", "Write texts in other words, by a language model.", "torch"
    ),
}
"""The commands by their names."""


class Call(NamedTuple):
    """A command line: the name of a command, the command or its second way, and the other words."""

    name: str
    command: Command
    words: list[str]

    def parse(self) -> Any:
        """Return the options of a command outside LightningCLI; a wrong one ends the program."""
        return module_of(self.command).parser().parse_args(self.words)

    def run(self) -> int:
        """Run a command outside LightningCLI; return its exit status."""
        status: int = module_of(self.command).run(self.parse())
        return status


def module_of(command: Command) -> Any:
    """Import the file of a command."""
    return import_module(real_name(f"app.{command.file}"))


def find_command(argv: Sequence[str]) -> Call | None:
    """Return the call of a command line; None if it does not begin with a command."""
    for count in (2, 1):
        name, words = " ".join(argv[:count]), list(argv[count:])
        if len(argv) >= count and (command := COMMANDS.get(name)) is not None:
            way = command.way
            chosen = way is not None and {*way.chosen_by}.intersection(_options(words))
            return Call(name, way if way is not None and chosen else command, words)
    return None


def _options(words: Sequence[str]) -> list[str]:
    return [word.partition("=")[0] for word in words]


def check_options(call: Call) -> None:
    """Raise a ValueError for former names of options, and those of the other way of the command.

    The message names the option to use.
    """
    refuse_former(call.name, call.words)
    options, command = _options(call.words), call.command
    for option in options:
        for other, instead in command.instead.items():
            if option == other or option.startswith(f"{other}."):
                chosen = next(one for one in options if one in command.chosen_by)
                msg = f"got {option} with {chosen}, expected {instead or 'one of the two'}"
                raise ValueError(msg)


def chooser(name: str, option: str) -> str | None:
    """Return the options that choose the way of a command that takes this option; None if none."""
    way = COMMANDS[name].way if name in COMMANDS else None
    if way is None or option not in module_of(way).parser()._option_string_actions:
        return None
    return " or ".join(way.chosen_by)


def container_options(argv: Sequence[str]) -> tuple[str, ...]:
    """Return the options of a command that the entry point of the image fills in."""
    call = find_command(argv)
    return () if call is None else call.command.container


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
            "A first run: steadfast train --config default --run first",
        )
    )


if __name__ == "__main__":
    if sys.argv[1] in COMMANDS:
        # In reverse order: the entry point inserts each at the front.
        print(*(container_options(sys.argv[1:])[::-1] or ["none"]))
