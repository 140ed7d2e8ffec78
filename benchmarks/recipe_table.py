"""Recipes beside those of TextAttack 0.3.11, on one fine-tuned encoder and the same texts.

    python -m benchmarks.recipe_table --data_dir DIR --corpus sst2 --vectors FILE --out FILE.json
        --ckpt_path runs/NAME/checkpoints/best.ckpt [--python PEER/bin/python] [--samples 300]
        [--recipes pwws,deepwordbug] [--masked_lm FOLDER] [--query_budget N]

For each recipe a row of ours (as `attack` runs it) and one of TextAttack: success, words changed,
queries, seconds, seconds of the processor outside the victim, and the share of the adversarial
texts that is valid (docs/attacks/validity.md: WordNet and the sentence encoder). TextAttack runs in
an interpreter of its own and asks the same weights through a pipe. Both have the same vectors,
sentence encoder, thresholds and masked language model, as what TextAttack takes is a download.
Language models beside that one are left out on both sides, and so are vectors of marks. A text on
which TextAttack ends with an error of its own counts as one without success, and their number
stands beside its name (`broken`).

`--out` has a row as soon as it is done. The same command goes on behind the rows that are there;
when all are, it prints the table. `--corpus` is a name of `CORPORA`, its test split.
"""

import json
import math
import time
from argparse import Namespace
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any, NamedTuple

from scipy.special import softmax

import datamodules
import lit_modules
from app.attack.attack_evaluator import CHOICE
from app.runs import atomic
from app.training.join import labelled_texts
from attacks.composition import Attack
from attacks.constraints.sentence_similarity import SentenceSimilarity
from attacks.digests import file_digest
from attacks.document import Candidate, Document
from attacks.engine import Engine, Limits, longest_first
from attacks.goals import Floats
from attacks.journal import abridge, differences
from attacks.outcome import Sample, words_changed
from attacks.recipe_settings import RecipeSettings
from attacks.recipes import build, find_recipe
from attacks.resources.catalogue import Resources
from attacks.resources.sentence_encoders import find_encoder
from attacks.resources.stop_words import ENGLISH, TEXTFOOLER
from attacks.summary import IntervalEstimate, mean, wilson
from attacks.validity.checks import Checks, ValidityLimits
from attacks.victims.kinds import ModuleVictim, fastest_batch
from benchmarks.command import check_there, command, line, table
from benchmarks.recipe_parity import vectors_of_words
from benchmarks.textattack_process import RECIPES, TextAttackProcess
from datamodules.batching.sampler import permutation
from text import Text

CORPORA = {"sst2": datamodules.SST2, "ag_news": datamodules.AGNews, "reviews": datamodules.Reviews}
ORDER = (
    *("pwws", "textfooler", "deepwordbug", "textbugger", "pruthi", "kuleshov", "hard-label"),
    *("input-reduction", "random", "a2t", "hotflip", "checklist", "morpheus", "bad-characters"),
    *("bert-attack", "bae", "clare", "pso", "alzantot", "faster-alzantot", "iga"),
)
"""The recipes, those first that say most for their time."""
LACKS = {
    "hard-label": "no such recipe",
    "random": "no such recipe",
    "a2t": "asks for gradients of a model of transformers",
    "hotflip": "asks for gradients of a model of words",
}
"""The reason that a recipe has no row of TextAttack."""
SIDES = ("ours", "TextAttack")
HEAD = ("recipe", "side", "success", "words changed", "queries", "s", "s outside", "valid")
_BATCH = 32
"""Texts of a forward pass in TextAttack."""


class Clocked(ModuleVictim):
    """A victim that counts its seconds of the processor, gradients included."""

    spent = 0.0

    def logits(self, texts: Sequence[Text]) -> Floats:
        """See `Victim`."""
        with self._counted():
            return super().logits(texts)

    def word_weights(
        self, documents: Sequence[Document], *, compat: str = "none"
    ) -> list[list[float]]:
        """See `attacks.engine.WhiteBox`."""
        with self._counted():
            return super().word_weights(documents, compat=compat)

    def flip_gains(
        self, documents: Sequence[Document], candidates: Sequence[Sequence[Candidate]]
    ) -> list[list[float]]:
        """See `attacks.engine.WhiteBox`."""
        with self._counted():
            return super().flip_gains(documents, candidates)

    @contextmanager
    def _counted(self) -> Iterator[None]:
        started = time.process_time()
        try:
            yield
        finally:
            self.spent += time.process_time() - started


