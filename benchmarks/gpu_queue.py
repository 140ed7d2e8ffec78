"""All measurements that wait for a GPU, as a list of commands of at most 8 minutes each.

    python -m benchmarks.gpu_queue --out DIR [--data_dir DIR] [--resources DIR] [--only NAME ...]
        [--budget SECONDS] [--list] [--check]

The commands run one after the other. Each leaves DIR/<device>/<command>.json: its status, its
figures, its output and the versions. A finished command is not run again; a failed one is
recorded with its error, the queue continues, and the next call tries it again. With `--budget` the
queue stops before a command that may exceed it. `--check` runs every command for two steps on tiny
models, also on a CPU. No hub is needed: encoders of real size get random weights. Without
`--data_dir` the texts are those of the corpus Reviews, else those of SST-2.
"""

import os
import re
import signal
import subprocess
import sys
import time
from argparse import Namespace
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple

import torch
import yaml

from benchmarks.command import command, load, save, table
from datamodules.sources.reviews_grammar import generate
from layers.architectures import build_masked_lm
from layers.pretrained_encoders import save_model
from run_files.results import read
from run_files.version import versions
from text import save_tokenizer, train_word_piece

LIMIT = 480
"""Seconds that a command may take."""
PRINTED = 6000
"""Characters that are kept of what a command prints."""
ROOT = Path(__file__).parents[1]
BRIEF = re.compile(
    r"ratio$|efficiency$|margin_met$|test/accuracy$|val/loss$|ward_ms$|ms_exponent$|^fit$"
)
"""Names of the figures in the table at the end."""


class Entry(NamedTuple):
    """A command of the queue: module and options; words in braces are names of `Queue.words`.

    `tiny` are options that `--check` adds; `needs` names the option without which it is left out.
    """

    name: str
    purpose: str
    words: str
    tiny: str
    seconds: int = 240
    gpus: int = 1
    needs: Literal["resources"] | None = None

    @property
    def of_program(self) -> bool:
        """True for a command of the program, whose figures are in the run's `results.json`."""
        return self.words.startswith("app ")


def read_queue(path: Path) -> tuple[Entry, ...]:
    """Return the commands of a file, with its `parts` filled in."""
    content = yaml.safe_load(path.read_text(encoding="utf-8"))

    def fill(text: str) -> str:
        # Later parts use earlier ones; names of `Queue.words` stay.
        for name, words in reversed(content["parts"].items()):
            text = text.replace(f"{{{name}}}", words)
        return text

    return tuple(
        Entry(name, **{**entry, "words": fill(entry["words"]), "tiny": fill(entry["tiny"])})
        for name, entry in content["commands"].items()
    )


QUEUE = read_queue(Path(__file__).with_suffix(".yaml"))


def save_encoder(folder: Path, *, tiny: bool) -> Path:
    """Write a BERT of random weights and its tokenizer, unless they are there; return their folder.

    Its size is that of BERT-base, embeddings included, of which only the first have a word piece.
    """
    folder = folder / ("tiny" if tiny else "bert-base")
    if (folder / "tokenizer.json").is_file():
        return folder
    shape = {"num_hidden_layers": 2, "hidden_size": 16, "num_attention_heads": 2}
    torch.manual_seed(0)
    architecture = {"model_type": "bert", **({**shape, "intermediate_size": 32} if tiny else {})}
    save_model(build_masked_lm(architecture), folder)
    # Written last: it says that the folder is complete.
    texts = [text for text, _ in generate(0, 2000)]
    save_tokenizer(train_word_piece(texts, 1000, max_length=512), folder)
    return folder


