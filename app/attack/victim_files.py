"""The files of an attack on a victim from elsewhere: records, figures, page and `results.json`."""

from collections.abc import Mapping, Sequence
from typing import Any

from app.attack.attack_evaluator import figures
from app.attack.attack_files import AttackFiles
from app.attack.attack_html import write_page
from app.attack.attack_report import class_name
from app.attack.attack_settings import AttackSettings
from app.attack.named_victims import NamedVictim
from app.runs import atomic, results
from app.runs.run_directory import RunDirectory
from attacks.interface import Outcome


def ending(
    named: NamedVictim,
    settings: AttackSettings,
    about: Mapping[str, Any],
    *,
    folder: RunDirectory,
    target: int | None,
    score: str,
) -> dict[str, Any]:
    """Returns what has to be known to file an attack; shards keep it for `attack merge`.

    Args:
        named: the victim.
        settings: of the command.
        about: all that the records depend on.
        folder: of all files of the victim.
        target: class to reach, if there is one.
        score: kind of scores of the goal.
    """
    facts = {
        **named.facts,
        "data set": str(about["dataset"]),
        "goal": "untargeted" if target is None else class_name(target, named.classes),
        "seed of the attack": str(settings.seed),
    }
    identity = {
        "run": folder.name,
        "method": named.facts["victim"],
        "corpus": str(about["dataset"]),
        "seed": settings.seed,
    }
    return {
        "score": score,
        "target": target,
        "classes": named.classes,
        "facts": facts,
        "identity": identity,
        "evaluation": {"victim": named.facts["victim"], "dataset": str(about["dataset"])},
    }


def file_whole(
    folder: RunDirectory,
    outcome: Outcome,
    end: Mapping[str, Any],
    *,
    about: Mapping[str, Any],
    seconds: float,
    html: bool,
) -> AttackFiles:
    """Writes records, figures, page and the stage of `results.json` of an attack on all samples.

    Args:
        folder: of all files of the victim.
        outcome: of the attack.
        end: see `ending`.
        about: all that the records depend on.
        seconds: of all starts.
        html: True to write the page.
    """
    files = AttackFiles(folder, outcome.name)
    atomic.write_lines(files.outcome, [one.line() for one in outcome.records])
    files.finish(about, seconds, outcome.summary)
    classes: Sequence[str] = end["classes"]
    if html:
        samples = f"{len(outcome.records)}, {about['choice']}"
        write_page(files.html, outcome, classes, {**end["facts"], "samples": samples})
    results.merge(
        folder.results_path,
        f"attack/{outcome.name}",
        identity={**end["identity"], "run": folder.name},
        metrics=figures(outcome.name, outcome.summary, end["target"]),
        seconds=seconds,
        about=end["evaluation"],
    )
    return files
