"""Certified accuracy as a lower bound of accuracy under published recipes, on the same texts.

    python -m benchmarks.recipe_bounds --run runs/NAME [--recipes pwws deepwordbug ...]
        [--num_samples 1000] [--similarity 0] [--data_dir DIR] [--resources DIR]
    python -m benchmarks.recipe_bounds --run runs/NAME --recorded [--set pwws] [--recipes ...]

For each recipe the texts of the run's test split are certified for the set of the recipe
(docs/robust_words.md), any number of words changed, and attacked by the recipe as published, its
budget included. A certified text that a text of the set changes refutes the certificate: it is
printed, and the command ends with 1. Texts that left the set are counted with the way out.
`--similarity 0` runs recipes without their sentence encoder, which makes them stronger. `--set`
names one set for all recipes, such as that of the training. `--recorded` reads the outcomes of
`attack` on this run instead of attacking anew.
"""

import sys
from argparse import Namespace
from collections import Counter
from collections.abc import Iterator, Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from difflib import SequenceMatcher

from rapidfuzz.distance import OSA

from attacks import attack
from attacks.digests import file_digest
from attacks.outcome import AttackRecord, from_line
from attacks.recipe_settings import RecipeSettings
from attacks.recipes import build, find_recipe
from attacks.resources.catalogue import Resources
from attacks.word_sets import find_sets
from benchmarks.command import command, save, table
from benchmarks.word_sandwich import draw_subjects
from certify.threats import Substitutions
from lit_modules import TaskModule, load
from measure.corpus_split import words_read
from run_files.ledger import attack_ledger
from run_files.run_directory import RunDirectory
from text.word_splitter import WordSplitter

RECIPES = ("pwws", "textfooler", "textbugger", "deepwordbug", "pruthi")


@dataclass
class Bound:
    """Certificates and an attack by one recipe on the same texts.

    Attributes:
        texts: the attacked texts.
        right: positions of texts with a right prediction.
        certified: those of them with a certificate.
        changed: those that the recipe changed.
        outside: those of `changed` whose text is not in the set.
        ways: ways out of the set, with their numbers and one example each.
    """

    texts: list[str]
    right: set[int] = field(default_factory=set)
    certified: set[int] = field(default_factory=set)
    changed: set[int] = field(default_factory=set)
    outside: set[int] = field(default_factory=set)
    ways: Counter[str] = field(default_factory=Counter)
    examples: dict[str, str] = field(default_factory=dict)

    @property
    def broken(self) -> set[int]:
        """Certified texts that a text of the set has changed: there must be none."""
        return (self.certified & self.changed) - self.outside


def ways_out(threat: Substitutions, original: str, changed: str) -> Iterator[tuple[str, str]]:
    """Yield each change that is not in the set: its kind, and the words."""
    old, new = threat.split(original), threat.split(changed)
    read = WordSplitter(threat.words).read
    for kind, start, stop, begin, end in SequenceMatcher(None, old, new, False).get_opcodes():
        before, after = old[start:stop], new[begin:end]
        words = f"{' '.join(before)} -> {' '.join(after)}"
        if kind == "equal" or threat.at(None).contains(" ".join(before), " ".join(after)):
            continue
        if len(after) != len(before):
            yield f"{'fewer' if len(after) < len(before) else 'more'} words", words
            continue
        for pair in zip(before, after, strict=True):
            if not threat.at(None).contains(*pair):
                edits = OSA.distance(*read(pair))
                reason = "a word of one edit that stays" if edits == 1 else "another word"
                yield reason, " -> ".join(pair)


def attacked(
    model: TaskModule,
    samples: list[tuple[str, int]],
    recipe: str,
    resources: Resources,
    similarity: float | None = None,
) -> list[AttackRecord]:
    """Attack texts with their classes by a recipe; its similarity of sentences is as published."""
    has = "similarity" in find_recipe(recipe).settings
    settings = RecipeSettings(recipe=recipe, similarity=similarity if has else None)
    # A copy: a model that has answered is no longer as it was loaded, and gets no certificate.
    victim = deepcopy(model)
    return attack(victim, samples, recipe=build(settings, resources), progress=False).records


