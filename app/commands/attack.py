"""Attack an external model on any labelled texts (--victim).

The model: a checkpoint of transformers, a service over HTTP, a function, or one of our runs.
A checkpoint may also predict numbers, several classes, tags of words, or one of several choices.
"""

from pathlib import Path
from typing import Any

from jsonargparse import ArgumentParser

from app.cli.victim_options import (
    OneLineParser,
    add_columns,
    add_victim,
    folder_of,
    split_names,
    victim_of,
)
from attacks.task_goals import task_of
from attacks.victims.front_end_victim import FrontEndVictim
from attacks.victims.labels_only import check_search
from measure.archive import FolderArchive
from measure.attack_series import run_series
from measure.attack_settings import AttackSettings, plan
from measure.named_victims import NamedVictim, detector_of
from measure.surrogates import Surrogates
from measure.table_samples import LabelledTable
from measure.task_samples import read_task_table, task_samples
from measure.text_attack import AttackedModel, choose_samples
from measure.validity_files import usual_checks
from run_files.devices import torch_device
from run_files.run_directory import RunDirectory
from run_files.shard import Shard
from run_files.terminal import harmless


def run(args: Any) -> int:
    """Run the command."""
    settings = AttackSettings(**args.attack.as_dict())
    out = RunDirectory(folder_of(args))
    # Two shards may run at the same time: each has its own cache of responses.
    shard = settings.shard
    answers = "answers" if shard is None else f"answers.{Shard.of(shard).suffix()}"
    named = victim_of(args, out.path, settings.batch_size, answers=answers, any_task=True)
    table = read_task_table(
        args.dataset, task_of(named.victim), columns=split_names(args.columns), label=args.label
    )
    model = _attacked_model(named, table, settings, args, out)
    device = torch_device(args.device)
    checks = usual_checks(settings, device) if settings.validity else None
    planned = plan(settings, device=device)
    for attack in [attack for attack_plan in planned for attack in attack_plan.attacks]:
        # Some searches need probabilities, and a victim may return labels only.
        check_search(attack, named.victim)
    archive = FolderArchive(out, model.identity)
    series = run_series(planned, settings, model, archive, asks_again=True)
    valid = [] if checks is None else series.validity(out.path, checks)
    if shard is not None:
        print(series.shard_report(out.path, f"--output {out.path}"))
        return 0
    title = f"{named.facts['victim']} on {table.name}"
    print(series.report(title, model.class_names, valid))
    print(harmless(f"\n{out.path}"))
    return 0


def _attacked_model(
    named: NamedVictim, table: LabelledTable, settings: AttackSettings, args: Any, out: RunDirectory
) -> AttackedModel:
    task = task_of(named.victim)
    names = split_names(args.label_names)
    labelled, classes = task_samples(table, task, named.classes, names)
    victim = named.facts["victim"]
    detector, positive = detector_of(named.victim, classes, settings)
    # Always there: a stored name that a subject lacks is not compared.
    front_end = named.victim.digest if isinstance(named.victim, FrontEndVictim) else None
    subject = {"victim": victim, "dataset": table.name, "front_end": front_end}
    return AttackedModel(
        victim=detector,
        class_names=classes,
        samples=choose_samples(labelled, settings, positive=positive),
        columns=table.columns,
        subject=subject | {"dtype": named.facts.get("dtype")},
        scope={"classes": classes, "columns": list(table.columns)},
        facts={**named.facts, "data set": table.name},
        identity={"run": out.name, "method": victim, "corpus": table.name, "seed": settings.seed},
        positive=positive,
        texts=lambda: [(sample.text, sample.label) for sample in labelled],
        surrogates=Surrogates(
            named.classes, Path(args.runs_dir), torch_device(args.device), settings.batch_size
        ),
    )


def parser() -> ArgumentParser:
    """Return the parser of the command."""
    parser = OneLineParser(prog="steadfast attack", description=__doc__)
    add = parser.add_argument
    formats = ".tsv, .csv, .json, .jsonl, .parquet"
    text = f"texts with labels: hf:ID:SPLIT, hf:ID:CONFIG:SPLIT, or a file ({formats})"
    add("--dataset", required=True, help=text)
    add_columns(parser)
    add_victim(parser)
    parser.add_class_arguments(AttackSettings, "attack", skip={"split", "threat"})
    return parser
