"""Try to break certificates: attack every test text just inside its certified radius.

    python -m benchmarks.soundness --run runs/NAME [--data_dir DIR] [--restarts 2] [--steps 20]

For each text of the run's test split: projected gradient descent at 0.999 of its own radius, once
on the margin and once on the cross-entropy, from the text itself and from random points of the
ball. A single changed prediction would refute the certificate. Beside it the same attack at
multiples of the radius, to show that it is an attack, and how loose the certificates are. Attacked
is the pass that the certificate is about, in float64 (`Certifier.classify`). The last line is how
far the rounding of that pass may move the pooled vector: what a certificate allows for.
"""

import argparse
import sys
from pathlib import Path

import torch
import yaml

import datamodules
import lit_modules
from attacks import PGD
from certify import Certifier
from certify.lipschitz import encoder_bound

INSIDE = 0.999


def corpus_of(run: Path, data_dir: str | None) -> datamodules.TextDataModule:
    """The data module of a run."""
    settings = yaml.safe_load((run / "config.yaml").read_text())["data"]
    arguments = dict(settings.get("init_args") or {})
    if data_dir is not None:
        arguments["data_dir"] = data_dir
    name = settings["class_path"].rsplit(".", 1)[-1]
    corpus: datamodules.TextDataModule = getattr(datamodules, name)(**arguments)
    return corpus


def main() -> int:
    """Run the attacks; 1 if a certificate was broken."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--run", type=Path, required=True, help="run directory")
    parser.add_argument("--data_dir", help="where the corpora lie, if not where the run had them")
    parser.add_argument("--restarts", type=int, default=2)
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument(
        "--beyond", type=float, nargs="*", default=[1.05, 1.1], help="multiples of the radius too"
    )
    parser.add_argument("--limit", type=int, help="attack only the first so many texts (all)")
    arguments = parser.parse_args()

    model = lit_modules.load(arguments.run / "checkpoints" / "best.ckpt")
    corpus = corpus_of(arguments.run, arguments.data_dir)
    corpus.prepare_data()
    corpus.setup("test")
    corpus.tokenizer = model.tokenizer
    del corpus.examples("test")[arguments.limit :]
    certifier = Certifier(model)
    if certifier.network is None:
        parser.error(f"got {arguments.run}, which has no certificates: {model.no_certificate}")
    flips = dict.fromkeys([INSIDE, *arguments.beyond], 0)
    samples, certified, longest = 0, 0, 0
    for batch in corpus.test_dataloader():
        certificates = certifier(batch)
        x = model.embed(batch).detach().to(torch.float64)
        seeds = batch.sample_ids.tolist()
        with model.frozen():
            for factor in flips:
                flipped = torch.zeros_like(certificates.prediction, dtype=torch.bool)
                for loss in ("margin", "cross_entropy"):
                    attack = PGD(steps=arguments.steps, restarts=arguments.restarts, loss=loss)
                    _, found = attack(
                        certifier.classify,
                        x,
                        batch.mask,
                        certificates.prediction,
                        epsilon=factor * certificates.radius,
                        seeds=seeds,
                    )
                    flipped |= found
                flips[factor] += int(flipped.sum())
        samples += len(batch)
        certified += int((certificates.radius > 0).sum())
        longest = max(longest, int(batch.lengths.max()))
    print(f"{samples} texts, {certified} with a positive radius; predictions changed by PGD")
    print(f"(margin and cross-entropy, {arguments.restarts} restarts, {arguments.steps} steps)")
    print("\n| eps / certified radius | changed |\n|---|---|")
    for factor, count in flips.items():
        print(f"| {factor} | {count} ({100 * count / samples:.1f} %) |")
    for length in (16, longest):
        lengths = torch.tensor([length], dtype=torch.float64)
        bound = encoder_bound(certifier.network, certifier.norms, lengths, bound="sound")
        print(f"\nrounding at {length} tokens: at most {float(bound.rounding):.0e}", end="")
    print()
    return 1 if flips[INSIDE] else 0


if __name__ == "__main__":
    sys.exit(main())
