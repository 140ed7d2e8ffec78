"""Cost of keeping a BERT's attention weights unitary, beside the training step itself.

    python -m benchmarks.unitary_cost [--model bert-base] [--batch 16 --length 128] [--threads 2]
        [--device cuda --precision bf16]

One training run on random tokens: a step (forward, backward, fused AdamW), then the projection of
the query, key, value and attention-output weights; beside it, on a copy of the same weights, one
`torch.linalg.qr` for each matrix, and its factors are compared with ours. All are timed after the
same step, so that they see the same machine; numbers are medians. Then, for each k of `--every`, a
projection after k steps only: how far the weights have come by then (drift ‖W - Q‖_F / √d, mean
over matrices, and the largest entry of |WᵀW - I|), and the cost per step.
"""

from argparse import Namespace
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from statistics import mean, median

import torch
from torch import Tensor
from torch.nn import functional
from transformers import BertConfig, BertForSequenceClassification

from benchmarks.command import command, heading, save, settings, table
from benchmarks.timing import timed
from layers.unitary import project_, unitary_factor, unitary_residual
from layers.weight_names import unitary_weights

SIZES = {
    "bert-base": (12, 768, 12),
    "bert-large": (24, 1024, 16),
    "bert-small": (4, 256, 4),
    "tiny": (2, 16, 2),
}
"""Layers, width and heads."""


class Training:
    """A BERT with a classifier on random tokens.

    Args:
        given: the command line.
    """

    def __init__(self, given: Namespace) -> None:
        torch.manual_seed(0)
        self.given = given
        depth, width, heads = SIZES[given.model]
        config = BertConfig(
            num_hidden_layers=depth,
            hidden_size=width,
            num_attention_heads=heads,
            intermediate_size=4 * width,
        )
        self.model = BertForSequenceClassification(config).to(given.device)
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=given.lr, fused=True)
        self.weights: list[Tensor] = [w.detach() for w in unitary_weights(self.model).values()]
        shape = (given.batch, given.length)
        self.tokens = torch.randint(config.vocab_size, shape, device=given.device)
        self.labels = torch.arange(given.batch, device=given.device) % 2
        self.theirs: list[Tensor] = []
        self.project()

    def step(self) -> None:
        """Makes one training step."""
        low = torch.autocast(self.given.device, torch.bfloat16)
        with low if self.given.precision == "bf16" else nullcontext():
            logits = self.model(self.tokens).logits
        torch.autograd.backward(functional.cross_entropy(logits.float(), self.labels))
        self.optimizer.step()
        self.optimizer.zero_grad()

    def project(self) -> None:
        """Projects the weights with our function."""
        project_(self.weights, self.given.method)

    def project_theirs(self) -> None:
        """Projects the copy by one call of the library for each matrix."""
        for weight in self.theirs:
            q, r = torch.linalg.qr(weight)
            torch.mul(q, torch.where(r.diagonal() < 0, -1.0, 1.0), out=weight)

    def seconds(self, work: Callable[[], object]) -> float:
        """Returns the seconds of some work."""
        return timed(work, self.given.device).wall

    def compared(self) -> dict[str, float]:
        """Returns the seconds of a step and of both projections, and how far the two differ."""
        seconds = {"step": self.seconds(self.step)}
        self.theirs = [weight.clone() for weight in self.weights]
        seconds["library"] = self.seconds(self.project_theirs)
        seconds["ours"] = self.seconds(self.project)
        pairs = zip(self.weights, self.theirs, strict=True)
        return seconds | {"difference": max(float((a - b).abs().max()) for a, b in pairs)}

    def gap(self, every: int) -> dict[str, float]:
        """Trains for `every` steps, then projects."""
        for _ in range(every):
            self.step()
        before = [weight.clone() for weight in self.weights]
        seconds = self.seconds(self.project)
        drift = mean(
            float(torch.linalg.matrix_norm(was - now)) / len(now) ** 0.5
            for was, now in zip(before, self.weights, strict=True)
        )
        residual = float(unitary_residual(before).max())
        found = {"every": every, "drift": drift, "residual": residual, "seconds": seconds}
        return found | {"seconds_per_step": seconds / every}


def costs_of(seen: Sequence[dict[str, float]]) -> dict[str, float]:
    """Returns median seconds, and the ratios of both projections to the step."""
    costs = {name: median(one[name] for one in seen) for name in ("step", "ours", "library")}
    for name in ("ours", "library"):
        costs[f"{name}_ratio"] = median(one[name] / one["step"] for one in seen)
    return costs | {"difference": max(one["difference"] for one in seen)}


def main() -> None:
    """Measures and prints."""
    parser = command(__doc__, "batch", "length", "repeats", "device", "out", threads=2)
    parser.add_argument("--model", choices=list(SIZES), default="bert-base", help="its size")
    parser.add_argument("--lr", type=float, default=1e-4, help="learning rate; drift grows with it")
    parser.add_argument("--method", choices=["qr", "polar"], default="qr", help="which factor")
    parser.add_argument("--every", type=int, nargs="*", default=[1, 2, 4, 8], help="the k's")
    parser.add_argument("--precision", choices=["32", "bf16"], default="32", help="of the step")
    given = parser.parse_args()
    torch.set_num_threads(given.threads)
    training = Training(given)
    count = len(training.weights)
    seen = [training.compared() for _ in range(given.repeats + 1)][1:]  # the first is start-up
    costs, gaps = costs_of(seen), [training.gap(every) for every in given.every]
    residual = float(unitary_factor(torch.stack(training.weights), given.method)[1].max())
    options = ("model", "batch", "length", "lr", "method", "precision", "threads")
    about = {**settings(given, *options), "matrices": count}
    rows = [["step without projection", f"{costs['step']:.4f}", "100 %", ""]]
    for name, label in (("ours", "ours"), ("library", "torch.linalg.qr, one by one")):
        share = f"{100 * costs[f'{name}_ratio']:.1f} %"
        rows.append([label, f"{costs[name]:.4f}", share, f"{costs[name] / count:.5f}"])
    print(f"{heading(about)}\n\n{table(['', 'seconds', 'of a step', 'seconds per matrix'], rows)}")
    print(f"\nLargest difference between the two: {costs['difference']:.1e}\n")
    head = ["projected every", "of a step, per step", "drift by then", "largest entry of WᵀW - I"]
    rows = []
    for one in gaps:
        share = f"{100 * one['seconds_per_step'] / costs['step']:.1f} %"
        rows.append([f"{one['every']}", share, f"{one['drift']:.1e}", f"{one['residual']:.1e}"])
    print(table(head, rows))
    print(f"\nLargest entry of |QᵀQ - I| after a projection: {residual:.1e}")
    save(given.out, {"settings": about, **costs, "residual": residual, "gaps": gaps})


if __name__ == "__main__":
    main()