class Rows:
    """The rows of a table in a file.

    Args:
        path: of the file.
        about: what all its rows depend on.

    Raises:
        ValueError: it has rows of other settings.
    """

    def __init__(self, path: Path, about: dict[str, Any]) -> None:
        self.path, self.about = path, about
        self.rows: dict[str, dict[str, Any]] = {}
        if path.is_file():
            content = json.loads(path.read_text("utf-8"))
            if other := differences(content["about"], about):
                msg = (
                    f"got {path} with rows of other settings ({abridge(other)}), expected the "
                    "same, to go on: give another --out"
                )
                raise ValueError(msg)
            self.rows = content["rows"]

    def add(self, name: str, side: str, row: dict[str, Any]) -> None:
        """Writes a row."""
        self.rows[f"{name} {side}"] = row
        content = {"about": self.about, "rows": self.rows}
        atomic.write_text(self.path, json.dumps(content, indent=2) + "\n")

    def has(self, name: str, side: str) -> bool:
        """Returns True for a row that is there."""
        return f"{name} {side}" in self.rows

    def table(self) -> str:
        """Returns the rows as Markdown, with their intervals."""
        places = {f"{name} {side}": (name, side) for name in ORDER for side in SIDES}
        found = [cells(*places[key], self.rows[key]) for key in places if key in self.rows]
        return table(HEAD, found)


def cells(name: str, side: str, row: dict[str, Any]) -> list[str]:
    """Returns a row of the table."""
    if "lacks" in row:
        return [name, side, str(row["lacks"]), *[""] * 5]
    broken = row.get("broken")
    return [
        *(
            name,
            f"{side}, {broken} broken" if broken else side,
            shown(row["success"], 3),
            shown(row["words_changed"], 2),
        ),
        *(shown(row["queries"], 0), f"{row['seconds']:.0f}", f"{row['outside']:.1f}"),
        shown(row["valid"], 2),
    ]


def shown(one: dict[str, float] | None, digits: int) -> str:
    """Returns an estimate with its interval."""
    if one is None:
        return "-"
    low, value, high = (f"{one[key]:.{digits}f}" for key in ("low", "value", "high"))
    return f"{value} [{low}, {high}]"


def chosen(given: Namespace) -> list[Sample]:
    """Returns the texts that `attack --attack.num_samples N` would draw."""
    kind: Any = CORPORA[given.corpus]
    corpus = kind() if given.corpus == "reviews" else kind(data_dir=str(given.data_dir))
    corpus.prepare_data()
    corpus.setup("test")
    examples = corpus.examples("test")
    order = permutation(len(examples), CHOICE).tolist()[: given.samples]
    found = labelled_texts([examples[i] for i in order])
    return [Sample(sample_id=i, text=text, label=label) for i, text, label in found]


def composed(name: str, resources: Resources) -> Attack:
    """Returns the recipe without language models that are no masked one of its candidates."""
    fluency = 0.0 if "fluency" in find_recipe(name).settings else None
    return build(RecipeSettings(recipe=name, fluency=fluency), resources)


def needs_model(name: str) -> bool:
    """Returns True for a recipe that takes its words from a masked language model."""
    recipe = find_recipe(name)
    return "masked-lm" in recipe.needs and "fluency" not in recipe.settings


class Bench:
    """Attacks the same texts with any recipe, from both sides.

    Args:
        given: the options.
        module: the victim.
        samples: the texts.
    """

    def __init__(
        self, given: Namespace, module: lit_modules.TaskModule, samples: Sequence[Sample]
    ) -> None:
        self.given, self.module, self.samples = given, module, samples
        self.vectors = vectors_of_words(given.vectors)
        self.resources = Resources(given.data_dir, vectors=self.vectors, masked_lm=given.masked_lm)
        self.checks = Checks(self.resources.wordnet(), encoder=self.resources.sentence_encoder())

    def row(self, name: str, side: str) -> dict[str, Any]:
        """Returns the figures of a recipe, of one side."""
        attack = composed(name, self.resources)
        found = self._ours(attack) if side == SIDES[0] else self._theirs(name, attack)
        row = row_of(found.answers, self.samples, self.checks)
        row |= {"seconds": found.seconds, "outside": found.outside}
        if needs_model(name):
            row["masked_lm"] = self.given.masked_lm.name
        return row

    def _ours(self, attack: Attack) -> "Answered":
        victim = Clocked(self.module, batch_size=fastest_batch(self.module, 256))
        limits = Limits(query_budget=self.given.query_budget)
        started, processor = time.monotonic(), time.process_time()
        engine = Engine(attack, victim, limits=limits)
        records = list(engine.run(longest_first(self.samples, limits.in_flight)))
        seconds, processor = time.monotonic() - started, time.process_time() - processor
        by_id = {one.sample_id: one for one in records}
        answers = [
            {"outcome": one.outcome, "queries": one.queries, "text": one.adversarial}
            for one in (by_id[sample.sample_id] for sample in self.samples)
        ]
        return Answered(answers, seconds, processor - victim.spent)

    def _theirs(self, name: str, attack: Attack) -> "Answered":
        given, victim = self.given, Clocked(self.module, batch_size=_BATCH)
        model = given.masked_lm if needs_model(name) else None
        settings = {
            "recipe": name,
            "exact": False,
            "seed": 0,
            "stop_words": sorted(TEXTFOOLER if name == "textfooler" else ENGLISH),
            "distance": 0.5,
            "query_budget": given.query_budget,
            "vectors": str(self.vectors.resolve()),
            "masked_lm": None if model is None else str(model.resolve()),
            "encoder": encoder_settings(attack),
        }
        with TextAttackProcess(given.python, RECIPES, settings, data_dir=given.data_dir) as process:
            process.wait()
            started = time.monotonic()
            heard = process.attack(
                self.samples, lambda texts: softmax(victim.logits(texts), 1).tolist()
            )
            return Answered(heard["results"], time.monotonic() - started, heard["processor"])


