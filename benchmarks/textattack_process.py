"""TextAttack 0.3.11 in another interpreter, which asks a victim of this process."""

import json
import os
import subprocess
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Self

from attacks.outcome import Sample
from text import Text

Probabilities = Callable[[Sequence[Text]], list[list[float]]]
"""Returns a row of probabilities for each text."""
RECIPES = Path(__file__).with_name("textattack_recipes.py")


class TextAttackProcess:
    """A process with TextAttack; it ends with the context.

    Args:
        python: interpreter that has TextAttack (docs/attacks/parity.md).
        program: what it runs: `textattack_child.py` or `textattack_recipes.py`.
        settings: its first line.
        data_dir: has nltk's data.

    Attributes:
        victim_seconds: spent in the victim so far, by the wall clock.

    Raises:
        RuntimeError: the process ended without an answer, here or later.
    """

    def __init__(
        self, python: Path, program: Path, settings: Mapping[str, Any], *, data_dir: Path
    ) -> None:
        self.victim_seconds = 0.0
        self._process = subprocess.Popen(
            [str(python), str(program)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            encoding="utf-8",
            env={
                **os.environ,
                "NLTK_DATA": str(data_dir.resolve() / "nltk"),
                "TA_CACHE_DIR": str(Path(tempfile.gettempdir()) / "textattack-cache"),
                "HF_HUB_OFFLINE": "1",
            },
        )
        self._say(dict(settings))
        self._ready = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._process.kill()
        self._process.communicate()

    def wait(self) -> None:
        """Waits until all imports are done."""
        if not self._ready:
            self._hear()
            self._ready = True

    def attack(self, samples: Sequence[Sample], victim: Probabilities) -> dict[str, Any]:
        """Returns `results`, an answer for each sample, and what else the process says.

        Args:
            samples: to attack.
            victim: answers its questions.
        """
        self.wait()
        self._say(
            {"texts": [one.text for one in samples], "labels": [one.label for one in samples]}
        )
        while "texts" in (heard := self._hear()):
            started = time.monotonic()
            answer = victim(heard["texts"])
            self.victim_seconds += time.monotonic() - started
            self._say(answer)
        return heard

    def _say(self, content: object) -> None:
        if self._process.stdin is not None:
            with suppress(BrokenPipeError):  # that nobody answers says more
                self._process.stdin.write(json.dumps(content) + "\n")
                self._process.stdin.flush()

    def _hear(self) -> dict[str, Any]:
        line = "" if self._process.stdout is None else self._process.stdout.readline()
        if not line:
            msg = (
                "got no answer from the process with TextAttack, whose error stands above; "
                "expected an interpreter that can import textattack 0.3.11"
            )
            raise RuntimeError(msg)
        heard: dict[str, Any] = json.loads(line)
        return heard
