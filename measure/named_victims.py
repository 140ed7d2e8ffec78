"""Make victims by their names on the command line: `hf:`, `http:`, `python:`, `run:`."""

import inspect
import sys
from collections.abc import Sequence
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import Any, Literal, NamedTuple

from attacks.victims.http_settings import HttpSettings
from attacks.victims.http_victim import HttpVictim
from attacks.victims.kinds import (
    CallableVictim,
    HuggingFaceVictim,
    Victim,
    as_victim,
    fastest_batch,
)
from attacks.victims.labels_only import LabelVictim
from attacks.victims.task_victims import ChoiceVictim, ScoreVictim, TagVictim
from attacks.victims.threshold_victim import ThresholdVictim
from layers.quiet_transformers import quiet
from layers.sequence_classifiers import LAST_TOKEN, find_head
from lit_modules.checkpoints.reading import load
from measure.attack_settings import AttackSettings
from run_files.checkpoint_lookup import find_checkpoint
from text import hub_reachable
from text.error_reasons import describe_error
from text.web_address import redact

KINDS = ("hf", "http", "python", "run")
Outputs = Literal["logits", "probabilities", "labels"]
_SCORES = ("regression", "multi_label_classification")
Dtype = Literal["float32", "bfloat16", "float16"]


class NamedVictim(NamedTuple):
    """A victim with the names of its classes, and facts for the page, by name."""

    victim: Victim
    classes: list[str]
    facts: dict[str, str]


def named_victim(
    name: str,
    *,
    runs_dir: Path,
    device: Any,
    batch_size: int,
    classes: Sequence[str] | None = None,
    outputs: Outputs = "logits",
    http: HttpSettings = HttpSettings(),
    cache: Path | None = None,
    dtype: Dtype | None = None,
    any_task: bool = False,
) -> NamedVictim:
    """Make the victim that a name describes.

    Args:
        name: `hf:FOLDER_OR_ID`, `http:URL`, `python:MODULE:FUNCTION` or `run:NAME`.
        runs_dir: folder of all runs.
        device: device of a model.
        batch_size: texts per forward pass.
        classes: names of the classes; those of the checkpoint if None.
        outputs: kind of values that a Python function returns.
        http: settings of a service.
        cache: file of its responses; only in memory if None.
        dtype: numbers that a model of `transformers` computes with; those of its file if None.
        any_task: True to take models other than classifiers as well (`attacks.task_goals`).

    Raises:
        ValueError: another kind of name, an object that is not a classifier, or numbers for one
            that is not of `transformers`.
        OSError: the victim is not found.
    """
    kind, rest = _parse(name)
    facts = {"victim": redact(name) if kind == "http" else name}
    if kind == "hf":
        load_victim = task_victim if any_task else pretrained_victim
        hugging = load_victim(rest, device, batch_size, dtype)
        facts |= {} if dtype is None else {"dtype": dtype}
        return NamedVictim(hugging, _as_many(hugging.class_names, classes), facts)
    if dtype is not None:
        msg = f"got --dtype {dtype} with --victim {facts['victim']}, expected it with hf: alone"
        raise ValueError(msg)
    if kind == "run":
        own = _run_victim(runs_dir, rest, device, batch_size, any_task=any_task)
        return NamedVictim(own.victim, _as_many(own.classes, classes), facts | own.facts)
    if classes is None:
        msg = (
            f"got --victim {redact(name)} without --classes, expected the names of its classes "
            "in their order: --classes negative,positive"
        )
        raise ValueError(msg)
    if kind == "http":
        facts["classes"] = ", ".join(classes)
        return NamedVictim(HttpVictim(rest, classes, http, cache=cache), list(classes), facts)
    function = _function(rest)
    if outputs == "labels":
        victim: Victim = LabelVictim(function, classes=classes, batch_size=batch_size, name=rest)
    else:
        victim = CallableVictim(function, outputs=outputs, batch_size=batch_size, name=rest)
    return NamedVictim(victim, list(classes), facts)


