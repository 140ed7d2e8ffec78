"""TextAttack 0.3.11 in another interpreter, with a victim in this process."""

import json
import os
import subprocess
import tempfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Self

from attacks.outcome import Sample
from text import Text

Probabilities = Callable[[Sequence[Text]], list[list[float]]]
"""Return a row of probabilities for each text."""
PROGRAM = Path(__file__).with_name("textattack_child.py")


class TextAttackProcess:
    """A process with TextAttack (docs/attacks/parity.md); it ends with the context.

    Settings are its first line, see `textattack_child`; `data_dir` has nltk's data.

    Raises:
        RuntimeError: the process ended without a reply, here or later.
    """

    def __init__(self, python: Path, settings: Mapping[str, Any], *, data_dir: Path) -> None:
        self._process = subprocess.Popen(
            [str(python), str(PROGRAM)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            encoding="utf-8",
            env={
                **os.environ,
                "NLTK_DATA": str(data_dir.resolve() / "nltk"),
                "TA_CACHE_DIR": str(Path(tempfile.gettempdir()) / "textattack-cache"),
                # No download may happen: both sides get their models as folders.
                "HF_HUB_OFFLINE": "1",
            },
        )
        self._write(dict(settings))
        self._ready = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._process.kill()
        self._process.communicate()

    def wait(self) -> None:
        """Wait until all imports are done."""
        if not self._ready:
            self._read()
            self._ready = True

    def attack(self, samples: Sequence[Sample], victim: Probabilities) -> dict[str, Any]:
        """Return `results`, one for each sample, and the seconds of the processor."""
        self.wait()
        self._write(
            {
                "texts": [sample.text for sample in samples],
                "labels": [sample.label for sample in samples],
            }
        )
        while "texts" in (reply := self._read()):
            self._write(victim(reply["texts"]))
        return reply

    def _write(self, content: object) -> None:
        if self._process.stdin is not None:
            with suppress(BrokenPipeError):  # `_read` has the better error
                self._process.stdin.write(json.dumps(content) + "\n")
                self._process.stdin.flush()

    def _read(self) -> dict[str, Any]:
        line = "" if self._process.stdout is None else self._process.stdout.readline()
        if not line:
            msg = (
                "got no reply from the process with TextAttack, whose error is above; "
                "expected an interpreter that can import textattack 0.3.11"
            )
            raise RuntimeError(msg)
        reply: dict[str, Any] = json.loads(line)
        return reply