def recorded(run: RunDirectory, recipe: str) -> list[AttackRecord]:
    """Return the outcomes of a finished attack on the weights of a run.

    Raises:
        ValueError: there are none, or they are of other weights.
    """
    ledger = attack_ledger(run, recipe)
    lines = ledger.records()
    if not lines or ledger.subject().get("checkpoint") != file_digest(run.chosen):
        msg = (
            f"got {'records of other weights' if lines else 'no records'} in "
            f"{ledger.records_path}, expected those of `attack --run {run.name} --attack {recipe}`"
        )
        raise ValueError(msg)
    return [record for line in lines if (record := from_line(line)).outcome != "error"]


def bound(model: TaskModule, records: Sequence[AttackRecord], threat: Substitutions) -> Bound:
    """Certify the attacked texts for a set, and look their adversarial texts up in it.

    The records are of an attack on this model, which has certificates for such sets.
    """
    outcome = Bound([str(record.text) for record in records])
    certificates = model.text_certifier(threat)(outcome.texts, (None,))
    for index, (certificate, record) in enumerate(zip(certificates, records, strict=True)):
        if certificate.prediction == record.label:
            outcome.right.add(index)
            outcome.certified |= {index} if certificate.holds[0] else set()
        if record.outcome != "succeeded" or not isinstance(record.adversarial, str):
            continue
        outcome.changed.add(index)
        if not threat.contains(outcome.texts[index], record.adversarial):
            outcome.outside.add(index)
            for way, words in ways_out(threat, outcome.texts[index], record.adversarial):
                outcome.ways[way] += 1
                outcome.examples.setdefault(way, words)
    return outcome


def report(bounds: dict[str, Bound]) -> str:
    """Return the tables of all recipes."""
    rows: list[list[object]] = []
    ways: list[list[object]] = []
    for recipe, outcome in bounds.items():
        count = len(outcome.texts)
        shares = (
            f"{100 * len(indices) / count:.1f}"
            for indices in (outcome.right, outcome.certified, outcome.right - outcome.changed)
        )
        left = outcome.outside
        rows.append(
            [
                *(recipe, count, *shares, len(outcome.broken)),
                *(len(outcome.changed), len(left), len(left & outcome.certified)),
            ]
        )
        ways += [[recipe, way, n, outcome.examples[way]] for way, n in outcome.ways.most_common()]
    head = ["recipe", "texts", "clean, %", "certified, %", "under the recipe, %"]
    head += ["certified texts changed in the set", "changed", "left the set", "certified of these"]
    parts = [table(head, rows)]
    if ways:
        parts.append(table(["recipe", "way out of the set", "words", "example"], ways))
    return "\n\n".join(parts)


def main() -> int:
    """Compare certificates with recipes; returns 1 if a certificate was broken."""
    parser = command(__doc__, "run", "data_dir", "out")
    add = parser.add_argument
    add("--recipes", nargs="+", default=RECIPES, metavar="NAME", help="recipes with a set")
    add("--num_samples", type=int, default=1000, help="texts, drawn as `attack` draws them")
    add("--resources", help="folder with resources of attacks (docs/attacks.md)")
    add("--similarity", type=float, help="least similarity of sentences; 0 without an encoder")
    add("--set", help="set of all recipes (default: that of each recipe)")
    add("--recorded", action="store_true", help="read the outcomes of `attack` on the run")
    options: Namespace = parser.parse_args()
    run = RunDirectory(options.run)
    model = load(run.chosen)
    resources = Resources(options.resources)
    words = words_read(model)
    forms = find_sets("canonical", words, resources)
    samples = [] if options.recorded else draw_subjects(forms, options)
    bounds = {}
    for recipe in options.recipes:
        threat = find_sets(options.set or recipe, words, resources)
        records = (
            recorded(run, recipe)
            if options.recorded
            else attacked(model, samples, recipe, resources, options.similarity)
        )
        bounds[recipe] = bound(model, records, threat)
    print(f"any number of words changed\n\n{report(bounds)}")
    broken = {recipe: sorted(outcome.broken) for recipe, outcome in bounds.items()}
    for recipe, indices in broken.items():
        for index in indices:
            print(f"broken, {recipe}: {bounds[recipe].texts[index]}")
    figures = {
        recipe: {
            "texts": len(outcome.texts),
            "right": len(outcome.right),
            "certified": len(outcome.certified),
            "changed": len(outcome.changed),
            "outside": len(outcome.outside),
            "broken": broken[recipe],
            "ways": dict(outcome.ways),
        }
        for recipe, outcome in bounds.items()
    }
    save(options.out, {"about": {"run": str(options.run)}, "by": figures})
    return int(any(broken.values()))


if __name__ == "__main__":
    sys.exit(main())
