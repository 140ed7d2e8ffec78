"""Attack texts of the command line, or texts that are typed, and show what changes.

The class of a text is the one that the model predicts, or --label. Without --text, each line of
standard input is a text; a tab separates the two of a pair. Nothing is filed.
"""

import argparse
import json
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from jsonargparse import ArgumentParser

from app.cli.asked_texts import NumberedText, check_texts, read_stream, typed
from app.cli.run_options import add_option
from app.cli.victim_options import RunOrVictimParser, add_victim, victim_of
from attacks.composition import Attack
from attacks.engine import Limits
from attacks.ensemble import engine_of
from attacks.goals import Goal
from attacks.interface import Outcome
from attacks.outcome import AttackRecord, Sample
from attacks.summary import summarise
from attacks.victims.labels_only import check_search
from measure.attack_report import class_name, colours, example_lines, headline
from measure.attack_settings import AttackPlan, AttackSettings, plan
from measure.named_victims import NamedVictim, detector_of
from measure.surrogates import Surrogates
from run_files.devices import torch_device
from run_files.terminal import harmless

_OF_SPLITS = {"split", "threat", "num_samples", "choice", "show", "html", "csv", "tag", "shard"}
"""Settings about samples, their certificates and their files."""


def run(args: argparse.Namespace) -> int:
    """Run the command."""
    for name, value in (("output", args.output), ("label_names", args.label_names)):
        if value is not None:
            msg = f"got --{name} {value}, expected it to be left out: nothing is read or filed"
            raise ValueError(msg)
    settings = AttackSettings(**args.attack.as_dict())
    named = victim_of(args, None, settings.batch_size)
    if args.label is not None and args.label not in named.classes:
        msg = f"got --label {args.label}, expected one of {', '.join(named.classes)}"
        raise ValueError(msg)
    label = None if args.label is None else named.classes.index(args.label)
    device = torch_device(args.device)
    detector, positive = detector_of(named.victim, named.classes, settings)
    named = named._replace(victim=detector)
    goal = settings.aim(named.classes, positive)
    surrogates = Surrogates(named.classes, Path(args.runs_dir), device, settings.batch_size)
    planned = [
        _complete(attack_plan, goal, surrogates) for attack_plan in plan(settings, device=device)
    ]
    for attack in [attack for attack_plan in planned for attack in attack_plan.attacks]:
        check_search(attack, named.victim)
    pairs = bool(args.text_pair) or bool(getattr(getattr(named.victim, "module", 0), "pairs", 0))
    texts: Iterable[NumberedText]
    if args.text:
        texts = map(NumberedText, check_texts(args.text, args.text_pair, pairs=pairs))
    else:
        if typed():
            print("a text on each line; Ctrl-D ends", file=sys.stderr)
        texts = read_stream(sys.stdin.buffer, pairs=pairs)
    # One by one: a terminal gets each answer before the next text is typed.
    for number, item in enumerate(texts):
        gold = label
        if gold is None:
            gold = int(named.victim.logits([item.text]).argmax(axis=1)[0])
        sample = Sample(sample_id=number, text=item.text, label=gold)
        for attack_plan in planned:
            for record in _attack(attack_plan, settings, named, sample):
                line = json.dumps({"attack": attack_plan.name, **record.line()})
                text = line if args.json else "\n".join(_lines(attack_plan.name, record, named))
                print(text, flush=True)
    return 0


def _complete(attack_plan: AttackPlan, goal: Goal, surrogates: Surrogates) -> AttackPlan:
    """Return a plan with a goal, if it has none; there are no texts to learn from."""

    def complete(attack: Attack) -> Attack:
        aimed = attack if attack_plan.has_goal else attack.aiming(goal)
        return aimed.assisted(surrogates.load).certified(None, None).learn(tuple)

    return attack_plan.change(complete)


def _attack(
    attack_plan: AttackPlan, settings: AttackSettings, named: NamedVictim, sample: Sample
) -> Iterator[AttackRecord]:
    budget, per_word = settings.query_budget, settings.budget_per_word
    yield from engine_of(
        attack_plan.attacks,
        named.victim,
        limits=Limits(query_budget=budget, budget_per_word=per_word, in_flight=1),
        seed=settings.seed,
        columns=("text",) if isinstance(sample.text, str) else ("text", "text_pair"),
        class_names=named.classes,
    ).run([sample])


def _lines(name: str, record: AttackRecord, named: NamedVictim) -> Iterator[str]:
    """Yield the result for a person: a success with both texts, else a line."""
    if record.outcome == "succeeded":
        summary = summarise([record], score="margin")
        outcome = Outcome(name=name, records=[record], summary=summary)
        shown = example_lines(outcome, 1, named.classes, colour=colours(sys.stdout))
        yield harmless(name)
        yield from (line.lstrip("\n") for line in shown)
    elif record.outcome == "failed":
        yield harmless(f"{name} failed: {headline(record, named.classes)}")
    elif record.outcome == "skipped":
        gold = class_name(record.label, named.classes)
        predicted = class_name(record.prediction, named.classes)
        yield harmless(f"{name}: not attacked, the prediction is {predicted}, and not {gold}")
    else:
        yield harmless(f"{name}: {record.reason}")


def parser() -> ArgumentParser:
    """Return the parser of the command."""
    parser = RunOrVictimParser(prog="steadfast attack text", description=__doc__)
    add: Any = parser.add_argument
    add("--text", action="append", default=[], help="a text; may be given several times")
    add("--text_pair", action="append", default=[], help="the second text, where pairs are read")
    add("--label", type=str, help="class of all texts (default: the predicted one)")
    add_option(parser, "--json")
    add_victim(parser, or_run=True)
    parser.add_class_arguments(AttackSettings, "attack", skip=_OF_SPLITS | {"validity"})
    return parser