class Answered(NamedTuple):
    """The answers of one side.

    Attributes:
        answers: outcome, queries and text, in the order of the samples.
        seconds: by the wall clock.
        outside: of the processor, outside the victim.
    """

    answers: list[dict[str, Any]]
    seconds: float
    outside: float


def encoder_settings(attack: Attack) -> dict[str, Any] | None:
    """Returns the sentence encoder of an attack as TextAttack takes it; None without one."""
    for one in attack.constraints:
        if isinstance(one, SentenceSimilarity):
            return {
                "folder": str(find_encoder()),
                "threshold": one.minimum,
                "metric": one.metric,
                "window_size": one.window,
                "compare_against_original": one.against == "original",
                "skip_text_shorter_than_window": one.skip_short,
            }
    return None


def row_of(
    answers: Sequence[dict[str, Any]], samples: Sequence[Sample], checks: Checks
) -> dict[str, Any]:
    """Returns the figures of a row.

    Args:
        answers: in the order of the samples.
        samples: the texts.
        checks: of validity.
    """
    attacked = [one for one in answers if one["outcome"] != "skipped"]
    won = [
        (sample.text, one["text"])
        for one, sample in zip(answers, samples, strict=True)
        if one["outcome"] == "succeeded"
    ]
    limits = ValidityLimits()
    valid = sum(not one.failures(limits) for one in checks.measure(won)) if won else 0
    found: dict[str, IntervalEstimate | None] = {
        "success": wilson(len(won), len(attacked)) if attacked else None,
        "words_changed": mean([_changed(*pair) for pair in won], top=1.0),
        "queries": mean([float(one["queries"]) for one in attacked]),
        "valid": wilson(valid, len(won)) if won else None,
    }
    rows = {key: None if one is None else finite(one) for key, one in found.items()}
    broken = sum(one["outcome"] == "broken" for one in answers)
    return {**rows, "attacked": len(attacked), "broken": broken}


def finite(one: IntervalEstimate) -> dict[str, float]:
    """Returns an estimate as JSON has it: of a single sample no end is known."""
    return {key: one.value if math.isinf(value) else value for key, value in asdict(one).items()}


def _changed(before: Text, after: Text) -> float:
    first, last = Document.of(before), Document.of(after)
    return min(1.0, words_changed(first, last, compat="none") / max(len(first), 1))


def missing(name: str, side: str, given: Namespace) -> str | None:
    """Returns the reason that a row cannot be made; None if it can."""
    if needs_model(name) and given.masked_lm is None:
        return "needs a masked language model"
    if side == "TextAttack":
        return LACKS.get(name)
    return None


def main(argv: Sequence[str] | None = None) -> None:
    """Makes the rows that are missing, and prints the table."""
    parser = command(__doc__)
    parser.add_argument("--data_dir", type=Path, required=True, help="corpora and resources")
    parser.add_argument("--corpus", choices=sorted(CORPORA), default="sst2")
    parser.add_argument("--ckpt_path", type=Path, required=True, help="the victim")
    parser.add_argument("--vectors", type=Path, required=True, help="word vectors")
    parser.add_argument("--masked_lm", type=Path, help="folder of a masked language model")
    parser.add_argument("--python", type=Path, help="interpreter with TextAttack")
    parser.add_argument("--samples", type=int, default=300, help="of the test split")
    parser.add_argument("--query_budget", type=int, help="for each text; none if not given")
    parser.add_argument("--recipes", default=",".join(ORDER), help="in their order")
    parser.add_argument("--out", type=Path, required=True, help="file of the rows, JSON")
    given = parser.parse_args(argv)
    recipes = given.recipes.split(",")
    if unknown := [name for name in recipes if name not in ORDER]:
        parser.error(f"got --recipes {','.join(unknown)}, expected some of {', '.join(ORDER)}")
    check_there(parser, given.ckpt_path, given.vectors, given.masked_lm, given.python)
    about = {
        "corpus": given.corpus,
        "samples": given.samples,
        "checkpoint": file_digest(given.ckpt_path),
        "vectors": file_digest(given.vectors),
        "query_budget": given.query_budget,
    }
    rows = Rows(given.out, about)
    module = lit_modules.load(given.ckpt_path)
    bench = Bench(given, module, chosen(given))
    for name in recipes:
        for side in SIDES if given.python is not None else SIDES[:1]:
            if rows.has(name, side):
                continue
            lacks = missing(name, side, given)
            row = bench.row(name, side) if lacks is None else {"lacks": lacks}
            if not (lacks and needs_model(name)):  # a later call may have the model
                rows.add(name, side, row)
            print(line(cells(name, side, row)), flush=True)
    print(f"\n{rows.table()}")


if __name__ == "__main__":
    main()
