"""`python -m app attack --victim ...`: attacks a model from elsewhere on a data set."""

import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from jsonargparse import ArgumentParser

from app.attack.attack_evaluator import CHOICE
from app.attack.attack_files import AttackFiles
from app.attack.attack_report import report
from app.attack.attack_settings import AttackSettings, Planned, applied, plan
from app.attack.attack_shard import ShardFiles
from app.attack.named_victims import NamedVictim
from app.attack.table_samples import LabelledTable, as_classes, read_table
from app.attack.validity_command import filed, usual_checks
from app.attack.victim_files import ending, file_whole
from app.attack.victim_options import OneLineParser, add_victim, folder_of, listed, victim_of
from app.cli.arguments import with_recipe
from app.cli.terminal import harmless
from app.processes.devices import torch_device
from app.runs import atomic
from app.runs.run_directory import RunDirectory
from app.runs.shard import Shard
from attacks.interface import Outcome, attack, retarget
from attacks.outcome import Sample
from attacks.validity.checks import ValidityLimits
from attacks.victims.labels_only import check_search
from datamodules.batching.sampler import permutation

_REFUSED = {
    "split": "the data set names it: --dataset hf:ID:SPLIT",
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
    out = RunDirectory(folder_of(args))
    shard = None if settings.shard is None else Shard.of(settings.shard)
    answers = "answers" if shard is None else f"answers.{shard.suffix()}"
    named = victim_of(args, out.path, settings.batch_size, answers=answers)
    samples = chosen(as_classes(table, named.classes, listed(args.label_names)), settings)
    device = torch_device(args.device)
    checks = usual_checks(settings, device) if settings.validity else None
    planned = plan(settings, device=device)
    for one in planned:
        check_search(one.attack, named.victim)
    work = VictimAttack(named, table, samples, settings, out, shard)
    done = [work.run(one, place) for place, one in enumerate(planned)]
    valid: list[str] = []
    if checks is not None:
        for each in done:
            valid += filed(each.files.outcome, checks, ValidityLimits())
    if shard is not None:
        lines = [
            f"{one.name}: shard {shard}, {each}" for one, each in zip(planned, done, strict=True)
        ]
        merge = f"with all shards in one folder: python -m steadfast attack merge --out {out.path}"
        print(harmless("\n".join(["", *lines, merge])))
        return 0
    spent = ", ".join(
        f"{one.name} {each.seconds:.1f} s" for one, each in zip(planned, done, strict=True)
    )
    print(
        report(
            {each.outcome.name: each.outcome for each in done},
            named.classes,
            show=settings.show,
            title=f"{named.facts['victim']} on {table.name} ({spent})",
            notes=applied(settings, planned) + valid,
        )
    )
    print(harmless(f"\n{out.path}"))
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


class Done(NamedTuple):
    """An attack that has ended.

    Attributes:
        outcome: of the samples of this command.
        files: of the attack.
        seconds: of all starts.
        chosen: samples of all shards.
    """

    outcome: Outcome
    files: AttackFiles
    seconds: float
    chosen: int

    def __str__(self) -> str:
        records = len(self.outcome.records)
        return f"{records} of {self.chosen} samples in {self.files.outcome} ({self.seconds:.1f} s)"


class VictimAttack(NamedTuple):
    """An attack on a victim from elsewhere, or one part of it.

    Attributes:
        named: the victim.
        table: the data set.
        samples: of all shards.
        settings: of the command.
        folder: of all files.
        shard: the part; None for the whole.
    """

    named: NamedVictim
    table: LabelledTable
    samples: Sequence[Sample]
    settings: AttackSettings
    folder: RunDirectory
    shard: Shard | None

    def run(self, planned: Planned, place: int) -> Done:
        """Attacks the samples, and files the outcome.

        Args:
            planned: the attack.
            place: of the attack in its command.

        Raises:
            ValueError: there are files of other settings.
        """
        settings, shard = self.settings, self.shard
        target = None if planned.goal_given else settings.target(self.named.classes)
        composed = retarget(planned.attack, target=target)
        about = self._about(planned)
        whole = AttackFiles(self.folder, planned.name)
        files = whole if shard is None else ShardFiles(self.folder, planned.name, shard)
        if (problem := files.problem(about) or whole.problem(about)) is not None:
            instead = "--attack.tag NAME or --out FOLDER"
            raise ValueError(problem.replace("--attack.tag NAME", instead))
        files.begin(about)
        before, started = files.seconds(), time.monotonic()
        try:
            outcome = attack(
                self.named.victim,
                self.samples if shard is None else shard.take(self.samples),
                recipe=composed,
                query_budget=settings.query_budget,
                budget_per_word=settings.budget_per_word,
                in_flight=settings.in_flight,
                seed=settings.seed,
                columns=self.table.columns,
                class_names=self.named.classes,
                path=files.side.with_suffix(".journal.jsonl"),
                score=composed.goal.score,
                compat=composed.compat,
            )
        except BaseException:
            files.pause(about, before + time.monotonic() - started)
            raise
        outcome = replace(outcome, name=planned.name)
        seconds = before + time.monotonic() - started
        end = ending(
            self.named,
            settings,
            about,
            folder=self.folder,
            target=target,
            score=composed.goal.score,
        )
        if isinstance(files, ShardFiles):
            atomic.write_lines(files.outcome, [one.line() for one in outcome.records])
            part = {"shard": str(shard), "place": place, "chosen": len(self.samples)}
            files.end(about, seconds, {**part, **end})
        else:
            file_whole(self.folder, outcome, end, about=about, seconds=seconds, html=settings.html)
        return Done(outcome, files, seconds, len(self.samples))

    def _about(self, planned: Planned) -> dict[str, Any]:
        """Returns all settings that the records depend on."""
        about = {
            **self.settings.about(),
            **planned.about,
            "victim": self.named.facts["victim"],
            "classes": self.named.classes,
            "dataset": self.table.name,
            "columns": list(self.table.columns),
        }
        about.pop("split")
        return about
