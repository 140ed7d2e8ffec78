"""Recorded answers of TextAttack 0.3.11 on the fixed victim of `peer/README.md`.

Runs PWWS and the word level of TextFooler with `compat="textattack"` over the samples of the
recorded answers, and prints how many agree in outcome, in billed queries and in adversarial text,
each difference, and the time next to the reference's. Exits with 1 where less agrees than required.

The clock runs from when vectors, WordNet and tagger are loaded to the last record, in the reference
as well, and includes the victim. Seconds of the processor are those of this process alone, also on
a busy machine. The reference was measured on an idle one.
"""

import json
import math
import re
import time
from argparse import ArgumentParser, Namespace
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

from attacks.composition import Attack
from attacks.engine import Engine, Limits
from attacks.goals import make_goal
from attacks.outcome import AttackRecord, Sample
from attacks.recipe_settings import RecipeSettings
from attacks.recipes import build
from attacks.resources.catalogue import Resources
from attacks.victims.kinds import CallableVictim
from benchmarks.command import COMMON, save
from benchmarks.parity.sides import result
from benchmarks.timing import Times, time_work
from text import Text
from text.bounded_files import json_lines

GLOVE = "glove/glove.6B.50d.top10k.txt.gz"
RECORDED = {
    "pwws": ("pwws_0_300.jsonl", 4.9),
    "textfooler": ("textfooler_glove50_0_300.jsonl", 6.4),
}
"""The reference's answers, and the seconds it took for them on one core."""
REQUIRED = {"outcome": 0.99, "queries": 0.95, "text": 0.95}
"""Share of samples that has to agree."""
_WORD = re.compile(r"[a-z']+")


class FixedVictim:
    """The victim of `victim.json`: the sum of its words' weights; `spent` are seconds so far."""

    def __init__(self, path: Path) -> None:
        content = json.loads(path.read_text())
        self.weights: dict[str, float] = content["weights"]
        self.bias: float = content["bias"]
        self.spent = 0.0

    def __call__(self, texts: Sequence[Text]) -> list[list[float]]:
        """Return probabilities of the two classes."""
        started = time.process_time()
        weight = self.weights.get
        probabilities = []
        for text in texts:
            # A pair of texts is read as one text.
            joined = text if isinstance(text, str) else " ".join(text)
            # Exact, as in the recorded answers: equal words in another order are equal scores.
            weights = [weight(word, 0.0) for word in _WORD.findall(joined.lower())]
            z = math.fsum([self.bias, *weights])
            positive = 1 / (1 + math.exp(-z))
            probabilities.append([1 - positive, positive])
        self.spent += time.process_time() - started
        return probabilities


@dataclass(frozen=True, kw_only=True)
class RecordedComparison:
    """Comparison of one attack with the reference; seconds are the least of all repeats.

    `agreement` counts the samples that agree in outcome, queries and text; `differences` are the
    others with both answers; `outside` seconds of the processor outside the victim.
    """

    attack: str
    samples: int
    agreement: dict[str, int]
    differences: list[dict[str, Any]]
    seconds: float
    processor: float
    outside: float
    reference_seconds: float

    @property
    def enough(self) -> bool:
        """True where as much agrees as is required."""
        return all(self.agreement[name] >= REQUIRED[name] * self.samples for name in REQUIRED)

    def lines(self) -> list[str]:
        """Return the figures in words."""
        shares = ", ".join(
            f"{name} {count}/{self.samples}" for name, count in self.agreement.items()
        )
        return [
            f"{self.attack}: {shares}",
            f"  {self.seconds:.2f} s wall, {self.processor:.2f} s processor; reference "
            f"{self.reference_seconds} s: {self.reference_seconds / self.seconds:.1f} times faster",
            f"  {self.outside:.2f} s of the processor outside the victim: 1 / "
            f"{self.reference_seconds / self.outside:.0f} of all that the reference took",
            *(f"  {difference}" for difference in self.differences),
        ]


