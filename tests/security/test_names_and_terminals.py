"""Names of runs stay in the directory of runs, and no text of a file acts upon a terminal."""

import json
import re
import unicodedata
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.integration.conftest import ATTACK, OLSA, REVIEWS, TINY, Steadfast
from tests.security.payloads import Marker

EPOCH = "--trainer.max_epochs=1"
# Clear the screen, set the title, have the terminal type an answer, turn round what follows.
ESCAPES = "\x1b[2J\x1b]0;title\x07\x1b[c\x9b31m\u202etxt.\u2066"


def acts(text: str) -> list[str]:
    """The characters of a text that a terminal acts upon."""
    return [c for c in text if c not in "\n\t" and unicodedata.category(c) in ("Cc", "Cf", "Cs")]


NAMES = [
    "../escaped",
    "..",
    ".",
    "a/b",
    "/tmp/escaped",
    ".hidden",
    "-rf",
    "a b",
    "a\n",
    "a\nb",
    "a\x1b[2J",
    "a\\b",
    "a:b",
    "$(touch x)",
    "a;b",
    "",
    "\u202ea",
    "å",
]


@pytest.mark.parametrize(
    ("command", "name"),
    [
        *(("fit", name) for name in NAMES),
        *(("test", name) for name in NAMES[:2]),
        *(pytest.param("test", name, marks=pytest.mark.slow) for name in NAMES[2:]),
    ],
)
def test_names_that_no_run_can_have(
    command: str,
    name: str,
    here: Path,
    steadfast: Steadfast,
    listing: Callable[[], set[str]],
    capfd: pytest.CaptureFixture[str],
) -> None:
    before = listing()
    outcome = steadfast(command, OLSA, REVIEWS, TINY, EPOCH, f"--run={name}")
    assert outcome.status == 2
    assert listing() == before


@pytest.mark.parametrize("name", ["a..b", "2026-11-20_x@y+z=1", "A" * 200])
def test_names_that_a_run_can_have(
    name: str, here: Path, steadfast: Steadfast, listing: Callable[[], set[str]]
) -> None:
    before = listing()
    outcome = steadfast("fit", OLSA, REVIEWS, TINY, EPOCH, "--runs_dir=deep/er", f"--run={name}")
    assert outcome.status == 0
    written = {path.removeprefix(f"{here.name}/") for path in listing() - before}
    places = {"deep", "deep/er", f"deep/er/{name}"}
    assert places < written
    assert all(path in places or path.startswith(f"deep/er/{name}/") for path in written)


def test_labels_and_names_of_files_in_messages(here: Path, steadfast: Steadfast) -> None:
    """Classes come from the training file; here they are shown in a message, with the file."""
    path = Path(f"{ESCAPES}.tsv".replace("/", ""))
    path.write_text("text\tlabel\n" + f"a\t{ESCAPES}one\nb\t{ESCAPES}two\n" * 30)
    Path("test.tsv").write_text(f"text\tlabel\na\t{ESCAPES}three\n")
    files = [f"--data.train={path}", f"--data.validation={path}", "--data.test=test.tsv"]
    arguments = [*OLSA, *TINY, EPOCH, "--data=TextFiles", *files]
    outcome = steadfast("train", arguments, "--run=a", f"--data.name={ESCAPES}")
    assert outcome.status == 1
    assert "unknown label" in outcome.err
    assert acts(outcome.out + outcome.err) == []
    path.write_text("other\n")
    outcome = steadfast("fit", arguments, "--run=b")
    assert outcome.status == 1
    assert r"\x1b[2J" in outcome.err
    assert acts(outcome.out + outcome.err) == []