class Queue:
    """Runs commands and keeps their figures."""

    def __init__(self, options: Namespace) -> None:
        self.options = options
        self.begun = time.monotonic()
        self.device = torch.cuda.get_device_name() if torch.cuda.is_available() else "CPU"
        # Results of different GPUs have different folders.
        name = re.sub(r"\W+", "_", self.device) + ("_check" if options.check else "")
        self.folder: Path = options.out.absolute() / name

    def file(self, entry: Entry) -> Path:
        """Return the file of a command's figures."""
        return self.folder / f"{entry.name}.json"

    def known(self, entry: Entry) -> dict[str, Any]:
        """Return what earlier calls have found; nothing if there is nothing."""
        return load(self.file(entry))

    def words(self, entry: Entry) -> list[str]:
        """Return the command; encoders that it names are written first."""
        options = self.options
        on_gpu = torch.cuda.is_available()
        data = f"--data SST2 --data.data_dir {options.data_dir}" if options.data_dir else ""
        values: dict[str, object] = {
            "device": "cuda" if on_gpu else "cpu",
            "accelerator": "gpu" if on_gpu else "cpu",
            "file": self.folder / "figures" / f"{entry.name}.json",
            "runs": self.folder / "runs",
            "data": data or "--data Reviews",
            "resources": options.resources,
        }
        if "{bert}" in entry.words:
            values["bert"] = save_encoder(options.out.absolute() / "encoders", tiny=options.check)
        text = f"{entry.words} {entry.tiny if options.check else ''}"
        words = []
        for part in text.split():  # before names are filled in: a folder may have a space
            word = part.format_map(values)
            # `{data}` has several options; all other values are one word.
            words += word.split() if part == "{data}" else [word]
        if entry.of_program:
            # Runs of the program need a name; benchmarks write `{file}`.
            words += ["--run", entry.name, "--trainer.enable_progress_bar", "false"]
        return [sys.executable, "-m", *words]

    def left_out(self, entry: Entry) -> str:
        """Return the reason why a command cannot run here; nothing if it can."""
        if entry.needs is not None and vars(self.options)[entry.needs] is None:
            return f"needs --{entry.needs} DIR"
        there = torch.cuda.device_count()
        # A check without any GPU runs on the CPU.
        if entry.gpus > 1 and there < entry.gpus and (there or not self.options.check):
            return f"needs {entry.gpus} GPUs, got {there}"
        return ""

    def time_left(self) -> float:
        """Return the seconds of the budget that are left."""
        budget = self.options.budget
        return float("inf") if budget is None else budget - (time.monotonic() - self.begun)

    def run(self, entry: Entry) -> dict[str, Any]:
        """Run a command and keep its figures."""
        words, begun = self.words(entry), time.monotonic()
        print(f"{entry.name}: {' '.join(words[2:])}", file=sys.stderr, flush=True)
        # The limit of a command also ends at the budget of the queue.
        status, printed, error = self._call(words, min(LIMIT, self.time_left()))
        content = {
            "name": entry.name,
            "about": entry.purpose,
            "status": status,
            "error": error,
            "device": self.device,
            "gpus": entry.gpus,
            "command": words[1:],
            "seconds": round(time.monotonic() - begun, 1),
            "figures": self._figures(entry),
            "printed": printed[-PRINTED:],
            "versions": versions(),
        }
        # Failures are recorded too, and tried again by the next call.
        self.folder.mkdir(parents=True, exist_ok=True)
        save(self.file(entry), content)
        return content

    def _call(self, words: Sequence[str], limit: float) -> tuple[str, str, str]:
        """Return the status of a command, its output, and the error that ended it."""
        process = subprocess.Popen(
            words,
            cwd=ROOT,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        try:
            out, err = process.communicate(timeout=limit)
        except BaseException as stopped:
            # Its own group: a command may have started processes.
            os.killpg(process.pid, signal.SIGKILL)
            out, err = process.communicate()
            if not isinstance(stopped, subprocess.TimeoutExpired):
                raise
            return "failed", out, f"not finished within {limit:.0f} s"
        messages = [line for line in err.splitlines() if line.strip()]
        if process.returncode:
            return "failed", out, "\n".join(messages[-20:]) or f"status {process.returncode}"
        return "finished", out, ""

    def _figures(self, entry: Entry) -> dict[str, Any]:
        if entry.of_program:
            return dict(read(self.folder / "runs" / entry.name / "results.json") or {})
        return load(self.folder / "figures" / f"{entry.name}.json")

    def go(self, entries: Sequence[Entry]) -> None:
        """Run the unfinished commands, until the budget is spent."""
        for entry in entries:
            if self.known(entry).get("status") == "finished" or self.left_out(entry):
                continue
            # In order: later commands may need the results of this one.
            if entry.seconds > self.time_left():
                remaining = self.time_left()
                print(
                    f"{entry.name} may take {entry.seconds} s, {remaining:.0f} s are left: stopped"
                )
                return
            self.run(entry)

    def summary(self, entries: Sequence[Entry]) -> str:
        """Return a table of all commands, with their state."""
        rows = []
        for entry in entries:
            outcome = self.known(entry)
            reason = self.left_out(entry)
            state = outcome.get("status") or (f"left out: {reason}" if reason else "not run")
            error = outcome.get("error", "").splitlines()
            text = error or [", ".join(brief(outcome.get("figures", {})))]
            if text == [""]:  # no figures: the last line that it printed
                text = outcome.get("printed", "").strip().splitlines() or [""]
            rows.append([entry.name, state, outcome.get("seconds", ""), text[-1][:400]])
        return table([f"command on {self.device}", "state", "seconds", "found"], rows)


def brief(figures: Any, name: str = "") -> Iterator[str]:
    """Yield the figures of a command that the table at the end shows."""
    items: Any = figures.items() if isinstance(figures, dict) else ()
    if isinstance(figures, list):
        items = ((str(i), figure) for i, figure in enumerate(figures))
    for key, value in items:
        if isinstance(value, dict | list):
            yield from brief(value, f"{name} {key}" if name else key)
        elif isinstance(value, float) and BRIEF.search(key):
            yield f"{name} {key} {value:.3g}".strip()


def main(argv: Sequence[str] | None = None) -> int:
    """Run the queue and prints its table; 1 if a command has failed."""
    parser = command(__doc__, "data_dir", "out")
    parser.add_argument("--resources", type=Path, metavar="DIR", help="resources of attacks")
    names = [entry.name for entry in QUEUE]
    parser.add_argument("--only", nargs="+", choices=names, metavar="NAME", help="only these")
    parser.add_argument("--budget", type=float, metavar="SECONDS", help="time for all commands")
    parser.add_argument("--list", action="store_true", help="print the commands, run none")
    parser.add_argument("--check", action="store_true", help="two steps each, on tiny models")
    parser.set_defaults(out=Path("runs/gpu_queue"))
    options = parser.parse_args(argv)
    entries = [entry for entry in QUEUE if options.only is None or entry.name in options.only]
    if options.list:
        rows = [
            (entry.name, entry.purpose, entry.seconds, f"`python -m {entry.words}`")
            for entry in entries
        ]
        print(table(["command", "measures", "seconds at most", "runs"], rows))
        return 0
    for name in ("data_dir", "resources"):
        # Commands run in the root of the checkout.
        path = getattr(options, name)
        setattr(options, name, path if path is None else path.absolute())
    queue = Queue(options)
    queue.go(entries)
    print(queue.summary(entries))
    return int(any(queue.known(entry).get("status") == "failed" for entry in entries))


if __name__ == "__main__":
    sys.exit(main())