def detector_of(
    victim: Victim, classes: Sequence[str], settings: AttackSettings
) -> tuple[Victim, int | None]:
    """Return a victim that detects at the threshold of an attack, and the class that it detects.

    For goals that are not about a detector, it is the victim unchanged, and None.

    Raises:
        ValueError: the victim has no such class, or nothing names it.
    """
    own = getattr(getattr(victim, "module", None), "detector", None)
    positive = settings.positive_class(classes, getattr(own, "positive", None))
    if positive is None or settings.threshold is None:
        return victim, positive
    return ThresholdVictim(victim, positive, settings.threshold), positive


def _run_victim(
    runs_dir: Path, name: str, device: Any, batch_size: int, *, any_task: bool
) -> NamedVictim:
    """Load the best checkpoint of a run, as the command does without --victim."""
    run, checkpoint = find_checkpoint("attack", runs_dir, name, None)
    module = load(checkpoint).to(device)
    _, names = module.require_text()
    victim = as_victim(module, batch_size=batch_size)
    allowed = ("regression", "multi-label") if any_task else ()
    if module.task.name not in ("classification", *allowed):
        from training.model_checks import require_classification  # brings Lightning

        require_classification(module.task.name, "--victim")
    facts = {"run": "" if run is None else run.name, "checkpoint": str(checkpoint)}
    return NamedVictim(victim, names, facts)


def _parse(name: str) -> tuple[str, str]:
    """Return kind and address of a victim."""
    kind, colon, rest = name.partition(":")
    # http:URL, and also a plain URL.
    if kind == "https":
        kind, rest = "http", name
    if kind == "http" and rest.startswith("//"):
        rest = name
    if kind not in KINDS or not colon or not rest:
        msg = (
            f"got --victim {redact(name)}, expected hf:FOLDER_OR_ID, http:URL, "
            "python:MODULE:FUNCTION or run:NAME"
        )
        raise ValueError(msg)
    return kind, rest


def pretrained_victim(
    name: str, device: Any, batch_size: int = 256, dtype: Dtype | None = None
) -> HuggingFaceVictim:
    """Load a classifier of `transformers` to query; see `pretrained_classifier`."""
    model, tokenizer = pretrained_classifier(name, device, dtype)
    size = fastest_batch(model, batch_size)
    return HuggingFaceVictim(model, tokenizer, batch_size=size, name=name)


def task_victim(
    name: str, device: Any, batch_size: int = 256, dtype: Dtype | None = None
) -> HuggingFaceVictim:
    """Load a model of `transformers` to query, of the task that its configuration names.

    Raises:
        ValueError: see `pretrained_classifier`.
    """
    from transformers import AutoConfig

    local = Path(name).is_dir() or not hub_reachable()
    kind = HuggingFaceVictim
    with suppress(OSError, ValueError):  # the next step describes them
        config = AutoConfig.from_pretrained(name, local_files_only=local, trust_remote_code=False)
        architecture = (config.architectures or [""])[0]
        if architecture.endswith("ForTokenClassification"):
            kind = TagVictim
        elif architecture.endswith("ForMultipleChoice"):
            kind = ChoiceVictim
        elif config.num_labels == 1 or config.problem_type in _SCORES:
            kind = ScoreVictim
    model, tokenizer = pretrained_classifier(name, device, dtype, kind)
    if kind is TagVictim and not tokenizer.is_fast:
        msg = f"got hf:{name} with a slow tokenizer, expected a fast one: it tells words apart"
        raise ValueError(msg)
    return kind(model, tokenizer, batch_size=fastest_batch(model, batch_size), name=name)


