"""Our recipes and those of TextAttack 0.3.11, on one fine-tuned encoder and the same texts.

Each recipe has a row of ours (with the settings of `attack`) and one of TextAttack: success, words
changed, queries, seconds, seconds of the processor outside the victim, and the share of valid
adversarial texts (docs/attacks/validity.md: WordNet and the sentence encoder). Both sides have the
same vectors, sentence encoder, thresholds and masked language model; other language models and
vectors of marks are left out. A text on which TextAttack ends with an error of its own counts as
one without success, and the row shows their number (`broken`).

Each row is written to `--out` when it is measured; the same command resumes after the rows there.
"""

import json
import math
from argparse import ArgumentParser, Namespace
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from scipy.special import softmax

import datamodules
import lit_modules
from attacks.composition import Attack
from attacks.constraints.sentence_similarity import SentenceSimilarity
from attacks.digests import file_digest
from attacks.document import Document
from attacks.engine import Limits
from attacks.outcome import Sample, words_changed
from attacks.recipe_settings import RecipeSettings
from attacks.recipes import build, find_recipe
from attacks.resources.catalogue import Resources
from attacks.resources.sentence_encoders import find_encoder
from attacks.validity.checks import Checks, ValidityLimits
from attacks.victims.kinds import fastest_batch
from benchmarks.command import check_paths, line, table
from benchmarks.parity.recipes import checked_recipes, vectors_of_words
from benchmarks.parity.sides import TimedVictim, attack_by_engine, attack_by_textattack
from datamodules.batching.sampler import permutation
from datamodules.labelled import TextDataModule
from datamodules.labelled_texts import labelled_texts
from measure.corpus_split import CHOICE
from run_files import atomic
from text import Text
from text.estimates import IntervalEstimate, mean, wilson
from text.subjects import differences, joined

CORPORA = {"sst2": datamodules.SST2, "ag_news": datamodules.AGNews, "reviews": datamodules.Reviews}
ORDER = (
    *("pwws", "textfooler", "deepwordbug", "textbugger", "pruthi", "kuleshov", "hard-label"),
    *("input-reduction", "random", "a2t", "hotflip", "checklist", "morpheus", "bad-characters"),
    *("bert-attack", "bae", "clare", "pso", "alzantot", "faster-alzantot", "iga"),
    *("leap", "limeattack", "charmer", "viper", "zeroe"),
)
"""The recipes, the most informative for their time first."""
LACKS = {
    **dict.fromkeys(
        ("hard-label", "random", "limeattack", "charmer", "viper", "zeroe"), "no such recipe"
    ),
    "a2t": "asks for gradients of a model of transformers",
    "hotflip": "asks for gradients of a model of words",
}
"""The reason that a recipe has no row of TextAttack."""
SIDES = ("ours", "TextAttack")
HEAD = ("recipe", "side", "success", "words changed", "queries", "s", "s outside", "valid")
_BATCH = 32
"""Texts of a forward pass in TextAttack."""


class TableFile:
    """The rows of a table in a file, with the settings that all of them depend on.

    Raises:
        ValueError: it has rows of other settings.
    """

    def __init__(self, path: Path, settings: dict[str, Any]) -> None:
        self.path, self.about = path, settings
        self.rows: dict[str, dict[str, Any]] = {}
        if path.is_file():
            content = json.loads(path.read_text("utf-8"))
            # Rows of other weights or texts must not share a table.
            if other := differences(content["about"], settings):
                msg = (
                    f"got {path} with rows of other settings ({joined(other)}), expected the same, "
                    "to go on: give another --out"
                )
                raise ValueError(msg)
            self.rows = content["rows"]

    def add(self, name: str, side: str, row: dict[str, Any]) -> None:
        """Write a row."""
        self.rows[f"{name} {side}"] = row
        content = {"about": self.about, "rows": self.rows}
        atomic.write_text(self.path, json.dumps(content, indent=2) + "\n")

    def has(self, name: str, side: str) -> bool:
        """Return True for a row that is measured."""
        return f"{name} {side}" in self.rows

    def table(self) -> str:
        """Return the rows as Markdown, with their intervals."""
        order = [(name, side) for name in ORDER for side in SIDES if self.has(name, side)]
        return table(HEAD, [cells(*key, self.rows[" ".join(key)]) for key in order])