def test_names_of_classes_in_results(here: Path, steadfast: Steadfast) -> None:
    rows = f"a b\t{ESCAPES}one\nc d\t{ESCAPES}two\n" * 30
    for split in ("train", "validation", "test"):
        Path(f"{split}.tsv").write_text("text\tlabel\n" + rows)
    files = [f"--data.{split}={split}.tsv" for split in ("train", "validation", "test")]
    arguments = [*OLSA, *TINY, *ATTACK, EPOCH, "--data=TextFiles", *files]
    outcome = steadfast("train", arguments, "--run=a", f"--data.name={ESCAPES}")
    assert outcome.status == 0
    assert r"\x1b[2J" in outcome.out  # the corpus, in the table
    assert acts(outcome.out + outcome.err) == []
    outcome = steadfast("predict", "--run=a", TINY)
    assert outcome.status == 0
    assert acts(outcome.out + outcome.err) == []
    for name in ("results.json", "config.yaml", "certificates.jsonl", "predictions.jsonl"):
        assert acts(Path("runs/a", name).read_text()) == []
    (line, *_) = Path("runs/a/predictions.jsonl").read_text().splitlines()
    assert json.loads(line)["class"].startswith(ESCAPES)


@pytest.mark.parametrize("mode", ["stop", "skip"])
def test_bad_rows_in_messages(mode: str, here: Path, steadfast: Steadfast) -> None:
    bad = ['{"text": "a", "label": "' + "x" * 10**6 + '"}', '{"\\u001b[2J": 1}', "\x1b[2J", "[" * 9]
    good = [f'{{"text": "a {i}", "label": {i % 2}}}' for i in range(40)]
    for split in ("train", "validation", "test"):
        Path(f"{split}.jsonl").write_text("\n".join([*bad, *good]) + "\n")
    files = [f"--data.{split}={split}.jsonl" for split in ("train", "validation", "test")]
    arguments = [*OLSA, *TINY, EPOCH, "--data=TextFiles", *files, f"--data.on_bad_row={mode}"]
    outcome = steadfast("fit", arguments, "--data.classes=[bad, good]", "--run=a")
    assert outcome.status == (1 if mode == "stop" else 0)
    assert "bad row(s)" in outcome.err
    assert acts(outcome.out + outcome.err) == []
    assert len(outcome.err) < 20_000


def test_html_in_what_tensorboard_shows(here: Path, steadfast: Steadfast) -> None:
    """The settings are text for its text page, and TensorBoard makes that safe."""
    script = "<script>alert(1)</script>```<img src=x onerror=alert(1)>"
    rows = "a b\tone\nc d\ttwo\n" * 30
    for split in ("train", "validation"):
        Path(f"{split}.tsv").write_text("text\tlabel\n" + rows)
    files = [f"--data.{split}={split}.tsv" for split in ("train", "validation")]
    arguments = [*OLSA, *TINY, EPOCH, "--data=TextFiles", *files, f"--data.name={script}"]
    assert steadfast("fit", arguments, "--run=a").status == 0
    shown = texts(Path("runs/a"))
    assert script in shown
    safe = made_safe(shown)
    assert "alert(1)" in safe
    assert "<script" not in safe
    assert not re.search("<[^>]*onerror", safe)


def made_safe(text: str) -> str:
    """HTML as TensorBoard makes it of a text."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what it is made of deprecates itself
        from tensorboard import plugin_util
    html: str = plugin_util.markdown_to_safe_html(text)
    return html


def texts(run: Path) -> str:
    """What is on TensorBoard's text page."""
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    events: Any = EventAccumulator(str(run))
    events.Reload()
    (found,) = events.Tensors("config/text_summary")
    content: bytes = found.tensor_proto.string_val[0]
    return content.decode()


def test_file_names_are_not_commands(here: Path, steadfast: Steadfast, marker: Marker) -> None:
    Path(marker.path.name).unlink(missing_ok=True)
    name = f"$(touch {marker.path.name}); touch {marker.path.name} #.tsv"
    Path(name).write_text("text\tlabel\n" + "a b\tone\nc d\ttwo\n" * 30)
    files = [f"--data.{split}={name}" for split in ("train", "validation", "test")]
    arguments = [*OLSA, *TINY, *ATTACK, EPOCH, "--data=TextFiles", *files]
    assert steadfast("train", arguments, "--run=a").status == 0
    assert not Path(marker.path.name).exists()