def compose(name: str, resources: Resources) -> Attack:
    """Return the attack of the recorded answers; TextFooler without its sentence encoder."""
    # 0 leaves the sentence encoder out, as in the recorded attack.
    similarity = 0.0 if name == "textfooler" else None
    settings = RecipeSettings(recipe=name, compat="textattack", similarity=similarity)
    return build(settings, resources, goal=make_goal(compat="textattack"))


def read_samples(path: Path, rows: Sequence[int]) -> list[Sample]:
    """Return some rows of a table of sentences and labels."""
    lines = path.read_text(encoding="utf-8").split("\n")[1:]
    # The label is in the last column.
    pairs = [line.rsplit("\t", 1) for line in lines if line]
    return [Sample(sample_id=row, text=pairs[row][0], label=int(pairs[row][1])) for row in rows]


def compare(
    name: str,
    data_dir: Path,
    peer: Path,
    *,
    repeats: int = 1,
    in_flight: int = 64,
    expected: Path | None = None,
) -> RecordedComparison:
    """Run one attack and compare it with the recorded answers of `peer`.

    Each repetition begins with nothing in memory but files. `expected` are other answers than the
    recorded ones, of the same form.
    """
    recorded, reference_seconds = RECORDED[name]
    path = expected or peer / recorded
    theirs = {line["row"]: line for _, line in json_lines(path, "recorded answers")}
    samples = read_samples(data_dir / "sst2_sentences" / "test.tsv", list(theirs))
    times, records, outside = list[Times](), list[AttackRecord](), list[float]()
    for _ in range(repeats):
        resources = Resources(data_dir, vectors=data_dir / GLOVE)
        # Loads vectors and neighbours before the clock starts.
        resources.neighbours().of("the", 50)
        attack = compose(name, resources)
        # New for each repeat, so that `spent` counts one run.
        fixed = FixedVictim(peer / "victim.json")
        victim = CallableVictim(fixed, outputs="probabilities")
        engine = Engine(attack, victim, limits=Limits(in_flight=in_flight))
        records = []
        times.append(time_work(partial(records.extend, engine.run(samples))))
        outside.append(times[-1].processor - fixed.spent)
    agreement = dict.fromkeys(REQUIRED, 0)
    differences = []
    for record in sorted(records, key=lambda record: record.sample_id):
        ours, other = result(record), theirs[record.sample_id]
        for part in REQUIRED:
            agreement[part] += ours[part] == other[part]
        if any(ours[part] != other[part] for part in REQUIRED):
            differences.append({"row": record.sample_id, "ours": ours, "reference": other})
    return RecordedComparison(
        attack=name,
        samples=len(samples),
        agreement=agreement,
        differences=differences,
        seconds=min(time.wall for time in times),
        processor=min(time.processor for time in times),
        outside=min(outside),
        reference_seconds=reference_seconds,
    )


def add_options(parser: ArgumentParser) -> None:
    """Add the options of the command."""
    parser.add_argument("--data_dir", type=Path, required=True, help="data directory")
    parser.add_argument("--peer", type=Path, help="default: `peer` next to the data")
    parser.add_argument("--in_flight", type=int, default=64, help="samples attacked together")
    parser.add_argument("--repeats", **{**COMMON["repeats"], "default": 3})
    parser.add_argument("--out", **COMMON["out"])


def run(options: Namespace) -> int:
    """Compare both attacks; return 1 where less agrees than is required."""
    peer = options.peer or options.data_dir.parent / "peer"
    settings = {"repeats": options.repeats, "in_flight": options.in_flight}
    comparisons = [compare(name, options.data_dir, peer, **settings) for name in RECORDED]
    for comparison in comparisons:
        print("\n".join(comparison.lines()))
    save(options.out, [asdict(comparison) for comparison in comparisons])
    return 0 if all(comparison.enough for comparison in comparisons) else 1
