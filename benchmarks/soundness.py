"""Attacks on certificates: every test text is attacked just inside its certified radius.

    python -m benchmarks.soundness --run runs/NAME [--data_dir DIR] [--restarts 2] [--steps 20]

For each text of the run's test split: projected gradient descent at 0.999 of its own radius, once
on the margin and once on the cross-entropy, from the text itself and from random points of the
ball. A single changed prediction would refute the certificate. It also runs the attack at
multiples of the radius, to show that it is an attack, and how loose the certificates are. Attacked
is the pass that the certificate is about, in float64 (`Certifier.classify`). The last line is how
far the rounding of that pass may move the pooled vector: the allowance of a certificate.
"""

import sys

import torch

from attacks import PGD
from benchmarks.command import command, table
from benchmarks.program_runs import load_run
from certify import Certifier
from certify.lipschitz import encoder_bound

INSIDE = 0.999


def main() -> int:
    """Run the attacks; returns 1 if a certificate was broken."""
    parser = command(__doc__, "run", "data_dir")
    parser.add_argument("--restarts", type=int, default=2)
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument(
        "--beyond", type=float, nargs="*", default=[1.05, 1.1], help="multiples of the radius too"
    )
    parser.add_argument("--limit", type=int, help="attack only the first so many texts (all)")
    options = parser.parse_args()

    model, corpus = load_run(options.run, options.data_dir)
    del corpus.examples("test")[options.limit :]
    certifier = Certifier(model)
    if certifier.network is None:
        parser.error(f"got {options.run}, which has no certificates: {model.no_certificate}")
    flips = dict.fromkeys([INSIDE, *options.beyond], 0)
    samples, certified, longest = 0, 0, 0
    for batch in corpus.test_dataloader():
        certificates = certifier(batch)
        x = model.embed(batch).detach().to(torch.float64)
        seeds = batch.sample_ids.tolist()
        with model.frozen():
            # One factor below 1 may change nothing; larger ones show that the attack works.
            for factor in flips:
                flipped = torch.zeros_like(certificates.prediction, dtype=torch.bool)
                for loss in ("margin", "cross_entropy"):
                    attack = PGD(steps=options.steps, restarts=options.restarts, loss=loss)
                    _, radius = attack(
                        certifier.classify,
                        x,
                        batch.mask,
                        certificates.prediction,
                        # A radius for each text: texts without a certificate have 0.
                        epsilon=factor * certificates.radius,
                        seeds=seeds,
                    )
                    flipped |= radius
                flips[factor] += int(flipped.sum())
        samples += len(batch)
        certified += int((certificates.radius > 0).sum())
        longest = max(longest, int(batch.lengths.max()))
    print(f"{samples} texts, {certified} with a positive radius; predictions changed by PGD")
    print(f"(margin and cross-entropy, {options.restarts} restarts, {options.steps} steps)")
    rows = [[f"{k}", f"{count} ({100 * count / samples:.1f} %)"] for k, count in flips.items()]
    print(f"\n{table(['eps / certified radius', 'changed'], rows)}")
    for length in (16, longest):
        lengths = torch.tensor([length], dtype=torch.float64)
        bound = encoder_bound(certifier.network, certifier.norms, lengths, bound="sound")
        print(f"\nrounding at {length} tokens: at most {float(bound.rounding):.0e}", end="")
    print()
    return 1 if flips[INSIDE] else 0


if __name__ == "__main__":
    sys.exit(main())
