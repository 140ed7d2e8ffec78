"""Lists all commands, in the order of their first use, and makes the help of the program."""

import sys
from typing import NamedTuple


class Command(NamedTuple):
    """A command.

    Attributes:
        summary: one sentence about it.
        entry_point: module and function that run it; empty for the commands of LightningCLI. The
            function takes the arguments that follow the words of the command, and returns the exit
            status: 0 if its description says nothing else.
        light: True if it needs neither torch nor Lightning.
        predicts: True if it trains nothing, and needs torch without Lightning.
        container: options that the entry point of the image fills in (docker/entrypoint.sh).
    """

    summary: str
    entry_point: str = ""
    light: bool = False
    predicts: bool = False
    container: tuple[str, ...] = ()


COMMANDS = {
    "doctor": Command(
        "Check the installation and the machine.", "app.commands.doctor:run", light=True
    ),
    "train": Command("Fit a model, then test and certify its best checkpoint."),
    "fit": Command("Train a model, or resume the training of a run."),
    "validate": Command("Measure a checkpoint on the validation split."),
    "test": Command("Measure a checkpoint on the test split, without attack and under l2-PGD."),
    "certify": Command(
        "Certify a checkpoint: a radius around each text, or changes of words (--threat)."
    ),
    "certify export": Command(
        "Write certificates in words for others to check.",
        "app.commands.certify_export:main",
        predicts=True,
    ),
    "attack": Command("Attack a checkpoint by changing words of texts: TextFooler and others."),
    "attack merge": Command("Unite the shards of one attack.", "app.commands.attack_merge:main"),
    "attack pairs": Command(
        "Ask a model about published adversarial texts.", "app.commands.attack_pairs:main"
    ),
    "attack sheet": Command("Let people rate adversarial texts.", "app.commands.attack_sheet:main"),
    "attack validity": Command(
        "Count the adversarial texts that still say the same.",
        "app.commands.attack_validity:main",
    ),
    "augment": Command(
        "Make changed copies of texts, without a model.", "app.commands.augment:main"
    ),
    "predict": Command("Predict the class of a text (--text), of a file, or of the test split."),
    "serve": Command(
        "Show trained models in a browser.",
        "app.commands.serve:main",
        predicts=True,
        container=("--run", "--host", "--data_dir", "--resources"),
    ),
    "export": Command(
        "Write a trained model as a folder for others.",
        "app.commands.export:main",
        predicts=True,
        container=("--run",),
    ),
    "diagnose": Command(
        "Measure a trained model, layer by layer.",
        "app.commands.diagnose:main",
        predicts=True,
        container=("--run",),
    ),
    "attention": Command(
        "Draw the attention of a trained model.",
        "app.commands.attention:main",
        predicts=True,
        container=("--run",),
    ),
    "runs": Command(
        "List the runs, their state and main figures.", "app.commands.runs_list:main", light=True
    ),
    "report": Command(
        "Write a page about a run: figures, certificates, attacks, what was not measured.",
        "app.commands.report:main",
        container=("--run",),
    ),
    "compare": Command("Print runs side by side, with tests.", "app.commands.compare:main"),
    "study": Command("Run many trainings and collect them.", "app.commands.study:main"),
    "study table": Command(
        "Make tables of a study.", "app.commands.study_table:table_main", light=True
    ),
    "resources": Command("Download what attacks need.", "app.commands.resources:main", light=True),
    "resources counter-fit": Command(
        "Move the vectors of synonyms together.", "app.commands.counter_fit:main"
    ),
    "resources encode-words": Command(
        "Let synonyms share a form.", "app.commands.encode_words:main"
    ),
}
"""The commands by their words."""


_ASKED = Command(
    COMMANDS["predict"].summary,
    "app.commands.predict:main",
    predicts=True,
    container=("--run",),
)
"""`predict` of given texts; that of a corpus is LightningCLI's."""
_FOREIGN = Command(
    COMMANDS["attack"].summary,
    "app.commands.attack:main",
    container=("--attack.resources",),
)
"""`attack` of a model from elsewhere; that of a run on its corpus is LightningCLI's."""
_THREATENED = Command(
    COMMANDS["certify"].summary,
    "app.commands.certify:main",
    predicts=True,
    container=("--run", "--data_dir"),
)
"""`certify` against changes of words and characters; that of l2 radii is LightningCLI's."""


def find_command(argv: list[str]) -> tuple[int, Command] | None:
    """Return the number of words of a command outside LightningCLI, and the command."""
    if argv[:1] == ["predict"] and {word.split("=")[0] for word in argv} & {
        "--text",
        "--file",
        "-",
    }:
        return 1, _ASKED
    own = " ".join(argv[:2]) in COMMANDS
    if argv[:1] == ["attack"] and not own and "--victim" in {word.split("=")[0] for word in argv}:
        return 1, _FOREIGN
    threatened = "--threat" in {word.split("=")[0] for word in argv}
    if argv[:1] == ["certify"] and argv[1:2] != ["export"] and threatened:
        return 1, _THREATENED
    for count in (2, 1):
        command = COMMANDS.get(" ".join(argv[:count]))
        if len(argv) >= count and command is not None and command.entry_point:
            return count, command
    return None


def container_options(argv: list[str]) -> tuple[str, ...]:
    """Return the options of a command that the entry point of the image fills in."""
    if (match := find_command(argv)) is not None:
        return match[1].container
    # The image has word vectors, WordNet and models next to the corpora.
    resources = ("--attack.resources",) if argv[0] == "attack" else ()
    return ("--run", "--data.data_dir", *resources)


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
