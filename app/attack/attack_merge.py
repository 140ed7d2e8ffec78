"""`python -m app attack merge`: makes one attack of its shards, without the model."""

import argparse
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from app.attack import validity_files
from app.attack.attack_evaluator import figures, tell
from app.attack.attack_files import AttackFiles
from app.attack.attack_html import write_page
from app.attack.attack_mean import Mean, former, mean_accuracy
from app.attack.attack_report import report
from app.attack.attack_settings import file_names
from app.attack.attack_shard import ShardFiles
from app.attack.victim_files import file_whole
from app.cli.run_options import run_parser
from app.cli.terminal import harmless
from app.runs import atomic, results, run_directory
from app.runs.recorder import RunLogger
from app.runs.resume import evaluated
from app.runs.run_directory import RunDirectory
from app.runs.sample_records import Record
from app.runs.shard import Shard
from app.runs.weights import shelf, weights_of
from attacks.interface import Outcome
from attacks.journal import abridge, differences
from attacks.outcome import from_line
from attacks.summary import summarise

_FILE = re.compile(r"(?P<name>.+)\.shard-(?P<index>\d+)-of-(?P<count>\d+)\.jsonl?")
_SAME = ("chosen", "score", "target", "classes", "identity")
"""Facts that shards must share beside the settings of the attack."""


class Whole(NamedTuple):
    """All shards of one attack.

    Attributes:
        files: of the attack.
        about: its settings.
        found: what the first shard says; see `ShardEvaluator`.
        records: of all samples, by their ids.
        seconds: of all shards.
        parts: records of each shard.
    """

    files: AttackFiles
    about: dict[str, Any]
    found: dict[str, Any]
    records: list[Record]
    seconds: float
    parts: list[Path]

    def outcome(self) -> Outcome:
        """Returns records and figures."""
        records = [from_line(record) for record in self.records]
        summary = summarise(records, score=self.found["score"])
        return Outcome(name=self.files.name, records=records, summary=summary)

    def validity(self, outcome: Outcome) -> list[str]:
        """Files what the shards know of valid texts, if they do; returns lines to print."""
        return validity_files.merge(self.files.outcome, outcome.records, self.parts)


def main(argv: Sequence[str]) -> int:
    """Runs `attack merge`; see `Command.place`.

    Raises:
        ValueError: shards are missing or differ; nothing is written then.
        OSError: no such run, or a file that cannot be written.
    """
    args = _parser().parse_args(argv)
    if args.out is not None:
        return _of_victim(args)
    name = args.run
    if args.ckpt_path is None:
        name = run_directory.named("attack merge", name)
    run, checkpoint = evaluated("attack merge", Path(args.runs_dir), name, args.ckpt_path)
    if run is None:
        msg = f"got --ckpt_path {checkpoint}, which lies in no run, expected --run NAME beside it"
        raise ValueError(msg)
    weights = weights_of(checkpoint) if checkpoint.is_file() else None
    files = run if weights is None else shelf(run, weights)
    wholes = _wholes(files, args)
    digest = run.source() if weights is None else weights.checkpoint
    for whole in wholes:
        _check_place(files, whole, digest)
    logger = RunLogger(run)
    outcomes: dict[str, Outcome] = {}
    mean, valid = Mean(names=()), list[str]()
    for whole in wholes:
        outcome, mean = _file(
            files,
            whole,
            weights={} if weights is None else weights.about(),
            checkpoint=checkpoint,
            html=args.html == "true",
            logger=logger,
        )
        outcomes[outcome.name] = outcome
        valid += whole.validity(outcome)
    logger.finalize("success")
    first = wholes[0].found
    title = f"{run.name}: {first['identity']['method']} on {first['facts']['corpus']}"
    print(
        report(
            outcomes,
            first["classes"],
            show=args.show,
            title=f"{title} ({_spent(wholes)})",
            notes=[*filter(None, [mean.line()]), *valid],
        )
    )
    print(harmless(f"\n{files.path}"))
    return 0


def _of_victim(args: argparse.Namespace) -> int:
    """Unites the shards of an attack on a victim from elsewhere.

    Raises:
        ValueError: a run is named, too, or shards are missing or differ; nothing is written then.
    """
    if args.run is not None or args.ckpt_path is not None:
        msg = f"got --out {args.out} and a run, expected one of the two: --out is of `--victim`"
        raise ValueError(msg)
    folder = RunDirectory(Path(args.out))
    wholes = _wholes(folder, args)
    outcomes, valid = dict[str, Outcome](), list[str]()
    for whole in wholes:
        outcome = outcomes[whole.files.name] = whole.outcome()
        file_whole(
            folder,
            outcome,
            whole.found,
            about=whole.about,
            seconds=whole.seconds,
            html=args.html == "true",
        )
        valid += whole.validity(outcome)
    first = wholes[0].found
    title = f"{first['identity']['method']} on {first['identity']['corpus']} ({_spent(wholes)})"
    print(report(outcomes, first["classes"], show=args.show, title=title, notes=valid))
    print(harmless(f"\n{folder.path}"))
    return 0


