"""Data, pretrained encoders and the hub."""

import os
import threading
import urllib.error
import urllib.request
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from app.doctor.installation import AGAIN, step
from app.doctor.report import Check, masked

_SECONDS = 4.0
WAYS_OUT = (
    "give corpora as files (--data.data_dir, docs/data.md) and encoders as folders, or run once "
    "where the hub can be reached, so that the local cache (HF_HOME) keeps them"
)


def check_data(folder: Path | None, facts: Mapping[str, dict[str, Any]]) -> Check:
    """Which corpora the data directory holds."""
    name = "data directory"
    if folder is None:
        return Check(name, "ok", "not looked at (--data_dir); the corpus Reviews is built in")
    found = step(facts, "data")
    if "error" in found:
        return Check(name, "FAILED", f"{folder}: {found['error']}", "see docs/data.md")
    others = f"; not used: {', '.join(found['others'][:8])}" if found["others"] else ""
    others += ", ..." if len(found["others"]) > 8 else ""
    if not found["corpora"]:
        advice = "expected DIR/<corpus>/<split>.<jsonl|tsv|csv|parquet>[.gz], as in docs/data.md"
        return Check(name, "warning", f"{folder} holds no corpus of ours{others}", advice)
    texts, broken, absent = [], [], []
    for corpus, splits in found["corpora"].items():
        good = [split for split, problem in splits.items() if problem is None]
        texts.append(f"{corpus} ({', '.join(good) or 'nothing usable'})")
        absent += [f"{corpus}/{split}" for split in splits if splits[split] == "absent"]
        broken += [
            f"{corpus}/{split}: {problem}"
            for split, problem in splits.items()
            if problem not in (None, "absent")
        ]
    text = f"{folder}: {', '.join(texts)}{others}"
    if broken:
        advice = "correct or remove these files; docs/data.md says what is expected"
        return Check(name, "FAILED", f"{text}; {'; '.join(broken)}", advice)
    if absent:
        return Check(name, "warning", text, _how_to_get(absent, found["not_on_hub"]))
    return Check(name, "ok", text)


def _how_to_get(absent: Sequence[str], origins: Mapping[str, str | None]) -> str:
    """What to do about absent splits.

    Args:
        absent: their names, `corpus/split`.
        origins: of corpora that are not on the hub, where their files can be had.
    """
    fetched = [name for name in absent if name.split("/")[0] not in origins]
    advice = []
    if fetched:
        advice.append(
            f"{', '.join(fetched)} will be fetched from the hub: add the files to avoid it"
        )
    for corpus, origin in origins.items():
        missing = [name for name in absent if name.split("/")[0] == corpus]
        where = f" ({origin})" if origin else ""
        if missing:
            advice.append(f"{', '.join(missing)} cannot be fetched: add the files{where}")
    return "; ".join(advice)


def check_backbone(folder: Path, facts: Mapping[str, dict[str, Any]]) -> Check:
    """Whether an encoder can be loaded."""
    found = step(facts, "backbone")
    if "error" in found:
        advice = "expected a folder with config.json, model.safetensors and tokenizer.json"
        return Check("backbone", "FAILED", f"{folder}: {found['error']}", advice)
    text = "{model}, {layers} layers, width {width}, {ids} ids, from {folder}"
    return Check("backbone", "ok", text.format(folder=folder, **found))


def check_hub(seconds: float = _SECONDS) -> Check:
    """Whether the hub answers, as its client would ask it: no failure, since it is not needed."""
    try:
        from huggingface_hub import constants
    except Exception as error:  # broken in whatever way
        return Check("hub", "FAILED", f"its client cannot be loaded: {error}", AGAIN)
    names = ("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE", "HF_DATASETS_OFFLINE")
    switches = [f"{name}={os.environ[name]}" for name in names if os.environ.get(name)]
    if constants.HF_HUB_OFFLINE:
        text = f"switched off by {', '.join(switches)}: only the local cache is used"
        return Check("hub", "ok", text)
    target = urlsplit(constants.ENDPOINT)
    where = f"{target.scheme}://{target.hostname}{f':{target.port}' if target.port else ''}"
    answer: list[str | None] = []
    # A thread, because looking up a name knows no time limit; it is left behind if it hangs.
    address = f"{where}{target.path}"
    thread = threading.Thread(target=lambda: answer.append(_ask(address, seconds)), daemon=True)
    thread.start()
    thread.join(2 * seconds)
    proxy = urllib.request.getproxies().get(target.scheme)
    if proxy and not urllib.request.proxy_bypass(target.hostname or ""):
        where += f" through {masked(proxy)}"
    problem = answer[0] if answer else f"no answer within {2 * seconds:g} s"
    if problem is None:
        return Check("hub", "ok", f"{where} answers")
    return Check("hub", "warning", f"{where}: {problem}", WAYS_OUT)


def _ask(endpoint: str, seconds: float) -> str | None:
    """What is wrong with the answer of an address, or None."""
    try:
        request = urllib.request.Request(endpoint, method="HEAD")
        with urllib.request.build_opener().open(request, timeout=seconds):
            return None
    except urllib.error.HTTPError as error:
        # It answers; what it says of its front page is no matter. Not so a gateway or a proxy.
        return None if error.code < 500 and error.code != 407 else f"status {error.code}"
    except urllib.error.URLError as error:
        return f"cannot be reached ({error.reason})"
    except (OSError, ValueError) as error:
        return f"cannot be reached ({error})"
