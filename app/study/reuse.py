"""Decides which stages of a cell have ended, from the files of its run."""

import json
import threading
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from pydoc import locate
from types import MappingProxyType
from typing import Any, NamedTuple, cast

from app.study.study import Settings, Stage
from app.study.study_file import attacks_of
from attacks.digests import file_digest
from run_files.certified_bounds import STAGE_OF
from run_files.ledger import attack_ledger
from run_files.run_directory import RunDirectory
from text.bounded_files import read_json
from text.subjects import shortened
from training.resume import HARMLESS_IN_FIT

Parsed = Mapping[str, Any]

# These settings change where and how fast a run computes, its output, and how often it saves.
HARMLESS = HARMLESS_IN_FIT | {
    f"trainer.{name}"
    for name in (
        *("accelerator", "devices", "num_nodes", "strategy", "logger", "callbacks", "profiler"),
        *("enable_progress_bar", "enable_model_summary", "log_every_n_steps", "plugins"),
        *("default_root_dir", "num_sanity_val_steps", "barebones", "detect_anomaly"),
        *("enable_checkpointing", "enable_autolog_hparams", "model_registry", "fast_dev_run"),
    )
}
COMPARED = ("seed_everything", "model", "data", "trainer", "checkpoint", "early_stopping")
# If they are not set, the method decides about these.
_DECIDED_LATER = {"trainer.max_epochs", "early_stopping.patience"}


_UNKNOWN = object()
UNREAD = "corpora are not read"
"""Key of settings: only runs are read, without corpora and values of the command line."""


class OtherRunError(ValueError):
    """A run of that name has other settings."""


def check_run(
    run: RunDirectory, settings: Parsed, start: Mapping[str, str] = MappingProxyType({})
) -> None:
    """Refuse a run with other settings.

    Args:
        run: may not exist yet.
        settings: those of the fit.
        start: settings that name a file of another run, with its path below the directory of runs.
            The path to that directory may differ.

    Raises:
        OtherRunError: the settings differ, or are lost; the message names the differences.
    """
    if not run.begun:
        if run.results_path.exists() or any(run.checkpoints.glob("*.ckpt")):
            msg = f"got run {run.name} without {run.config_path.name}, expected it; move it away"
            raise OtherRunError(msg)
        return
    before, now = (
        # Through JSON: tuples become lists, as in the stored file.
        leaves(json.loads(json.dumps({key: of[key] for key in COMPARED if key in of}, default=str)))
        for of in (run.config(), settings)
    )
    different = [
        f"{name.replace('.init_args', '')} {shortened(before.get(name))} in the run, "
        f"{shortened(now.get(name))} in the study"
        for name in sorted(now.keys() | before.keys())
        if name not in HARMLESS
        and before.get(name) != now.get(name)
        and not _is_start(before.get(name), start.get(name.replace(".init_args", "")))
        and not _is_unfilled(now.get(name))
        and not (name not in before and _default(name, settings) == now[name])
        and not (name in _DECIDED_LATER and now.get(name) is None)
    ]
    if different:
        msg = (
            f"run {run.name} was made with other settings ({'; '.join(different)}); move it away, "
            "or give the study's file another name"
        )
        raise OtherRunError(msg)


def _default(name: str, settings: Parsed) -> object:
    """Return the default of a setting of method or corpus."""
    # A run of an older program lacks new settings: it used the present default.
    from lit_modules.shared.settings import parameters, plain

    part, _, path = name.partition(".init_args.")
    if part not in ("model", "data") or (cls := locate(settings[part]["class_path"])) is None:
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
        return _missing_diagnosis(run, settings)
    if stage.threat is not None:
        return _missing_threat(run, stage.threat, settings)
    if stage.command == "attack":
        reasons = [_missing_attack(run, name, settings) for name in attacks_of([stage])]
        return next((reason for reason in reasons if reason is not None), None)
    if stage.command == "fit":
        return _missing_fit(run, settings)
    if stage.command == "train":
        reason = _missing_fit(run, settings)
        for part in ("test", "certify"):
            applies = part == "test" or _task(settings) == "classification"
            if reason is None and applies:
                reason = _missing_evaluation(run, part, settings, None)
        return reason
    name = STAGE_OF[settings["bound"]] if "bound" in settings else stage.command
    return _missing_evaluation(run, name, settings, stage.options)


