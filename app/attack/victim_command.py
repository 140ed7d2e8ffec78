"""`python -m app attack --victim ...`: attacks a model from elsewhere on a data set."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from jsonargparse import ArgumentParser

from app.attack.attack_evaluator import CHOICE
from app.attack.attack_files import AttackFiles
from app.attack.attack_html import write_page
from app.attack.attack_report import class_name, report
from app.attack.attack_settings import AttackSettings, Planned, applied, plan
from app.attack.named_victims import NamedVictim
from app.attack.table_samples import LabelledTable, as_classes, read_table
from app.attack.validity_command import filed, usual_checks
from app.attack.victim_options import OneLineParser, add_victim, folder_of, listed, victim_of
from app.cli.arguments import with_recipe
from app.cli.terminal import harmless
from app.processes.devices import torch_device
from app.runs import atomic
from app.runs.run_directory import RunDirectory
from attacks.interface import Outcome, attack, changed
from attacks.outcome import Sample
from attacks.validity.checks import ValidityLimits
from attacks.victims.labels_only import check_search
from datamodules.batching.sampler import permutation

_REFUSED = {
    "split": "the data set names it: --dataset hf:ID:SPLIT",
    "shard": "leave it out",
    "threat": "certificates in words are about a run on its corpus",
}


def main(argv: Sequence[str]) -> int:
    """Runs `attack`; see `Command.place`.

    Raises:
        ValueError: settings that make no sense, or labels that are no classes of the victim.
        VictimError: the victim failed; all records so far are kept, and the same command goes on.
        OSError: a victim or file that is not there, or cannot be written.
    """
    _check_words(argv)
    args = parser().parse_args(with_recipe(["attack", *argv])[1:])
    settings = AttackSettings(**args.attack.as_dict())
    table = read_table(args.dataset, columns=listed(args.columns), label=args.label)
    out = folder_of(args)
    named = victim_of(args, out, settings.batch_size)
    samples = chosen(as_classes(table, named.classes, listed(args.label_names)), settings)
    device = torch_device(args.device)
    checks = usual_checks(settings, device) if settings.validity else None
    planned = plan(settings, device=device)
    for one in planned:
        check_search(one.attack, named.victim)
    outcomes: dict[str, Outcome] = {}
    spent = []
    for one in planned:
        outcomes[one.name], seconds = _attack(
            one, named=named, table=table, samples=samples, settings=settings, out=out
        )
        spent.append(f"{one.name} {seconds:.1f} s")
    title = f"{args.victim} on {table.name} ({', '.join(spent)})"
    notes = applied(settings, planned)
    for name in outcomes:
        if checks is None:
            break
        files = AttackFiles(RunDirectory(out), name)
        notes += filed(files.outcome, checks, ValidityLimits())
    print(report(outcomes, named.classes, show=settings.show, title=title, notes=notes))
    print(harmless(f"\n{out}"))
    return 0


def parser() -> ArgumentParser:
    """Returns the parser of the command."""
    made = OneLineParser(
        prog="steadfast attack",
        description="Attacks a model from elsewhere: a checkpoint of transformers, a service "
        "behind HTTP, a function, or a run of ours, on any labelled texts. Without --victim it "
        "attacks the corpus of a run: `attack --help` shows those settings.",
        allow_abbrev=False,
    )
    add = made.add_argument
    add(
        "--dataset",
        required=True,
        help="hf:ID:SPLIT, hf:ID:CONFIG:SPLIT, or a file (.tsv, .csv, .jsonl, .parquet)",
    )
    add("--columns", type=str, default=None, help="TEXT or TEXT,TEXT (default: usual names)")
    add("--label", type=str, default=None, help="column of the label (default: usual names)")
    add_victim(made)
    made.add_class_arguments(AttackSettings, "attack", skip={*_REFUSED})
    return made


def _check_words(argv: Sequence[str]) -> None:
    """Refuses settings that only corpora of ours have."""
    for word in argv:
        key = word.partition("=")[0].removeprefix("--attack.")
        key = key.split(".")[0]
        if word.startswith("--attack.") and key in _REFUSED:
            msg = f"got --attack.{key} beside --victim, expected none: {_REFUSED[key]}"
            raise ValueError(msg)


def chosen(samples: Sequence[Sample], settings: AttackSettings) -> list[Sample]:
    """Returns the samples that are attacked; see `AttackSettings.choice`."""
    count = min(settings.num_samples or len(samples), len(samples))
    drawn = settings.choice == "drawn"
    order = permutation(len(samples), CHOICE).tolist() if drawn else range(len(samples))
    return [samples[i] for i in order[:count]]


def _attack(
    planned: Planned,
    *,
    named: NamedVictim,
    table: LabelledTable,
    samples: Sequence[Sample],
    settings: AttackSettings,
    out: Path,
) -> tuple[Outcome, float]:
    """Attacks all samples by one attack, and files the outcome."""
    files = AttackFiles(RunDirectory(out), planned.name)
    target = None if planned.goal_given else settings.target(named.classes)
    composed = changed(planned.attack, target=target)
    about = {
        **settings.about(),
        **planned.about,
        "victim": named.facts["victim"],
        "classes": named.classes,
        "dataset": table.name,
        "columns": list(table.columns),
    }
    about.pop("split")
    if (problem := files.problem(about)) is not None:
        raise ValueError(problem.replace("--attack.tag NAME", "--attack.tag NAME or --out FOLDER"))
    files.begin(about)
    before, started = files.seconds(), time.monotonic()
    try:
        outcome = attack(
            named.victim,
            samples,
            recipe=composed,
            query_budget=settings.query_budget,
            budget_per_word=settings.budget_per_word,
            in_flight=settings.in_flight,
            seed=settings.seed,
            columns=table.columns,
            path=files.side.with_suffix(".journal.jsonl"),
            score=composed.goal.score,
            compat=composed.compat,
        )
    except BaseException:
        files.pause(about, before + time.monotonic() - started)
        raise
    outcome = replace(outcome, name=planned.name)
    seconds = before + time.monotonic() - started
    _file(
        files,
        outcome,
        about=about,
        seconds=seconds,
        named=named,
        settings=settings,
        target=target,
    )
    return outcome, seconds


def _file(
    files: AttackFiles,
    outcome: Outcome,
    *,
    about: Mapping[str, Any],
    seconds: float,
    named: NamedVictim,
    settings: AttackSettings,
    target: int | None,
) -> None:
    atomic.write_lines(files.outcome, [one.line() for one in outcome.records])
    files.finish(about, seconds, outcome.summary)
    if settings.html:
        facts = {
            **named.facts,
            "data set": str(about["dataset"]),
            "samples": f"{len(outcome.records)}, {settings.choice}",
            "goal": "untargeted" if target is None else class_name(target, named.classes),
            "seed of the attack": str(settings.seed),
        }
        write_page(files.html, outcome, named.classes, facts)