def _wholes(folder: RunDirectory, args: argparse.Namespace) -> list[Whole]:
    """Reads all attacks to merge, in the order of their command."""
    wanted = file_names(",".join(args.recipe), args.tag) if args.recipe else None
    wholes = [_whole(folder, one) for one in _names(folder, wanted)]
    return sorted(wholes, key=lambda one: (one.found["place"], one.files.name))


def _spent(wholes: Sequence[Whole]) -> str:
    return ", ".join(f"{one.files.name} {one.seconds:.1f} s" for one in wholes)


def _parser() -> argparse.ArgumentParser:
    parser = run_parser(
        "attack merge",
        "Make one attack of its shards (--attack.shard I/N of `attack`), as if it had never been "
        "divided. It needs RUN/attacks/*.shard-* of all shards, and no model: what other machines "
        "have made is copied there first.",
        device=False,
    )
    add = parser.add_argument
    add(
        "--out",
        metavar="FOLDER",
        help="folder of an attack with --victim, in place of a run (attacked/VICTIM)",
    )
    add(
        *("--attack.recipe", "--attack"),
        nargs="+",
        default=[],
        metavar="NAME",
        dest="recipe",
        help="only these, as for `attack` (default: all attacks that have shards)",
    )
    add("--attack.tag", metavar="TAG", dest="tag", help="of these attacks")
    add("--attack.show", type=int, default=0, metavar="N", dest="show", help="pairs to print")
    add(
        "--attack.html",
        choices=("true", "false"),
        default="true",
        dest="html",
        help="write all pairs to RUN/attacks/RECIPE.html (default: true)",
    )
    return parser


def _names(run: RunDirectory, wanted: Sequence[str] | None) -> list[str]:
    """Returns the names of the attacks to merge.

    Raises:
        ValueError: one has no shards.
    """
    folder = run.path / "attacks"
    found = sorted({match["name"] for match in _matches(folder)})
    missing = [name for name in wanted or () if name not in found]
    if missing or not found:
        there = f"there are those of {', '.join(found)}" if found else "there are none"
        msg = (
            f"got no shards of {', '.join(missing) or 'any attack'} in {folder} ({there}), "
            "expected NAME.shard-I-of-N.jsonl and .json: attack with --attack.shard I/N, or copy "
            "the shards of other machines there"
        )
        raise ValueError(msg)
    return found if wanted is None else list(dict.fromkeys(wanted))


def _matches(folder: Path) -> list[re.Match[str]]:
    every = sorted(folder.iterdir()) if folder.is_dir() else []
    return [match for path in every if (match := _FILE.fullmatch(path.name))]


def _whole(run: RunDirectory, name: str) -> Whole:
    """Reads and compares all shards of an attack.

    Raises:
        ValueError: some are missing, have not ended, or are not of one attack.
    """
    files = AttackFiles(run, name)
    matches = [match for match in _matches(files.outcome.parent) if match["name"] == name]
    counts = sorted({int(match["count"]) for match in matches})
    if len(counts) > 1:
        msg = (
            f"got shards of {name} in {' and in '.join(map(str, counts))} parts, expected one "
            f"division: delete {files.side.with_suffix('')}.shard-*-of-N.* of the others"
        )
        raise ValueError(msg)
    shards = [ShardFiles(run, name, Shard(index, counts[0])) for index in range(1, counts[0] + 1)]
    _check_there(name, shards)
    ends = {one.shard: _end(one) for one in shards}
    about, first = shards[0].about(), ends[shards[0].shard]
    by_sample: dict[int, Record] = {}
    for one in shards:
        found = ends[one.shard]
        other = differences(about, one.about()) + differences(
            {**_comparable(first)}, _comparable(found)
        )
        if other:
            msg = (
                f"got other settings in shard {one.shard} of {name} than in {shards[0].shard}: "
                f"{abridge(other)}; expected the same: give the shard the settings of the others, "
                f"after deleting {one.side.with_suffix('')}.*"
            )
            raise ValueError(msg)
        records = one.records()
        ids = [int(record["sample_id"]) for record in records]
        twice = len(ids) - len(set(ids).difference(by_sample))
        if twice or len(ids) < one.shard.size(found["chosen"]):
            msg = (
                f"got {len(ids)} records in {one.outcome} ({twice} of samples that other records "
                f"are about), expected the {one.shard.size(found['chosen'])} of its own: copy the "
                "file again, or delete it and give the command of the shard again"
            )
            raise ValueError(msg)
        by_sample.update(zip(ids, records, strict=True))
    if (problem := files.problem(about)) is not None:
        raise ValueError(problem)
    for record in files.records():
        by_sample.setdefault(int(record["sample_id"]), record)
    seconds = sum(one.seconds() for one in shards)
    records = [by_sample[one] for one in sorted(by_sample)]
    return Whole(files, about, first, records, seconds, [one.outcome for one in shards])


