"""Certificates of models with attention against synonyms: l2 radius, relaxation, lists, attacks.

    python -m benchmarks.word_relaxation --run runs/NAME --lists FILE [--k 1 2 all]
        [--num_samples 60] [--data_dir DIR]

Right answers of a run that are proven to stay, in % of its test texts, for each number of replaced
words. l2: the embedded text moves by less than its certified radius, whatever candidates are taken
(a run without radii certifies nothing). relaxation: `RelaxedCertifier` without lists. with lists:
as `certify --threat synonyms` has it. attacked: what attacks inside the set leave, witnesses of the
certifier included; it is at or above the truth. gap: attacked less with lists. Seconds are those of
a text for all numbers of words. The command ends with 1 if a certified text was changed.
"""

import sys
from collections.abc import Callable, Sequence
from time import perf_counter
from typing import TypeVar

import torch

from benchmarks.command import command, heading, save, settings, table
from benchmarks.word_sandwich import attack_inside, draw_subjects, searches
from certify import Certifier
from certify.bound_propagation import RelaxedCertifier
from certify.threats import parse_threat
from certify.threats.parsing import parse_k
from lit_modules import load
from measure.corpus_split import words_read
from run_files.run_directory import RunDirectory

R = TypeVar("R")
ATTACKS = ("greedy-delete", "beam", "random-words")
SAFE = 1 + 1e-9
"""Covers the rounding of distances."""


def by_radius(
    radii: Certifier, certifier: RelaxedCertifier, text: str, ks: Sequence[int | None]
) -> list[bool]:
    """Return for each number of words whether all texts lie inside the l2 radius of a text."""
    radius = float(radii(text).radius)
    embedded = certifier.table(text)
    squares = (embedded - embedded[:, :1]).square().sum(dim=-1).amax(dim=1)
    moved = squares.sort(descending=True).values.cumsum(dim=0).sqrt() * SAFE
    far = [0.0 if k == 0 else float(moved[-1 if k is None else min(k, len(moved)) - 1]) for k in ks]
    return [distance < radius for distance in far]


def main() -> int:
    """Print the table; returns 1 if an attack has changed a certified text."""
    parser = command(__doc__, "run", "data_dir", "out")
    add = parser.add_argument
    add("--lists", required=True, help="JSON with synonyms")
    add("--k", nargs="+", default=["1", "2", "all"], help="numbers of replaced words")
    add("--num_samples", type=int, default=60, help="texts, drawn as `attack` draws them")
    add("--budget", type=int, default=1000, help="texts that an attack may ask about for each text")
    options = parser.parse_args()
    # Seconds of one thread are comparable between machines.
    torch.set_num_threads(1)
    model = load(RunDirectory(options.run).chosen)
    ks = [parse_k(k) for k in options.k]
    threat = parse_threat("synonyms", lists=options.lists, k=ks[-1], words=words_read(model))
    certifier = model.text_certifier(threat)
    if not isinstance(certifier, RelaxedCertifier):
        parser.error(f"got {options.run}, expected a run of OLSA or TextClassifier")
    samples = draw_subjects(threat, options)
    texts = [text for text, _ in samples]
    seconds: dict[str, float] = {}

    def timed(name: str, work: Callable[[], R]) -> R:
        started = perf_counter()
        result = work()
        seconds[name] = (perf_counter() - started) / len(texts)
        return result

    unlisted = RelaxedCertifier(certifier.model, threat, limit=0)
    relaxed = timed("relaxation", lambda: unlisted(texts, ks))
    listed = timed("with lists", lambda: certifier(texts, ks))
    radii = Certifier(model)
    inside = timed("l2", lambda: [by_radius(radii, certifier, text, ks) for text in texts])
    right = {i for i, (_, label) in enumerate(samples) if listed[i].prediction == label}
    rows, figures, broken = [], {}, 0
    for at, k in enumerate(options.k):
        at_most = threat.at(ks[at])
        fell = {i for i in right if listed[i].witness is not None and not listed[i].holds[at]}
        for rival in searches(at_most):
            if rival.name in ATTACKS:
                fell |= right & attack_inside(model, samples, rival, at_most, options.budget)[0]
        proven = {
            "l2": {i for i in right if inside[i][at]},
            "relaxation": {i for i in right if relaxed[i].holds[at]},
            "with lists": {i for i in right if listed[i].holds[at]},
        }
        # A text that is proven and attacked successfully refutes a proof.
        broken += len(fell.intersection(set().union(*proven.values())))
        shares = {name: 100 * len(indices) / len(texts) for name, indices in proven.items()}
        stand = 100 * len(right - fell) / len(texts)
        figures[k] = {**shares, "attacked": stand}
        rows.append([k, *shares.values(), stand, stand - shares["with lists"]])
    print(f"{heading(settings(options, 'run', 'lists'))}, {len(texts)} texts\n")
    print(f"accuracy {100 * len(right) / len(texts):.1f} %\n")
    print(table(["changes", "l2", "relaxation", "with lists", "attacked", "gap"], rows))
    print(f"\n{table(['seconds a text', *seconds], [['', *seconds.values()]])}")
    print(f"\ncertified texts with another answer: {broken}")
    save(options.out, {"figures": figures, "seconds": seconds, "broken": broken})
    return int(broken > 0)


if __name__ == "__main__":
    sys.exit(main())