def cells(name: str, side: str, row: dict[str, Any]) -> list[str]:
    """Return a row of the table."""
    if "lacks" in row:
        return [name, side, str(row["lacks"]), *[""] * 5]
    broken = row.get("broken")
    return [
        *(
            name,
            f"{side}, {broken} broken" if broken else side,
            interval(row["success"], 3),
            interval(row["words_changed"], 2),
        ),
        *(interval(row["queries"], 0), f"{row['seconds']:.0f}", f"{row['outside']:.1f}"),
        interval(row["valid"], 2),
    ]


def interval(estimate: dict[str, float] | None, digits: int) -> str:
    """Return an estimate with its interval."""
    if estimate is None:
        return "-"
    low, value, high = (f"{estimate[key]:.{digits}f}" for key in ("low", "value", "high"))
    return f"{value} [{low}, {high}]"


def open_corpus(name: str, data_dir: Path) -> TextDataModule:
    """Return a corpus with all its splits."""
    kind: Any = CORPORA[name]
    # The built-in corpus needs no directory.
    corpus: TextDataModule = kind() if name == "reviews" else kind(data_dir=str(data_dir))
    corpus.prepare_data()
    corpus.setup()
    return corpus


def draw_samples(corpus: TextDataModule, number: int) -> list[Sample]:
    """Return the texts that `attack --num_samples N` would draw."""
    examples = corpus.examples("test")
    # The order of `attack`, so that rows can be compared with its records.
    order = permutation(len(examples), CHOICE).tolist()[:number]
    texts = labelled_texts([examples[i] for i in order])
    return [Sample(sample_id=i, text=text, label=label) for i, text, label in texts]


def needs_model(name: str) -> bool:
    """Return True for a recipe that takes its words from a masked language model."""
    recipe = find_recipe(name)
    return "masked-lm" in recipe.needs and "fluency" not in recipe.settings


class Bench:
    """Attacks the same texts with any recipe, from both sides."""

    def __init__(
        self, options: Namespace, module: lit_modules.TaskModule, corpus: TextDataModule
    ) -> None:
        self.options, self.module, self.corpus = options, module, corpus
        self.samples = draw_samples(corpus, options.samples)
        self.vectors = vectors_of_words(options.vectors)
        self.resources = Resources(
            options.data_dir, vectors=self.vectors, masked_lm=options.masked_lm
        )
        self.checks = Checks(self.resources.wordnet(), encoder=self.resources.sentence_encoder())

    def row(self, name: str, side: str) -> dict[str, Any]:
        """Return the figures of a recipe, of one side."""
        # Without language models other than the masked one of its candidates.
        fluency = 0.0 if "fluency" in find_recipe(name).settings else None
        attack = build(RecipeSettings(recipe=name, fluency=fluency), self.resources)
        options, ours = self.options, side == SIDES[0]
        # TextAttack has a fixed batch size; ours is what `attack` would choose.
        batch_size = fastest_batch(self.module, 256) if ours else _BATCH
        victim = TimedVictim(self.module, batch_size=batch_size)
        if ours:
            limits = Limits(query_budget=options.query_budget)
            attack = attack.learn(
                lambda: (row[1:] for row in labelled_texts(self.corpus.examples("train")))
            )
            answers = attack_by_engine(attack, victim, self.samples, limits)
        else:
            answers = attack_by_textattack(
                options.python,
                name,
                self.samples,
                lambda texts: softmax(victim.logits(texts), 1).tolist(),
                data_dir=options.data_dir,
                vectors=self.vectors,
                masked_lm=options.masked_lm if needs_model(name) else None,
                encoder=encoder_settings(attack),
                query_budget=options.query_budget,
            )
        row = row_of(answers.results, self.samples, self.checks)
        # TextAttack's process has no victim; ours has.
        outside = answers.processor - (victim.spent if ours else 0.0)
        row |= {"seconds": answers.seconds, "outside": outside}
        if needs_model(name):
            row["masked_lm"] = options.masked_lm.name
        return row


