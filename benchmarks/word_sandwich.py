"""Certificates in words between proofs and attacks: certified <= true <= attacked, on one run.

    python -m benchmarks.word_sandwich --run runs/NAME --threat synonyms --lists FILE [--k 1 2 all]
        [--num_samples 1000] [--data_dir DIR] [--resources DIR] [--attacks NAME ...]

Texts of the run's test split are certified, and attacked inside the very same sets: by searches
over its lists (or over edits of characters), and by every recipe whose resources are there, held in
the set. PWWS, TextFooler and DeepWordBug are run as published, too (`-free`); their texts count as
far as they lie in the set. `true` is known from both sides where certificates are
exact: the witness of a text that is not certified is answered anew by the plain model. One text of
a certified set with another answer refutes the certificate: it is printed, and the command ends
with 1.
"""

import sys
from argparse import Namespace
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from app.attack.attack_evaluator import words_read
from app.runs.run_directory import RunDirectory
from app.threats.corpus_split import split_texts
from attacks import Attack, attack
from attacks.composition import Search
from attacks.constraints import InsideThreat
from attacks.recipe_settings import RecipeSettings
from attacks.recipes import build, recipe_names
from attacks.resources.catalogue import ResourceError
from attacks.resources.neighbours import ListedNeighbours
from attacks.search import Beam, Greedy, RandomSearch
from attacks.strategies import Genetic, Swarm
from attacks.transformations import (
    Composite,
    DeleteCharacter,
    EmbeddingSwap,
    InsertCharacter,
    SubstituteCharacter,
    SwapCharacters,
)
from benchmarks.command import command, save, table
from certify.threats import Synonyms, TextCertificate, Threat, parse_threat
from certify.threats.parsing import parse_k
from lit_modules import TaskModule, load

FREE = ("pwws", "textfooler", "deepwordbug")
KEEPING = ("input-reduction",)
"""Recipes that succeed where the prediction stays."""


@dataclass(frozen=True)
class Rival:
    """An attack of the comparison.

    Attributes:
        name: of the row.
        composed: the attack, without a set.
        inside: True if it is held in the set.
    """

    name: str
    composed: Attack
    inside: bool


@dataclass(frozen=True)
class Layers:
    """The known facts about the texts for one number of changes; the fields are sets of places.

    Attributes:
        right: texts with a right answer.
        certified: right ones whose answer is proven to stay.
        witnessed: right ones of which the certifier has shown another answer.
        fallen: by attack, right ones with a text of the set that gets another answer.
        outside: by attack, number of successful texts that left the set.
    """

    right: set[int]
    certified: set[int]
    witnessed: set[int]
    fallen: dict[str, set[int]]
    outside: dict[str, int]

    @property
    def broken(self) -> set[int]:
        """Certified texts with another answer in the set."""
        return self.certified & self.witnessed.union(*self.fallen.values())


def searches(threat: Threat) -> Iterator[Rival]:
    """Yields searches of ours over the changes that a threat allows."""
    if isinstance(threat, Synonyms) and threat.lists:
        near = ListedNeighbours(threat.lists, name="lists")
        swap: EmbeddingSwap | Composite = EmbeddingSwap(near, max(near.longest, 1))
    elif isinstance(threat, Synonyms):
        return  # lists for texts: recipes only
    else:
        edits = (SwapCharacters(), SubstituteCharacter(), DeleteCharacter(), InsertCharacter())
        swap = Composite(list(edits))
    found: dict[str, Search] = {
        "greedy-delete": Greedy(ranking="delete"),
        "greedy-saliency": Greedy(ranking="weighted-saliency"),
        "beam": Beam(width=8, depth=6),
        "random-words": RandomSearch(tries=20),
        "genetic": Genetic(population=20, generations=5),
        "swarm": Swarm(population=20, generations=5),
    }
    for name, search in found.items():
        yield Rival(name, Attack(name=name, transformation=swap, search=search), inside=True)


def rivals(threat: Threat, given: Namespace) -> tuple[list[Rival], list[str]]:
    """Returns the attacks, and the recipes whose resources are not there."""
    found, missing = list(searches(threat)), []
    for name in recipe_names():
        if name in KEEPING:
            continue
        try:
            composed = build(RecipeSettings(recipe=name, resources=given.resources))
        except (ResourceError, ImportError):
            missing.append(name)
            continue
        found.append(Rival(name, composed, inside=True))
        if name in FREE:
            found.append(Rival(f"{name}-free", composed, inside=False))
    if given.attacks is not None:
        found = [one for one in found if one.name in given.attacks]
    return found, missing


def fallen(
    model: TaskModule,
    samples: Sequence[tuple[str, int]],
    rival: Rival,
    threat: Threat,
    budget: int | None,
) -> tuple[set[int], int]:
    """Returns the places of the texts that an attack changes inside a set, and how often outside.

    Args:
        model: the victim.
        samples: texts and classes.
        rival: the attack.
        threat: the set, with its number of changes.
        budget: texts that it may ask about for each sample; None for no limit.
    """
    composed = rival.composed
    if rival.inside:
        held = [*composed.constraints, InsideThreat(threat)]
        composed = replace(composed, constraints=held)
    records = attack(model, samples, recipe=composed, query_budget=budget, progress=False).records
    wins = [one for one in records if one.outcome == "succeeded"]
    inside = {
        one.sample_id
        for one in wins
        if isinstance(one.adversarial, str)
        and threat.contains(samples[one.sample_id][0], one.adversarial)
    }
    return inside, len(wins) - len(inside)


