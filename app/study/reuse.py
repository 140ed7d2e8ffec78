"""Decides which stages of a cell have ended, from the files of its run, and what it began with."""

import hashlib
import json
import threading
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from app.study.cells import TRAINING, StudyContext
from app.study.study import Cell, Settings, Stage
from app.study.study_file import attacks_of
from attacks.digests import file_digest
from run_files import atomic
from run_files.certified_bounds import STAGE_OF
from run_files.checkpoint_lookup import checkpoint_text
from run_files.harmless_settings import HARMLESS_IN_FIGURES
from run_files.ledger import attack_ledger
from run_files.run_directory import RunDirectory
from text.bounded_files import read_json
from text.module_names import find_class
from text.subjects import Subject, differences, flat, shortened
from training.resume import PARTS, changed_settings

if TYPE_CHECKING:
    from measure.attack_settings import AttackSettings

Parsed = Mapping[str, Any]

# If they are not set, the method decides about these.
_DECIDED_LATER = {"trainer.max_epochs", "early_stopping.patience"}
_UNKNOWN = object()
UNREAD = "corpora are not read"
"""Key of settings: only runs are read, without corpora and values of the command line."""


class OtherRunError(ValueError):
    """A run of that name has other settings."""


def check_run(
    run: RunDirectory,
    settings: Parsed,
    start: Mapping[str, str] = MappingProxyType({}),
    evaluation: Collection[str] = (),
) -> None:
    """Refuse a run, which may not exist yet, that has other settings than these of the fit.

    `start` is that of the cell; the ledger compares the settings of an `evaluation`.

    Raises:
        OtherRunError: the settings differ, or are lost; the message names the differences.
    """
    if not run.begun:
        if run.results_path.exists() or any(run.checkpoints.glob("*.ckpt")):
            msg = f"got run {run.name} without {run.config_path.name}, expected it; move it away"
            raise OtherRunError(msg)
        return
    stored = flat(run.config())
    different = [
        f"{name.replace('.init_args', '')} {shortened(before)} in the run, "
        f"{shortened(now)} in the study"
        for name, before, now in changed_settings(
            run, settings, PARTS, HARMLESS_IN_FIGURES.union(evaluation)
        )
        if not _is_start(before, start.get(name.replace(".init_args", "")))
        and not _is_unfilled(now)
        and not (name not in stored and _default(name, settings) == now)
        and not (name in _DECIDED_LATER and now is None)
    ]
    if different:
        msg = (
            f"run {run.name} was made with other settings ({'; '.join(different)}); move it away, "
            "or give the study's file another name"
        )
        raise OtherRunError(msg)


def _default(name: str, settings: Parsed) -> object:
    """Return the default of a setting of method, corpus or detector."""
    # A run of an older program lacks new settings: it used the present default.
    from lit_modules import Detection
    from lit_modules.shared.settings import parameters, plain

    if name.startswith("detect."):
        return getattr(Detection(), name.removeprefix("detect."), _UNKNOWN)
    part, _, path = name.partition(".init_args.")
    if part not in ("model", "data") or (cls := find_class(settings[part]["class_path"])) is None:
        return _UNKNOWN
    value: Any = {
        key: plain(parameter.default) for key, parameter in parameters(cast(type, cls)).items()
    }
    for key in path.split("."):
        value = value.get(key, _UNKNOWN) if isinstance(value, Mapping) else _UNKNOWN
    return value


def _is_unfilled(value: object) -> bool:
    """Return True for a value with a `${NAME}` that has no value."""
    return "${" in json.dumps(value, default=str)


def _is_start(path: object, end: str | None) -> bool:
    # The last parts of the path decide: the directory of runs may have another name.
    return end is not None and Path(str(path)).parts[-len(Path(end).parts) :] == Path(end).parts


def missing(run: RunDirectory, stage: Stage, settings: Parsed) -> str | None:
    """Return the reason that a stage has to run; None if it has ended with these settings.

    Raises:
        OtherRunError: the run was trained on other data.
    """
    if stage.command == "diagnose":
        from app.commands.diagnose import options
        from measure.diagnosis_report import present_subject, stored_subject

        recipe = settings["recipe"]
        asked = present_subject(run, recipe, options(settings))
        return _differs(stored_subject(run, recipe), asked)
    if stage.threat is not None:
        from app.commands.certify import subject

        asked = {**_weights(run), **subject(settings)}
        return _differs(_measured(run, f"certify_{stage.threat}"), asked)
    if stage.command == "attack":
        reasons = (_missing_attack(run, name, settings) for name in attacks_of([stage]))
        return next(filter(None, reasons), None)
    if stage.command == "transfer":
        # Settings are parsed once for all seeds: the last name is that of the run itself.
        sources = [*settings["run"][:-1], run.name]
        names = map(str.strip, str(settings["attack"]).split(","))
        return next(filter(None, (_missing_transfer(run, name, sources) for name in names)), None)
    if stage.command in TRAINING:
        reason = _missing_fit(run, settings)
        if stage.command == "train":
            reason = reason or _missing_evaluation(run, "test", settings, None)
            if _task(settings) == "classification":
                reason = reason or _missing_evaluation(run, "certify", settings, None)
        return reason
    name = STAGE_OF[settings["bound"]] if "bound" in settings else stage.command
    return _missing_evaluation(run, name, settings, stage.options)


