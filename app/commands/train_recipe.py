"""Train a robust model of your own texts, and compare it with others (--recipe robust).

The model is a sum of scores of words behind a spelling corrector, with exact certificates. It is
trained against the words that attacks put in, several times with another kappa, the weight of the
worst text in the loss. The validation rows choose kappa (--choose_by). Then the command prints
clean accuracy, accuracy under attack and certified accuracy on the test rows, next to other models
that it trains on the same rows. Other settings, such as --data.text_column or --model.min_count,
are passed to the training. The same command resumes after a kill.
"""

import argparse
import difflib
import signal
import sys
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from typing import Any

from app.cli.run_options import CommandParser, add_option
from attacks.recipes import recipe_names
from attacks.set_names import check_names

RECIPES = ("robust",)
KAPPAS = (0.3, 0.5, 0.7, 0.9)
CRITERIA = ("certified", "certified-3", "mean")
COMPARED = ("plain", "bag", "transformer")
ATTACKS = ("pwws", "textfooler", "textbugger", "deepwordbug")
PASSED = ("--model", "--data", "--trainer", "--checkpoint", "--early_stopping", "--track")
"""Groups of settings that are passed to the training."""


def run(args: argparse.Namespace) -> int:
    """Run the command."""
    # Loaded only once the command line is valid.
    from app.recipe.robust import train_robust
    from training.interrupt import Stopped, handle_signals

    with handle_signals():
        try:
            train_robust(args)
        except Stopped as stopped:
            name = signal.Signals(stopped.signum).name
            print(f"stopped by {name}: the same command resumes", file=sys.stderr)
            return 128 + stopped.signum
    return 0


class _PassingParser(CommandParser):
    """Keeps the settings of the training as `passed`."""

    def parse_args(self, args: Any = None, namespace: Any = None) -> Any:
        own: list[str] = []
        passed: list[str] = []
        words = iter(sys.argv[1:] if args is None else args)
        for word in words:
            if not word.startswith(tuple(f"{group}." for group in PASSED)):
                own.append(word)
            else:
                passed.append(word if "=" in word else f"{word}={next(words, '')}")
        parsed = super().parse_args(own, namespace)
        parsed.passed = passed
        return parsed


def parser() -> argparse.ArgumentParser:
    """Return the parser of the command line."""
    parser = _PassingParser(prog="steadfast train", description=__doc__)
    add = parser.add_argument
    recipe = partial(_check_name, names=RECIPES)
    add("--recipe", required=True, type=recipe, metavar="NAME", help="name: robust")
    text = "table with a text and its class in each row (.tsv, .csv, .json, .jsonl, .parquet; "
    text += "`steadfast inspect FILE` shows what is in it), of which a "
    text += "fifth tests and a tenth validates, or --data.test FILE, --data.validation FILE; or "
    add("--data", required=True, metavar="FILE|NAME", help=f"{text}the name of a corpus")
    for option in ("--data_dir", "--runs_dir", "--device", "--resources", "--debug"):
        add_option(parser, option)
    text = "name of the run; the others are NAME-plain and so on (default: date and file)"
    add_option(parser, "--run", help=text)
    text = "seed of the trainings; the choice of the rows does not depend on it"
    add_option(parser, "--seed", help=text)
    text = "other settings of the robust model, for example word_scores/robust_ag_news"
    add("--config", default="word_scores/robust", metavar="FILE", help=text)
    text = "perturbation sets that it is trained and certified against (default: pwws,deepwordbug, "
    add("--against", type=_sets, metavar="SETS", help=f"{text}without WordNet typos,deepwordbug)")
    text = f"weights of the worst text to try (default: auto, {', '.join(map(str, KAPPAS))})"
    add("--kappa", nargs="+", type=_kappa, default=["auto"], metavar="KAPPA", help=text)
    text = "numbers of changed words to train against, each with each kappa (default: all)"
    add("--k", nargs="+", default=["all"], metavar="K", help=text)
    text = "certified: the largest certified accuracy, for any number of changed words, among the "
    text += "models whose clean accuracy is within --clean_loss of the best; certified-3: the same "
    text += "for 3 changed words; mean: the largest mean of clean and certified accuracy. Each "
    text += "class counts the same in all of them"
    add("--choose_by", choices=CRITERIA, default=CRITERIA[0], help=text)
    text = "points of clean accuracy that robustness may cost"
    add("--clean_loss", type=float, default=5.0, metavar="POINTS", help=text)
    text = f"models to compare with, or none: {', '.join(COMPARED)}; commas between them"
    names = partial(_read_names, names=(*COMPARED, "none"))
    add("--compare", type=names, default="plain,bag", metavar="NAMES", help=text)
    text = "attacks, or none; those without their resources are left out, and named"
    recipes = partial(_read_names, names=(*recipe_names(), "none"))
    add("--attack", type=recipes, default=",".join(ATTACKS), metavar="NAMES", help=text)
    text = "number of test texts that are attacked"
    add_option(parser, "--num_samples", default=100, help=text)
    return parser


def _check_name(value: str, names: Sequence[str]) -> str:
    if value not in names:
        near = difflib.get_close_matches(value, names, n=1)
        hint = f"; did you mean {near[0]}?" if near else ""
        msg = f"got {value!r}, expected one of {', '.join(names)}{hint}"
        raise argparse.ArgumentTypeError(msg)
    return value


def _read_names(value: str, names: Sequence[str]) -> list[str]:
    chosen = list(dict.fromkeys(_check_name(name.strip(), names) for name in value.split(",")))
    if "none" in chosen and len(chosen) > 1:
        msg = f"got {value!r}, expected names, or none"
        raise argparse.ArgumentTypeError(msg)
    return [name for name in chosen if name != "none"]


def _sets(value: str) -> str:
    try:
        check_names(value)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from error
    return value


def _kappa(value: str) -> str:
    with suppress(ValueError):
        if value == "auto" or 0 <= float(value) <= 1:
            return value
    msg = f"got {value!r}, expected auto, or numbers from 0 to 1"
    raise argparse.ArgumentTypeError(msg)