def witnessed(
    model: TaskModule, found: Sequence[TextCertificate], threat: Threat, at: int
) -> set[int]:
    """Returns the places whose witness, answered by the plain model, is in the set and not right.

    A tie counts as another answer; the plain model may break it either way.

    Args:
        model: the model.
        found: certificates.
        threat: the set, with its number of changes.
        at: place of this number among those asked.
    """
    shown = [
        (place, one.witness)
        for place, one in enumerate(found)
        if not one.holds[at] and one.witness is not None
    ]
    if not shown:
        return set()
    logits = model.predict_texts([text for _, text in shown])
    places = set()
    for (place, text), row in zip(shown, logits, strict=True):
        lead = row[found[place].prediction] - row
        lead[found[place].prediction] = float("inf")
        # Float32 rounds what is exact in the certificate.
        if threat.contains(found[place].text, text) and lead.min() <= 1e-4 * (1 + row.abs().max()):
            places.add(place)
    return places


def layers(
    model: TaskModule,
    samples: Sequence[tuple[str, int]],
    threat: Threat,
    ks: Sequence[int | None],
    given: Namespace,
) -> dict[str, Layers]:
    """Returns what is known for each number of changes."""
    certificates = model.text_certifier(threat)([text for text, _ in samples], ks)
    right = {i for i, one in enumerate(certificates) if one.prediction == samples[i][1]}
    found, missing = rivals(threat, given)
    print(f"attacks: {', '.join(one.name for one in found)}")
    if missing:
        print(f"left out, resources are missing: {', '.join(missing)}")
    known: dict[str, Layers] = {}
    for at, k in enumerate(ks):
        one = threat.at(k)
        fell, left = {}, {}
        for rival in found:
            fell[rival.name], left[rival.name] = fallen(model, samples, rival, one, given.budget)
        held = {i for i in right if certificates[i].holds[at]}
        seen = right & witnessed(model, certificates, one, at)
        known["all" if k is None else str(k)] = Layers(right, held, seen, fell, left)
    return known


def report(known: dict[str, Layers], count: int) -> str:
    """Returns the tables, in % of the texts."""

    def share(places: set[int]) -> float:
        return 100 * len(places) / count

    rows = []
    for k, one in known.items():
        stand = one.right - set().union(*one.fallen.values())
        below, above = share(one.certified), share(one.right - one.witnessed)
        true = (
            f"{below:.1f}" if below == above else f"{below:.1f} to {min(above, share(stand)):.1f}"
        )
        rows.append([k, share(one.certified), true, share(stand), share(stand) - below])
    whole = table(["changes", "certified, %", "true, %", "attacked, %", "gap"], rows)
    names = list(next(iter(known.values())).fallen)
    each: list[list[object]] = []
    for name in names:
        left = [f"{share(one.right - one.fallen[name]):.1f}" for one in known.values()]
        each.append([name, *left, sum(one.outside[name] for one in known.values())])
    head = ["accuracy under", *(f"k = {k}, %" for k in known), "texts that left the set"]
    return f"{whole}\n\n{table(head, each)}"


def main() -> int:
    """Runs the attacks; returns 1 if a certificate was broken."""
    parser = command(__doc__, out=None)
    add = parser.add_argument
    add("--run", type=Path, required=True, help="run directory")
    add("--threat", required=True, choices=("synonyms", "characters", "words"))
    add("--lists", help="JSON with synonyms")
    add("--k", nargs="+", help="numbers of changes (1 2, and all for synonyms)")
    add("--num_samples", type=int, default=1000, help="texts, drawn as `attack` draws them")
    add("--data_dir", help="where the corpora lie, if not where the run had them")
    add("--resources", help="folder with resources of attacks (docs/attacks.md)")
    add("--attacks", nargs="+", metavar="NAME", help="only these (all whose resources are there)")
    add("--budget", type=int, default=2000, help="texts that an attack may ask about for each text")
    given = parser.parse_args()
    run = RunDirectory(given.run)
    model = load(run.chosen)
    words = words_read(model)
    asked = given.k or (("1", "2", "all") if given.threat == "synonyms" else ("1", "2"))
    ks = [parse_k(one) for one in asked]
    threat = parse_threat(given.threat, lists=given.lists, k=ks[-1], words=words)
    _, drawn = split_texts(run, "test", data_dir=given.data_dir, count=given.num_samples)
    samples = [
        (subject, label)
        for _, text, label in drawn
        if isinstance(text, str) and (subject := threat.subject(text)) is not None
    ]
    known = layers(model, samples, threat, ks, given)
    print(f"{len(samples)} texts, {threat.statement}\n\n{report(known, len(samples))}")
    broken = {k: sorted(one.broken) for k, one in known.items()}
    print(f"\ncertified texts with another answer: {sum(map(len, broken.values()))}")
    for k, places in broken.items():
        for place in places:
            print(f"  k = {k}: {samples[place][0]}")
    about = {"run": str(given.run), "threat": threat.statement, "texts": len(samples)}
    figures = {
        k: {
            "certified": len(one.certified),
            "right": len(one.right),
            "witnessed": len(one.witnessed),
            "fallen": {name: len(places) for name, places in one.fallen.items()},
            "outside": one.outside,
            "broken": len(one.broken),
        }
        for k, one in known.items()
    }
    save(given.out, {"about": about, "k": figures})
    return int(any(broken.values()))


if __name__ == "__main__":
    sys.exit(main())