def _weights(run: RunDirectory) -> Subject:
    return {"checkpoint": file_digest(run.chosen)}


def _measured(run: RunDirectory, stage: str) -> Subject | None:
    """Return the subject of the figures of a stage; None without figures."""
    results = run.results()
    if results is None or stage not in results["seconds"]:
        return None
    return results.get("about", {}).get(stage, {})


def _differs(
    stored: Subject | None, now: Subject, only: Collection[str] | None = None
) -> str | None:
    """Return the first difference, but for values with a `${NAME}`; None without any."""
    if stored is None:
        return "not measured"
    for name, before, value in differences(stored, now, only=now.keys() if only is None else only):
        # A setting with a variable that has no value yet may still become equal.
        if not _is_unfilled(value):
            return f"measured with {name} {shortened(before)}, not {shortened(value)}"
    return None


def _missing_fit(run: RunDirectory, settings: Parsed) -> str | None:
    if not run.finished("fit"):
        return "not trained"
    if not run.chosen.is_file():
        return None
    from lit_modules import read_checkpoint

    state = read_checkpoint(run.chosen, lazily=True)
    corpus = state.get(settings["data"]["class_path"].rsplit(".", 1)[-1], {})
    splits = ("train", "validation")
    now = {name: split.complete for name in splits if (split := rows(settings, name))}
    # Checkpoints of older versions have no digest of their rows.
    before = {s: digest for s in splits if (digest := corpus.get(f"{s} rows")) is not None}
    if changes := differences(before, now, only=before.keys() & now.keys()):
        msg = (
            f"run {run.name} was trained on other {changes[0].name} rows than those that its "
            "settings name now; move it away, or give the study's file another name"
        )
        raise OtherRunError(msg)
    return None


def _missing_evaluation(
    run: RunDirectory, name: str, settings: Parsed, options: Settings | None
) -> str | None:
    """Return the reason that an evaluation has to run; see `missing`."""
    from training.trainer import LIMITS, evaluation_subject

    if (stored := _measured(run, name)) is None:
        return "not measured"
    asked = {**_weights(run), **evaluation_subject(name, settings, _task(settings))}
    split = "validation" if name == "validate" else "test"
    now = rows(settings, split)
    # A model without certificate has no rows.
    if now is not None and stored.get("rows"):
        asked["rows"] = {split: now.labelled}
    limit = LIMITS[name]
    # Without options the evaluation is a part of `train`: its settings have the limit.
    part = settings["trainer"].get(limit) if options is None else options.get(f"trainer.{limit}")
    # As the trainer files it: 1.0 is all batches, 1 is one of them.
    asked[limit] = None if isinstance(part, float) and part == 1 else part
    return _differs(stored, asked)


def _missing_attack(run: RunDirectory, name: str, settings: Parsed) -> str | None:
    if _measured(run, f"attack/{name}") is None:
        return f"{name} has not ended"
    from measure.attack_settings import AttackSettings

    attack = AttackSettings(**settings["attack"])
    stored = flat(attack_ledger(run, name).subject())
    now = rows(settings, attack.split)
    samples = {} if now is None else {"samples": now.complete}
    own = attack.recipe_subjects().get(name, {})
    asked = {**attack.partial_subject(), **own, **_weights(run), **samples}
    # Older programs stored fewer settings: only common ones are compared.
    only = {*stored, "checkpoint", "engine", "samples", "threat.name", "threat.k"} & asked.keys()
    # Of the file of your own attack, also keys that only one of the two has.
    only |= {key for key in {*stored, *asked} if key.startswith("recipe.")}
    if (reason := _differs(stored, asked, only)) is not None:
        return reason
    results = run.results()
    metrics = {} if results is None else results["metrics"]
    done = int(metrics.get(f"attack/{name}/samples") or 0)
    total = done if now is None else _attackable(run, attack, settings, now)
    # A split may have fewer texts than the attack asks for.
    needed = min(attack.num_samples or total, total)
    return None if done >= needed else f"{done} of {needed} samples are done"


