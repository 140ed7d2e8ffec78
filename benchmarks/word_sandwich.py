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
from measure.corpus_split import split_texts, words_read
from run_files.run_directory import RunDirectory

FREE = ("pwws", "textfooler", "deepwordbug")
KEEPING = ("input-reduction", "translate", "paraphrase", "witness", "gbda")
"""Recipes that succeed where the prediction stays, or need a file, a certificate or a network."""


@dataclass(frozen=True)
class Rival:
    """An attack of the comparison, composed without a set; `inside` if it is held in the set."""

    name: str
    composed: Attack
    inside: bool


@dataclass(frozen=True)
class TextSets:
    """The positions of texts with a right prediction, by what is known of them at some changes.

    `witnessed`: the certifier has a witness; `fallen`: by attack, a text of the set changes the
    prediction. `outside` counts by attack the successful texts that left the set.
    """

    right: set[int]
    certified: set[int]
    witnessed: set[int]
    fallen: dict[str, set[int]]
    outside: dict[str, int]

    @property
    def broken(self) -> set[int]:
        """Certified texts that a text of the set refutes."""
        return self.certified & self.witnessed.union(*self.fallen.values())


def draw_subjects(threat: Threat, options: Namespace) -> list[tuple[str, int]]:
    """Return the subjects of a threat among the drawn test texts of a run, with their classes."""
    folder = None if options.data_dir is None else str(options.data_dir)
    run = RunDirectory(options.run)
    _, drawn = split_texts(run, "test", data_dir=folder, count=options.num_samples)
    return [
        (subject, label)
        for _, text, label in drawn
        if isinstance(text, str) and (subject := threat.subject(text)) is not None
    ]


def searches(threat: Threat) -> Iterator[Rival]:
    """Yield our own searches over the changes that a threat allows."""
    if isinstance(threat, Synonyms) and threat.lists:
        near = ListedNeighbours(threat.lists, name="lists")
        swap: EmbeddingSwap | Composite = EmbeddingSwap(near, max(near.longest, 1))
    elif isinstance(threat, Synonyms):
        return  # lists for texts: recipes only
    else:
        edits = (SwapCharacters(), SubstituteCharacter(), DeleteCharacter(), InsertCharacter())
        swap = Composite(list(edits))
    strategies: dict[str, Search] = {
        "greedy-delete": Greedy(ranking="delete"),
        "greedy-saliency": Greedy(ranking="weighted-saliency"),
        "beam": Beam(width=8, depth=6),
        "random-words": RandomSearch(tries=20),
        "genetic": Genetic(population=20, generations=5),
        "swarm": Swarm(population=20, generations=5),
    }
    for name, search in strategies.items():
        yield Rival(name, Attack(name=name, transformation=swap, search=search), inside=True)


def rivals(threat: Threat, options: Namespace) -> tuple[list[Rival], list[str]]:
    """Return the attacks, and the recipes whose resources are not there."""
    attacks, missing = list(searches(threat)), []
    for name in recipe_names():
        if name in KEEPING:
            continue
        try:
            composed = build(RecipeSettings(recipe=name, resources=options.resources))
        # Recipes without their resources are listed, and not run.
        except (ResourceError, ImportError):
            missing.append(name)
            continue
        attacks.append(Rival(name, composed, inside=True))
        if name in FREE:
            attacks.append(Rival(f"{name}-free", composed, inside=False))
    if options.attacks is not None:
        attacks = [rival for rival in attacks if rival.name in options.attacks]
    return attacks, missing


def attack_inside(
    model: TaskModule,
    samples: Sequence[tuple[str, int]],
    rival: Rival,
    threat: Threat,
    budget: int | None,
) -> tuple[set[int], int]:
    """Return the positions of the texts that an attack changes in a set, and its wins outside it.

    The budget is the number of texts that it may ask about for each sample; None for no limit.
    """
    composed = rival.composed
    # The constraint keeps the search inside the set of the certificate.
    if rival.inside:
        held = [*composed.constraints, InsideThreat(threat)]
        composed = replace(composed, constraints=held)
    records = attack(model, samples, recipe=composed, query_budget=budget, progress=False).records
    wins = [record for record in records if record.outcome == "succeeded"]
    inside = {
        record.sample_id
        for record in wins
        if isinstance(record.adversarial, str)
        and threat.contains(samples[record.sample_id][0], record.adversarial)
    }
    return inside, len(wins) - len(inside)


def find_refuted(
    model: TaskModule, certificates: Sequence[TextCertificate], threat: Threat, at: int
) -> set[int]:
    """Return the positions whose witness is in the set and wrong for the plain model.

    A tie counts as wrong; the plain model may break it either way. `at` is the position of the
    threat's number of changes among those of the certificates.
    """
    witnesses = [
        (index, certificate.witness)
        for index, certificate in enumerate(certificates)
        if not certificate.holds[at] and certificate.witness is not None
    ]
    if not witnesses:
        return set()
    logits = model.predict_texts([text for _, text in witnesses])
    indices = set()
    for (index, text), row in zip(witnesses, logits, strict=True):
        lead = row[certificates[index].prediction] - row
        lead[certificates[index].prediction] = float("inf")
        # Float32 rounds what is exact in the certificate.
        if threat.contains(certificates[index].text, text) and lead.min() <= 1e-4 * (
            1 + row.abs().max()
        ):
            indices.add(index)
    return indices


