"""Local radii, global ones, and what attacks leave room for.

    python -m benchmarks.local_radii --run runs/NAME [--texts 64]

For the first test texts of a run with two classes: the mean radius by the sound constant and by the
local bound; their ratio, of the means and the least of a text; and how much longer radii might be:
if the lead were linear (by its gradient at the text), and up to the shortest step by which l2-PGD
has changed the answer. The cost is time of the processor.
"""

from collections.abc import Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor

from attacks import PGD
from benchmarks.command import command, heading, save, settings, table
from benchmarks.program_runs import load_run
from benchmarks.timing import median_seconds
from certify import Certifier
from certify.certificate import CertifiedBound


def slope(certifier: Certifier, x: Tensor, mask: Tensor) -> Tensor:
    """Return `[B]`: how fast the lead of the answer can fall at the text."""
    x = x.detach().requires_grad_()
    with torch.enable_grad():
        first, second = certifier.classify(x, mask).topk(2, dim=1).values.unbind(dim=1)
        (gradient,) = torch.autograd.grad((first - second).sum(), x)
    # Padding does not move.
    size: Tensor = gradient.masked_fill(~mask.unsqueeze(-1), 0.0).flatten(1).norm(dim=1)
    return size


def flipped_at(certifier: Certifier, x: Tensor, mask: Tensor, radius: Tensor) -> Tensor:
    """Return `[B]`: the shortest step that changed the answer, between a radius and 8 times it."""
    labels = certifier.classify(x, mask).argmax(dim=1)
    low, high = radius, 8 * radius
    for _ in range(8):
        # Bisection of the logarithm: radii differ by orders of magnitude.
        middle = (low * high).sqrt()
        _, flipped = PGD(steps=20)(
            certifier.classify, x, mask, labels, epsilon=middle, seeds=list(range(len(x)))
        )
        low, high = torch.where(flipped, low, middle), torch.where(flipped, middle, high)
    return high


def main() -> None:
    """Print a row for the run."""
    parser = command(__doc__, "run", "data_dir", "repeats", "out")
    parser.add_argument("--texts", type=int, default=64, help="number of test texts")
    options = parser.parse_args()
    torch.set_num_threads(1)
    module, corpus = load_run(options.run, options.data_dir)
    del corpus.examples("test")[options.texts :]
    bounds: tuple[CertifiedBound, ...] = ("sound", "local")
    both = {bound: Certifier(module, bound) for bound in bounds}
    sound = both["sound"]
    if sound.network is None or len(sound.network.head.weight) != 2:
        parser.error(f"got {options.run}, expected a run with certificates of two classes")
    measured = _measured(both, list(corpus.test_dataloader()), options.repeats)
    print(f"{heading(settings(options, 'run', 'texts'))}\n")
    print(table(list(measured), [list(measured.values())]))
    save(options.out, measured)


def _measured(
    both: dict[CertifiedBound, Certifier], batches: Sequence[Any], repeats: int
) -> dict[str, float]:
    """Return the printed figures by their titles."""
    sound = both["sound"]
    assert sound.network is not None  # main looked
    head = sound.network.head.weight
    radii: dict[str, list[Tensor]] = {"sound": [], "local": [], "linear": [], "found": []}
    for batch in batches:
        everywhere, local = (both[bound](batch) for bound in both)
        x = sound.module.embed(batch).detach().to(torch.float64)
        # First order: the distance to the boundary if the network were linear.
        steepest = slope(sound, x, batch.mask) / (head[0] - head[1]).norm()
        radii["sound"].append(everywhere.radius)
        radii["local"].append(local.radius)
        radii["linear"].append(everywhere.margin / steepest)
        radii["found"].append(flipped_at(sound, x, batch.mask, local.radius))
    # Both bounds on each batch in turn, so that they see the same machine.
    work = {bound: partial(_certify_all, both[bound], batches) for bound in both}
    cost = median_seconds(work, repeats)
    mean = {name: float(torch.cat(rows).mean()) for name, rows in radii.items()}
    least = float((torch.cat(radii["local"]) / torch.cat(radii["sound"])).nan_to_num(1.0).amin())
    return {
        "radius, sound": mean["sound"],
        "radius, local": mean["local"],
        "local / sound": mean["local"] / mean["sound"],
        "the least": least,
        "if linear / sound": mean["linear"] / mean["sound"],
        "PGD / sound": mean["found"] / mean["sound"],
        "cost, local / sound": cost["local"] / cost["sound"],
    }


def _certify_all(certifier: Certifier, batches: Sequence[Any]) -> None:
    for batch in batches:
        certifier(batch)


if __name__ == "__main__":
    main()