def _missing_fit(run: RunDirectory, settings: Parsed) -> str | None:
    if not run.finished("fit"):
        return "not trained"
    if not run.chosen.is_file():
        return None
    from lit_modules import read_checkpoint

    state = read_checkpoint(run.chosen, lazily=True)
    corpus = state.get(settings["data"]["class_path"].rsplit(".", 1)[-1], {})
    for split in ("train", "validation"):
        before, now = corpus.get(f"{split} rows"), rows(settings, split)
        # Checkpoints of older versions have no digest of their rows.
        if before is not None and now is not None and before != now.complete:
            msg = (
                f"run {run.name} was trained on other {split} rows than those that its settings "
                "name now; move it away, or give the study's file another name"
            )
            raise OtherRunError(msg)
    return None


def _missing_evaluation(
    run: RunDirectory, name: str, settings: Parsed, options: Settings | None
) -> str | None:
    """Return the reason that an evaluation has to run; see `missing`."""
    # Without options the evaluation is a part of `train`, which has no limits of batches.
    results = run.results()
    if results is None or name not in results["seconds"]:
        return "not measured"
    measured = results.get("about", {}).get(name, {})
    expected: dict[str, Any] = {"checkpoint": file_digest(run.chosen)}
    if name == "test":
        expected["pgd"] = _pgd(settings)
    elif name.startswith("certify"):
        expected["radii"] = list(settings["radii"])
    split = "validation" if name == "validate" else "test"
    now = rows(settings, split)
    # A model without certificate has no rows.
    if now is not None and measured.get("rows"):
        expected["rows"] = {split: now.labelled}
    if options is not None:
        limit = "limit_val_batches" if name == "validate" else "limit_test_batches"
        expected[limit] = options.get(f"trainer.{limit}")
    return _differs(measured, expected)


def _missing_threat(run: RunDirectory, name: str, settings: Parsed) -> str | None:
    """Return the reason that a certification in words has to run."""
    from app.commands.certify import around, numbers
    from certify.threats import THREATS
    from certify.threats.synonym_lists import lists_file
    from measure.certificate_records import format_changes

    results = run.results()
    stage = f"certify_{name}"
    if results is None or stage not in results["seconds"]:
        return "not measured"
    expected: dict[str, Any] = {"checkpoint": file_digest(run.chosen)}
    ks = numbers(settings["k"], endless=THREATS[settings["threat"]].endless)
    lists = settings["lists"]
    digest = lists if _is_unfilled(lists) else lists and _digest(lists_file(lists))
    expected |= {"k": [format_changes(k) for k in ks], "lists": digest}
    expected |= {option: settings[option] for option in ("num_samples", "split")}
    expected["around"] = around(settings)
    return _differs(results.get("about", {}).get(stage, {}), expected)


def _missing_attack(run: RunDirectory, name: str, settings: Parsed) -> str | None:
    results = run.results()
    stage = f"attack/{name}"
    if results is None or stage not in results["seconds"]:
        return f"{name} has not ended"
    from attacks.engine import VERSION
    from measure.attack_settings import AttackSettings

    attack = AttackSettings(**settings["attack"])
    measured = attack_ledger(run, name).subject()
    # Older programs stored fewer settings: only common ones are compared.
    expected = {key: value for key, value in attack.about().items() if key in measured}
    options = {
        "attacked_columns" if key == "columns" else key: value
        for key, value in attack.options().items()
        if key in ("similarity", "word_similarity", "candidates", "columns")
    }
    expected |= {key: value for key, value in options.items() if key in measured}
    expected |= {"checkpoint": file_digest(run.chosen), "engine": VERSION}
    now = rows(settings, attack.split)
    if now is not None:
        expected["samples"] = now.complete
    if (reason := _differs(measured, expected)) is not None:
        return reason
    done = int(results["metrics"].get(f"attack/{name}/samples") or 0)
    total = done if now is None else now.total
    needed = min(attack.num_samples or total, total)
    return None if done >= needed else f"{done} of {needed} samples are done"


