"""One part of an attack: every N-th of its samples, with files of its own and no figures."""

from collections.abc import Mapping, Sequence
from typing import Any

from app.attack.attack_evaluator import AttackEvaluator
from app.attack.attack_files import AttackFiles
from app.attack.attack_settings import AttackSettings, Planned
from app.runs.recorder import Recorder
from app.runs.run_directory import RunDirectory
from app.runs.sample_records import Record
from app.runs.shard import Shard
from app.training.stand_in import WholeSplit
from attacks.goals import Score
from attacks.outcome import AttackRecord, Sample
from datamodules.batching.examples import Example
from lit_modules import TaskModule


class ShardFiles(AttackFiles):
    """The files of one part of an attack: `NAME.shard-I-of-N.jsonl` and `.json`.

    Args:
        run: the run.
        name: of the files of the whole attack.
        shard: which part.
    """

    outcome_key = "shard"

    def __init__(self, run: RunDirectory, name: str, shard: Shard) -> None:
        super().__init__(run, f"{name}.{shard.suffix()}")
        self.shard = shard

    def end(self, about: Mapping[str, Any], seconds: float, found: Mapping[str, Any]) -> None:
        """Writes what `attack merge` has to know.

        Args:
            about: the settings of the attack.
            seconds: of all starts.
            found: see `ShardEvaluator`.
        """
        self._write(about, seconds, found)

    def found(self) -> dict[str, Any] | None:
        """Returns what `end` has written; None before."""
        found = self._content().get(self.outcome_key)
        return found if isinstance(found, dict) else None


class ShardEvaluator(AttackEvaluator):
    """Attacks one part of the samples.

    Beside settings and seconds, its `.json` has what the whole attack has to file: the number of
    samples of all parts, the facts of the page, and what `results.json` says of run and evaluation.

    Args:
        classifier: the victim.
        planned: the attack.
        settings: with the shard.
        run: keeps the files; None keeps none.
        about: all that the records depend on, but for the samples.
        facts: of the model, for the page, by name.
        place: of the attack in its command.
        recorder: of the run; None where nothing is kept.
    """

    def __init__(
        self,
        classifier: TaskModule,
        planned: Planned,
        settings: AttackSettings,
        *,
        run: RunDirectory | None,
        about: Mapping[str, Any],
        facts: Mapping[str, str],
        place: int,
        recorder: Recorder | None,
    ) -> None:
        self.shard = Shard.of(str(settings.shard))
        files = None if run is None else ShardFiles(run, planned.name, self.shard)
        super().__init__(classifier, planned, settings, files=files, about=about, facts=facts)
        self._whole = None if run is None else AttackFiles(run, planned.name)
        self._place, self._recorder = place, recorder
        self._share: frozenset[int] = frozenset()

    def problem(self, about: Mapping[str, Any]) -> str | None:
        """See `AttackEvaluator`; the whole attack must not be there with other settings either."""
        found = super().problem(about)
        return found if found or self._whole is None else self._whole.problem(about)

    def line(self) -> str:
        """Returns what people are told in the place of a table."""
        where = "" if self.files is None else f" in {self.files.outcome}"
        return (
            f"{self.planned.name}: shard {self.shard}, "
            f"{self.shard.size(self.chosen)} of {self.chosen} samples{where} ({self.seconds:.1f} s)"
        )

    def _choose(self, examples: Sequence[Example], data: WholeSplit) -> list[Sample]:
        share = self.shard.take(super()._choose(examples, data))
        self._share = frozenset(sample.sample_id for sample in share)
        return share

    def _former(self) -> list[Record]:
        """Returns its own records, and those of its share that the whole attack has."""
        own = super()._former()
        known = {one["sample_id"] for one in own}
        every = [] if self._whole is None else self._whole.records()
        new = self._share - known
        return [*own, *(one for one in every if one["sample_id"] in new)]

    def _end(
        self, found: list[AttackRecord], score: Score, about: Mapping[str, Any], data: WholeSplit
    ) -> None:
        files, recorder = self.files, self._recorder
        if not isinstance(files, ShardFiles) or recorder is None or not self.trainer.is_global_zero:
            return
        recorder.keep_config()
        before = files.found() or {}
        content = {
            "shard": str(self.shard),
            "place": self._place,
            # Fewer samples than before throw nothing away.
            "chosen": max(self.chosen, int(before.get("chosen", 0))),
            "score": score,
            "target": self.target,
            "classes": self.classifier.require_text()[1],
            "facts": self.facts_of(len(found), data),
            "identity": recorder.identity(self.trainer, self.classifier),
            "evaluation": recorder.circumstances(self.about),
        }
        files.end(about, self.seconds, content)