def layers(
    model: TaskModule,
    samples: Sequence[tuple[str, int]],
    threat: Threat,
    ks: Sequence[int | None],
    options: Namespace,
) -> dict[str, TextSets]:
    """Return the sets of texts for each number of changes."""
    certificates = model.text_certifier(threat)([text for text, _ in samples], ks)
    right = {i for i, (_, label) in enumerate(samples) if certificates[i].prediction == label}
    attacks, missing = rivals(threat, options)
    print(f"attacks: {', '.join(rival.name for rival in attacks)}")
    if missing:
        print(f"left out, resources are missing: {', '.join(missing)}")
    by_k: dict[str, TextSets] = {}
    for at, k in enumerate(ks):
        at_most = threat.at(k)
        fell, outside = {}, {}
        for rival in attacks:
            fell[rival.name], outside[rival.name] = attack_inside(
                model, samples, rival, at_most, options.budget
            )
        held = {i for i in right if certificates[i].holds[at]}
        refuted = right & find_refuted(model, certificates, at_most, at)
        by_k["all" if k is None else str(k)] = TextSets(right, held, refuted, fell, outside)
    return by_k


def report(by_k: dict[str, TextSets], count: int) -> str:
    """Return the tables, in % of the texts."""

    def share(indices: set[int]) -> float:
        return 100 * len(indices) / count

    rows = []
    for k, sets in by_k.items():
        # Texts that withstood all attacks: an upper bound on the truth.
        stand = sets.right - set().union(*sets.fallen.values())
        # Equal where certificates are exact: each text has a proof or a witness.
        below, above = share(sets.certified), share(sets.right - sets.witnessed)
        true = (
            f"{below:.1f}" if below == above else f"{below:.1f} to {min(above, share(stand)):.1f}"
        )
        rows.append([k, share(sets.certified), true, share(stand), share(stand) - below])
    overall = table(["changes", "certified, %", "true, %", "attacked, %", "gap"], rows)
    names = list(next(iter(by_k.values())).fallen)
    each: list[list[object]] = []
    for name in names:
        shares = [f"{share(sets.right - sets.fallen[name]):.1f}" for sets in by_k.values()]
        each.append([name, *shares, sum(sets.outside[name] for sets in by_k.values())])
    head = ["accuracy under", *(f"k = {k}, %" for k in by_k), "texts that left the set"]
    return f"{overall}\n\n{table(head, each)}"


def main() -> int:
    """Run the attacks; returns 1 if a certificate was broken."""
    parser = command(__doc__, "run", "data_dir", "out")
    add = parser.add_argument
    add("--threat", required=True, choices=("synonyms", "characters", "words"))
    add("--lists", help="JSON with synonyms")
    add("--k", nargs="+", help="numbers of changes (1 2, and all for synonyms)")
    add("--num_samples", type=int, default=1000, help="texts, drawn as `attack` draws them")
    add("--resources", help="folder with resources of attacks (docs/attacks.md)")
    add("--attacks", nargs="+", metavar="NAME", help="only these (all whose resources are there)")
    add("--budget", type=int, default=2000, help="texts that an attack may ask about for each text")
    options = parser.parse_args()
    model = load(RunDirectory(options.run).chosen)
    words = words_read(model)
    numbers = options.k or (("1", "2", "all") if options.threat == "synonyms" else ("1", "2"))
    ks = [parse_k(number) for number in numbers]
    threat = parse_threat(options.threat, lists=options.lists, k=ks[-1], words=words)
    samples = draw_subjects(threat, options)
    by_k = layers(model, samples, threat, ks, options)
    print(f"{len(samples)} texts, {threat.statement}\n\n{report(by_k, len(samples))}")
    broken = {k: sorted(sets.broken) for k, sets in by_k.items()}
    print(f"\ncertified texts with another answer: {sum(map(len, broken.values()))}")
    for k, indices in broken.items():
        for index in indices:
            print(f"  k = {k}: {samples[index][0]}")
    setup = {"run": str(options.run), "threat": threat.statement, "texts": len(samples)}
    figures = {
        k: {
            "certified": len(sets.certified),
            "right": len(sets.right),
            "witnessed": len(sets.witnessed),
            "fallen": {name: len(indices) for name, indices in sets.fallen.items()},
            "outside": sets.outside,
            "broken": len(sets.broken),
        }
        for k, sets in by_k.items()
    }
    save(options.out, {"about": setup, "k": figures})
    return int(any(broken.values()))


if __name__ == "__main__":
    sys.exit(main())
