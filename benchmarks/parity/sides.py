"""One attack on the same texts by our engine, and by TextAttack 0.3.11."""

import json
import os
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

from attacks.composition import Attack
from attacks.engine import Engine, Limits, longest_first
from attacks.goals import Floats
from attacks.outcome import AttackRecord, Sample
from attacks.victims.kinds import ModuleVictim, Victim
from text import Text
from text.stop_words import ENGLISH, TEXTFOOLER

Probabilities = Callable[[Sequence[Text]], list[list[float]]]
"""Return a row of probabilities for each text."""
PROGRAM = Path(__file__).with_name("textattack_child.py")


class SideResults(NamedTuple):
    """Outcome, queries and text of each sample, and seconds of one side without imports.

    Those of the processor include our victim on our side only.
    """

    results: list[dict[str, Any]]
    seconds: float
    processor: float


def attack_by_engine(
    attack: Attack, victim: Victim, samples: Sequence[Sample], limits: Limits
) -> SideResults:
    """Return the answers of our engine."""
    started, processor = time.monotonic(), time.process_time()
    engine = Engine(attack, victim, limits=limits)
    # Long texts first, so that none runs alone at the end.
    records = list(engine.run(longest_first(samples, limits.in_flight)))
    seconds, processor = time.monotonic() - started, time.process_time() - processor
    by_id = {record.sample_id: record for record in records}
    return SideResults([result(by_id[sample.sample_id]) for sample in samples], seconds, processor)


def attack_by_textattack(
    python: Path,
    recipe: str,
    samples: Sequence[Sample],
    victim: Probabilities,
    *,
    data_dir: Path,
    vectors: Path,
    masked_lm: Path | None,
    **settings: Any,
) -> SideResults:
    """Return the answers of TextAttack (docs/attacks/parity.md), of an interpreter that has it.

    The victim returns the probabilities of texts; `settings` are further ones of the other process,
    see `textattack_child`; `data_dir` has nltk's data.

    Raises:
        RuntimeError: the process ended without a reply.
    """
    settings |= {
        "recipe": recipe,
        "stop_words": sorted(TEXTFOOLER if recipe == "textfooler" else ENGLISH),
        "vectors": str(vectors.resolve()),
        "masked_lm": None if masked_lm is None else str(masked_lm.resolve()),
    }
    environment = {
        "NLTK_DATA": str(data_dir.resolve() / "nltk"),
        "TA_CACHE_DIR": str(Path(tempfile.gettempdir()) / "textattack-cache"),
        # No download may happen: both sides get their models as folders.
        "HF_HUB_OFFLINE": "1",
    }
    with subprocess.Popen(
        [str(python), str(PROGRAM)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        encoding="utf-8",
        env={**os.environ, **environment},
    ) as process:
        try:
            # The reply to the settings comes when all imports are done.
            _send(process, settings)
            started = time.monotonic()
            texts, labels = ([getattr(s, part) for s in samples] for part in ("text", "label"))
            reply = _send(process, {"texts": texts, "labels": labels})
            while "texts" in reply:
                reply = _send(process, victim(reply["texts"]))
            return SideResults(reply["results"], time.monotonic() - started, reply["processor"])
        finally:
            process.kill()


def _send(process: "subprocess.Popen[str]", content: object) -> dict[str, Any]:
    """Send a line to a process; return its reply."""
    assert process.stdin is not None  # pipes
    assert process.stdout is not None
    with suppress(BrokenPipeError):  # the error below is better
        process.stdin.write(json.dumps(content) + "\n")
        process.stdin.flush()
    line = process.stdout.readline()
    if not line:
        msg = (
            "got no reply from the process with TextAttack, whose error is above; "
            "expected an interpreter that can import textattack 0.3.11"
        )
        raise RuntimeError(msg)
    reply: dict[str, Any] = json.loads(line)
    return reply


def result(record: AttackRecord) -> dict[str, Any]:
    """Return the parts of a record that TextAttack has as well."""
    text = record.adversarial if record.outcome == "succeeded" else None
    return {"outcome": record.outcome, "queries": record.queries, "text": text}


class TimedVictim(ModuleVictim):
    """Our model; `spent` are its seconds of the processor, gradients included."""

    spent = 0.0

    def logits(self, texts: Sequence[Text]) -> Floats:
        """See `Victim`."""
        with self._timed():
            return super().logits(texts)

    def word_weights(self, *arguments: Any, **settings: Any) -> list[list[float]]:
        """See `attacks.engine.WhiteBox`."""
        with self._timed():
            return super().word_weights(*arguments, **settings)

    def flip_gains(self, *arguments: Any, **settings: Any) -> list[list[float]]:
        """See `attacks.engine.WhiteBox`."""
        with self._timed():
            return super().flip_gains(*arguments, **settings)

    @contextmanager
    def _timed(self) -> Iterator[None]:
        started = time.process_time()
        try:
            yield
        finally:
            self.spent += time.process_time() - started