def pretrained_classifier(
    name: str,
    device: Any,
    dtype: Dtype | None = None,
    kind: type[HuggingFaceVictim] = HuggingFaceVictim,
) -> tuple[Any, Any]:
    """Load a classifier of `transformers` and its tokenizer; never runs code of a repository.

    `name` is a folder, or an id on the hub. The model computes with `dtype`, by default that of its
    file; the `kind` of victim decides about its head.

    Raises:
        ValueError: the model does not exist, or its weights lack a head.
    """
    from transformers import AutoTokenizer

    head, words = _head(kind)
    # Without a network, a look-up on the hub would wait for its timeout.
    # Explicit `trust_remote_code`: with its default, transformers asks at the terminal.
    source: dict[str, Any] = {
        "local_files_only": Path(name).is_dir() or not hub_reachable(),
        "trust_remote_code": False,
    }
    try:
        with quiet():  # the errors below describe what is wrong
            tokenizer = AutoTokenizer.from_pretrained(name, **source, **words)
            model, report = head.from_pretrained(
                name, **source, output_loading_info=True, dtype=dtype or "auto"
            )
    except (OSError, ValueError) as error:
        msg = (
            f"got hf:{name}, from which no classifier could be loaded "
            f"({describe_error(error):.200}), expected a folder with config.json, weights and "
            "tokenizer, or the id of such a model"
        )
        raise ValueError(msg) from error
    # `transformers` only warns, and fills the head with random numbers.
    if missing := sorted(report["missing_keys"]):
        msg = (
            f"got hf:{name}, whose weights lack {', '.join(missing[:3])}, expected a "
            "classifier that was fine-tuned: its head would be random numbers"
        )
        raise ValueError(msg)
    _share_padding(name, model, tokenizer)
    return model.to(device).eval(), tokenizer


def _head(kind: type[HuggingFaceVictim]) -> tuple[Any, dict[str, bool]]:
    """Return the class of a model, and the settings of its tokenizer."""
    import transformers

    if kind is TagVictim:
        # Byte-level tokenizers (RoBERTa) read lists of words only with this.
        return transformers.AutoModelForTokenClassification, {"add_prefix_space": True}
    if kind is ChoiceVictim:
        return transformers.AutoModelForMultipleChoice, {}
    return transformers.AutoModelForSequenceClassification, {}


def _share_padding(name: str, model: Any, tokenizer: Any) -> None:
    """Give a decoder and its tokenizer one padding token: the end of a text, if they have none.

    Raises:
        ValueError: texts end with that token; their classifier would not find their last token.
    """
    if find_head(model.config) != LAST_TOKEN:
        return
    if tokenizer.pad_token_id is None:
        padding = getattr(model.config, "pad_token_id", None)
        if padding is None:
            padding = tokenizer.eos_token_id
        if padding is None or tokenizer("a")["input_ids"][-1] == padding:
            msg = (
                f"got hf:{name}, a decoder whose tokenizer has no padding token that is not at the "
                "end of each text, expected one: set pad_token in its tokenizer_config.json"
            )
            raise ValueError(msg)
        tokenizer.pad_token = tokenizer.convert_ids_to_tokens(padding)
    if getattr(model.config, "pad_token_id", None) is None:
        model.config.pad_token_id = tokenizer.pad_token_id


def _as_many(names: Sequence[str], classes: Sequence[str] | None) -> list[str]:
    """Return the classes of the user, or those of the checkpoint."""
    if classes is not None and len(classes) != len(names):
        msg = (
            f"got --classes {','.join(classes)}, expected {len(names)} names: the checkpoint has "
            f"{', '.join(names)}"
        )
        raise ValueError(msg)
    return list(classes or names)


def _function(path: str) -> Any:
    """Import `MODULE:FUNCTION`, also from the current folder."""
    module, _, name = path.partition(":")
    folder = str(Path.cwd())
    if folder not in sys.path:
        # As `python -m` does; console scripts do not.
        sys.path.insert(0, folder)
    try:
        function: Any = import_module(module)
        for part in name.split("."):
            function = getattr(function, part)
    except (ImportError, AttributeError, ValueError) as error:
        msg = (
            f"got --victim python:{path}, which cannot be imported ({error}), expected "
            "python:MODULE:FUNCTION"
        )
        raise ValueError(msg) from error
    # A class whose objects are functions, for example with a model as attribute.
    if inspect.isclass(function):
        function = function()
    if not callable(function):
        msg = f"got --victim python:{path}, which is not a function from texts to scores"
        raise ValueError(msg)
    return function