def _missing_diagnosis(run: RunDirectory, settings: Parsed) -> str | None:
    from app.commands.diagnose import options

    recipe = settings["recipe"]
    try:
        content = read_json(run.path / "diagnostics.json", "results of diagnose")
        diagnosis = content["attacks"][recipe]
        measured = [diagnosis, *diagnosis["against"]]
        stored: dict[str, Any] = dict(diagnosis["options"])
        for model in measured:
            stored |= _of_model(model["run"], model["weights"]["checkpoint"], model["texts"])
    except (OSError, ValueError, KeyError, TypeError):
        return "not measured"
    expected = options(settings)
    runs = [run, *(RunDirectory(run.path.parent / name) for name in settings["against"])]
    for compared in runs:
        of = run if settings["same_texts"] else compared
        texts = of.path / "attacks" / f"{recipe}.jsonl"
        expected |= _of_model(compared.name, *(_digest(path) for path in (compared.chosen, texts)))
    return _differs(stored, expected)


def _of_model(run: str, weights: str | None, texts: str | None) -> dict[str, str | None]:
    """Return the identity of the measurements of one model."""
    return {f"weights of {run}": weights, f"texts of {run}": texts}


def _digest(path: Path) -> str | None:
    return file_digest(path) if path.is_file() else None


def _differs(measured: Mapping[str, Any], expected: Mapping[str, Any]) -> str | None:
    """Return the first setting whose stored value differs."""
    for key, value in expected.items():
        if measured.get(key) != json.loads(json.dumps(value)) and not _is_unfilled(value):
            return f"measured with {key} {shortened(measured.get(key))}, not {shortened(value)}"
    return None


def _pgd(settings: Parsed) -> dict[str, Any] | None:
    from attacks import PGD, PGDSettings

    pgd = PGDSettings(**settings["pgd"])
    if pgd.epsilon <= 0 or _task(settings) != "classification":
        return None
    return asdict(PGD(**asdict(pgd)))


# The data


class Rows(NamedTuple):
    """The rows of a split.

    Attributes:
        labelled: digest of the rows with a label; of all rows if none has one.
        complete: digest of all rows.
        total: number of rows.
    """

    labelled: str
    complete: str
    total: int


_known: dict[str, Rows | None] = {}
_lock = threading.Lock()


def rows(settings: Parsed, split: Any) -> Rows | None:
    """Return the digests of a split; None for running text, or if corpora are not read.

    Raises:
        DataError: the split cannot be read.
    """
    if UNREAD in settings:
        return None
    data = {"class_path": settings["data"]["class_path"], **settings["data"].get("init_args", {})}
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

    corpus: Any = _class(settings)(**{**(settings["data"].get("init_args") or {}), "seed": seed})
    if not isinstance(corpus, TextDataModule):
        return None
    corpus._load(split)
    examples = corpus.examples(split)
    labelled = [example for example in examples if example.label is not None]
    return Rows(fingerprint(labelled or examples), fingerprint(examples), len(examples))


def _class(settings: Parsed) -> Any:
    return locate(settings["data"]["class_path"])


def _task(settings: Parsed) -> str:
    return str(getattr(_class(settings), "task", "classification"))


def leaves(tree: Any, prefix: str = "") -> dict[str, Any]:
    """Return all settings as a flat dictionary with dotted names."""
    if isinstance(tree, Mapping) and tree:
        flat: dict[str, Any] = {}
        for key, value in tree.items():
            flat |= leaves(value, f"{prefix}.{key}" if prefix else str(key))
        return flat
    return {prefix: tree}