def _check_there(name: str, shards: Sequence[ShardFiles]) -> None:
    count = len(shards)
    parts = {
        "missing": [one for one in shards if not (one.side.is_file() or one.outcome.is_file())],
        "without .json": [one for one in shards if one.outcome.is_file() > one.side.is_file()],
        "not ended": [
            one
            for one in shards
            if one.side.is_file() and not (one.outcome.is_file() and one.found() is not None)
        ],
    }
    bad = [
        f"{what}: {', '.join(str(one.shard.index) for one in which)}"
        for what, which in parts.items()
        if which
    ]
    if bad:
        msg = (
            f"got {name} in {count} shards, of which not all are in {shards[0].side.parent} "
            f"({'; '.join(bad)}), expected all {count}: give `attack --attack.shard I/{count}` "
            "for these (again), or copy their .jsonl and .json there"
        )
        raise ValueError(msg)


_KEYS = {"place": int, "chosen": int, "score": str, "classes": list, "facts": dict}
_KEYS |= {"identity": dict, "evaluation": dict}


def _end(shard: ShardFiles) -> dict[str, Any]:
    """Returns the end of a shard.

    Raises:
        ValueError: it is not what `attack` writes.
    """
    found = shard.found() or {}
    if found.get("shard") != str(shard.shard) or not all(
        isinstance(found.get(key), kind) for key, kind in _KEYS.items()
    ):
        msg = (
            f"got {shard.side} with unreadable content, expected the end of shard {shard.shard}: "
            "copy it again, or delete it and give the command of the shard again"
        )
        raise ValueError(msg)
    return found


def _comparable(found: Mapping[str, Any]) -> dict[str, Any]:
    identity = {key: value for key, value in found["identity"].items() if key != "run"}
    same = {key: found.get(key) for key in _SAME} | {"identity": identity}
    return {**same, "rows": found["evaluation"].get("rows")}


def _check_place(run: RunDirectory, whole: Whole, digest: str | None) -> None:
    """Checks that figures of these weights and rows may be filed in the run.

    Raises:
        ValueError: the checkpoint of the run is another, or its figures are about other rows.
    """
    attacked = whole.about.get("checkpoint")
    if digest is not None and attacked != digest:
        msg = (
            f"got shards of {whole.files.name} of the checkpoint {str(attacked)[:12]}, and a run "
            f"whose checkpoint is {digest[:12]}, expected the same: give --ckpt_path FILE, or "
            "attack this one"
        )
        raise ValueError(msg)
    rows = whole.found["evaluation"].get("rows", {})
    for about in results.about_stages(run.results()):
        theirs = about.get("rows", {})
        of_others = about.get("checkpoint") not in (None, "none", attacked)
        if of_others or any(theirs.get(split, digest) != digest for split, digest in rows.items()):
            msg = (
                f"got {run.results_path} with figures about other weights or rows than the shards "
                f"of {whole.files.name}, expected the same: attack the rows that are there now, or "
                "move the file away"
            )
            raise ValueError(msg)


def _file(
    run: RunDirectory,
    whole: Whole,
    *,
    weights: Mapping[str, Any],
    checkpoint: Path,
    html: bool,
    logger: RunLogger,
) -> tuple[Outcome, Mean]:
    """Files a whole attack as `attack` does."""
    files, found = whole.files, whole.found
    outcome = whole.outcome()
    records, summary = outcome.records, outcome.summary
    stage, metrics = f"attack/{files.name}", figures(files.name, summary, found["target"])
    logger.measure(run, stage, weights.get("step", 0))
    atomic.write_lines(files.outcome, whole.records)
    files.finish(whole.about, whole.seconds, summary)
    tell(outcome, found["classes"], [logger])
    if html:
        facts = {**found["facts"], "run": run.name}
        facts["samples"] = f"{len(records)}, {whole.about.get('choice')}"
        if weights:
            facts["checkpoint"] = f"{checkpoint}, SHA-256 {weights['checkpoint']}"
        write_page(files.html, outcome, found["classes"], facts)
    mean = mean_accuracy(former(run, stage, metrics))
    logger.log_metrics(metrics, 0)
    results.merge(
        run.results_path,
        stage,
        identity={**found["identity"], "run": run.name},
        metrics=metrics | mean.metrics(),
        seconds=whole.seconds,
        about={**found["evaluation"], **weights},
    )
    return outcome, mean
