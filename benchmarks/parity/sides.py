"""One attack on the same texts by our engine, and by TextAttack 0.3.11."""

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from attacks.composition import Attack
from attacks.document import Candidate, Document
from attacks.engine import Engine, Limits, longest_first
from attacks.goals import Floats
from attacks.outcome import AttackRecord, Sample
from attacks.victims.kinds import ModuleVictim, Victim
from benchmarks.parity.textattack_process import Probabilities, TextAttackProcess
from text import Text
from text.stop_words import ENGLISH, TEXTFOOLER


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
    """Return the answers of TextAttack, of an interpreter that has it.

    The victim returns the probabilities of texts; `settings` are further ones of the other process.
    """
    settings |= {
        "recipe": recipe,
        "stop_words": sorted(TEXTFOOLER if recipe == "textfooler" else ENGLISH),
        "vectors": str(vectors.resolve()),
        "masked_lm": None if masked_lm is None else str(masked_lm.resolve()),
    }
    with TextAttackProcess(python, settings, data_dir=data_dir) as process:
        process.wait()
        started = time.monotonic()
        reply = process.attack(samples, victim)
        return SideResults(reply["results"], time.monotonic() - started, reply["processor"])


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

    def word_weights(
        self, documents: Sequence[Document], *, compat: str = "none"
    ) -> list[list[float]]:
        """See `attacks.engine.WhiteBox`."""
        with self._timed():
            return super().word_weights(documents, compat=compat)

    def flip_gains(
        self, documents: Sequence[Document], candidates: Sequence[Sequence[Candidate]]
    ) -> list[list[float]]:
        """See `attacks.engine.WhiteBox`."""
        with self._timed():
            return super().flip_gains(documents, candidates)

    @contextmanager
    def _timed(self) -> Iterator[None]:
        started = time.process_time()
        try:
            yield
        finally:
            self.spent += time.process_time() - started