def _missing_transfer(run: RunDirectory, attack: str, names: Sequence[str]) -> str | None:
    if (stored := _measured(run, f"transfer/{attack}")) is None:
        return f"transfer of {attack} is not measured"
    runs = {name: RunDirectory(run.path.parent / name) for name in names}
    sources = {n: file_digest(r.chosen) for n, r in runs.items() if r.chosen.is_file()}
    paths = {n: attack_ledger(r, attack).records_path for n, r in runs.items()}
    records = {n: file_digest(path) for n, path in paths.items() if path.is_file()}
    # Older programs did not store the texts.
    asked = {"sources": sources, **({"records": records} if "records" in stored else {})}
    for key, own in asked.items():
        # The transfer of another row reads this run as well. Its texts are those of the first.
        read = stored.get(key, {})
        if [*read][:1] == [*own][:1]:
            stored = {**stored, key: {n: d for n, d in read.items() if n in own}}
    return _differs(stored, {**_weights(run), **asked})


def _attackable(
    run: RunDirectory, attack: "AttackSettings", settings: Parsed, split: "Rows"
) -> int:
    """Return the number of rows that an attack with this goal may take."""
    text = checkpoint_text(run)
    detector = text.get("detector") or _init_args(settings)
    positive = attack.positive_class(text.get("class_names") or [], detector.get("positive"))
    if positive is None:
        return split.total
    own = split.labels.get(positive, 0)
    return own if attack.goal == "evade" else split.total - own


def check_start(cell: Cell, context: StudyContext, where: Path, *, begun: bool) -> None:
    """Raise an OtherRunError if a begun run has had other weights than its first run has now.

    The digests are in `studies/STUDY/starts/` since the first check of a run.
    """
    runs = where / context.runs_dir
    digests = {
        key: _digest(runs / path) for key, path in cell.start.items() if (runs / path).exists()
    }
    note = where / context.out / "starts" / f"{cell.run}.json"
    try:
        recorded = dict(read_json(note, "digests of weights")) if begun and note.is_file() else {}
    except (TypeError, ValueError) as error:
        msg = (
            f"got {note} with unreadable content, expected digests of the weights that a run began "
            "with; delete it if these are still there"
        )
        raise OtherRunError(msg) from error
    for change in differences(recorded, digests, only=recorded.keys() & digests.keys()):
        msg = (
            f"run {cell.run} began with other weights than {runs / cell.start[change.name]} has "
            "now; move it away, and the study makes it anew"
        )
        raise OtherRunError(msg)
    # A run without `start` needs no note.
    if digests and digests != recorded:
        atomic.write_text(note, json.dumps(digests, indent=2, sort_keys=True) + "\n")


def _digest(path: Path) -> str:
    """Return the digest of a checkpoint, or of a directory of `transformers`."""
    from run_files.weights import tensors_digest

    if path.is_dir():
        # Large models are divided into several files.
        parts = [file_digest(file) for file in sorted(path.glob("*.safetensors"))]
        return hashlib.sha256("".join(parts).encode()).hexdigest()
    return tensors_digest(path) if path.suffix == ".ckpt" else file_digest(path)


# The data


class Rows(NamedTuple):
    """The rows of a split: their digests and numbers."""

    labelled: str  # digest of the rows with a label; of all rows if none has one
    complete: str  # digest of all rows
    total: int
    labels: Mapping[Any, int] = {}  # number of rows of each class, by its index


_known: dict[str, Rows | None] = {}
_lock = threading.Lock()


def rows(settings: Parsed, split: Any) -> Rows | None:
    """Return the digests of a split; None for running text, or if corpora are not read.

    Raises:
        DataError: the split cannot be read.
    """
    if UNREAD in settings:
        return None
    data = {"class_path": settings["data"]["class_path"], **_init_args(settings)}
    # The rows depend on the seed only through the random choice of `limit_train`.
    drawn = data.get("limit_train") is not None and split == "train"
    seed = int(settings["seed_everything"] if data.get("seed") is None else data["seed"])
    key = json.dumps([data, split, seed if drawn else None], sort_keys=True, default=str)
    # Cells are checked in several threads; reading a corpus takes seconds.
    with _lock:
        if key not in _known:
            _known[key] = _read(settings, split, seed)
        return _known[key]


def _read(settings: Parsed, split: Any, seed: int) -> Rows | None:
    from datamodules import TextDataModule
    from datamodules.batching.examples import fingerprint

    corpus: Any = _corpus_class(settings)(**{**_init_args(settings), "seed": seed})
    if not isinstance(corpus, TextDataModule):
        return None
    corpus._load(split)
    examples = corpus.examples(split)
    labelled = [example for example in examples if example.label is not None]
    classes = Counter(example.label for example in labelled if isinstance(example.label, int))
    return Rows(fingerprint(labelled or examples), fingerprint(examples), len(examples), classes)


def _init_args(settings: Parsed) -> Parsed:
    arguments: Parsed = settings["data"].get("init_args") or {}
    return arguments


def _corpus_class(settings: Parsed) -> Any:
    return find_class(settings["data"]["class_path"])


def _task(settings: Parsed) -> str:
    return str(getattr(_corpus_class(settings), "task", "classification"))