def encoder_settings(attack: Attack) -> dict[str, Any] | None:
    """Return the arguments of TextAttack's sentence encoder for an attack; None without one."""
    for constraint in attack.constraints:
        if isinstance(constraint, SentenceSimilarity):
            return {
                "folder": str(find_encoder()),
                "threshold": constraint.minimum,
                "metric": constraint.metric,
                "window_size": constraint.window,
                "compare_against_original": constraint.against == "original",
                "skip_text_shorter_than_window": constraint.skip_short,
            }
    return None


def row_of(
    results: Sequence[dict[str, Any]], samples: Sequence[Sample], checks: Checks
) -> dict[str, Any]:
    """Return the figures of a row, from the results of one side in the order of the samples."""
    attacked = [result for result in results if result["outcome"] != "skipped"]
    pairs = [
        (sample.text, result["text"])
        for result, sample in zip(results, samples, strict=True)
        if result["outcome"] == "succeeded"
    ]
    limits = ValidityLimits()
    measured = checks.measure(pairs) if pairs else []
    valid = sum(not validity.failures(limits) for validity in measured)
    estimates: dict[str, IntervalEstimate | None] = {
        "success": wilson(len(pairs), len(attacked)) if attacked else None,
        "words_changed": mean([_changed(*pair) for pair in pairs], top=1.0),
        "queries": mean([float(result["queries"]) for result in attacked]),
        "valid": wilson(valid, len(pairs)) if pairs else None,
    }
    row = {name: estimate and finite(estimate) for name, estimate in estimates.items()}
    broken = sum(result["outcome"] == "broken" for result in results)
    return {**row, "attacked": len(attacked), "broken": broken}


def finite(estimate: IntervalEstimate) -> dict[str, float]:
    """Return an estimate for JSON: a single sample has an infinite interval."""
    value = estimate.value
    return {key: value if math.isinf(end) else end for key, end in asdict(estimate).items()}


def _changed(before: Text, after: Text) -> float:
    first, last = Document.of(before), Document.of(after)
    # Insertions may exceed the number of words.
    return min(1.0, words_changed(first, last, compat="none") / max(len(first), 1))


def missing(name: str, side: str, masked_lm: Path | None) -> str | None:
    """Return the reason that a row cannot be made; None if it can."""
    if needs_model(name) and masked_lm is None:
        return "needs a masked language model"
    if side == "TextAttack":
        return LACKS.get(name)
    return None


def add_options(parser: ArgumentParser) -> None:
    """Add the options of the command."""
    parser.add_argument("--data_dir", type=Path, required=True, help="corpora and resources")
    parser.add_argument("--corpus", choices=sorted(CORPORA), default="sst2")
    parser.add_argument("--ckpt_path", type=Path, required=True, help="the victim")
    parser.add_argument("--vectors", type=Path, required=True, help="word vectors")
    parser.add_argument("--masked_lm", type=Path, help="folder of a masked language model")
    parser.add_argument("--python", type=Path, help="interpreter with TextAttack")
    parser.add_argument("--samples", type=int, default=300, help="of the test split")
    parser.add_argument("--query_budget", type=int, help="for each text (default: no limit)")
    parser.add_argument("--recipes", default=",".join(ORDER), help="in their order")
    parser.add_argument("--out", type=Path, required=True, help="file of the rows, JSON")


def run(options: Namespace) -> int:
    """Make the rows that are missing, and print the table."""
    recipes = checked_recipes(options.recipes, ORDER)
    check_paths(options.ckpt_path, options.vectors, options.masked_lm, options.python)
    settings = {
        "corpus": options.corpus,
        "samples": options.samples,
        "checkpoint": file_digest(options.ckpt_path),
        "vectors": file_digest(options.vectors),
        "query_budget": options.query_budget,
    }
    rows = TableFile(options.out, settings)
    module = lit_modules.load(options.ckpt_path)
    bench = Bench(options, module, open_corpus(options.corpus, options.data_dir))
    for name in recipes:
        for side in SIDES if options.python is not None else SIDES[:1]:
            if rows.has(name, side):
                continue
            lacks = missing(name, side, options.masked_lm)
            row = bench.row(name, side) if lacks is None else {"lacks": lacks}
            if not (lacks and needs_model(name)):  # a later call may have the model
                rows.add(name, side, row)
            print(line(cells(name, side, row)), flush=True)
    print(f"\n{rows.table()}")
    return 0
