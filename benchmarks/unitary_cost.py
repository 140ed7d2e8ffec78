"""Cost of keeping a BERT's attention weights unitary, relative to the training step itself.

    python -m benchmarks.unitary_cost [--model bert-base] [--batch 16 --length 128] [--threads 2]
        [--device cuda --precision bf16]

One training run on random tokens: a step (forward, backward, fused AdamW), then the projection of
the query, key, value and attention-output weights; then, on a copy of the same weights, one
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
from benchmarks.timing import time_work
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
    """A BERT with a classifier on random tokens."""

    def __init__(self, options: Namespace) -> None:
        torch.manual_seed(0)
        self.options = options
        depth, width, heads = SIZES[options.model]
        config = BertConfig(
            num_hidden_layers=depth,
            hidden_size=width,
            num_attention_heads=heads,
            intermediate_size=4 * width,
        )
        self.model = BertForSequenceClassification(config).to(options.device)
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=options.lr, fused=True)
        self.weights: list[Tensor] = [w.detach() for w in unitary_weights(self.model).values()]
        shape = (options.batch, options.length)
        self.tokens = torch.randint(config.vocab_size, shape, device=options.device)
        self.labels = torch.arange(options.batch, device=options.device) % 2
        self.theirs: list[Tensor] = []
        self.project()

    def step(self) -> None:
        """Make one training step."""
        low = torch.autocast(self.options.device, torch.bfloat16)
        with low if self.options.precision == "bf16" else nullcontext():
            logits = self.model(self.tokens).logits
        torch.autograd.backward(functional.cross_entropy(logits.float(), self.labels))
        self.optimizer.step()
        self.optimizer.zero_grad()

    def project(self) -> None:
        """Project the weights with our function."""
        project_(self.weights, self.options.method)

    def project_theirs(self) -> None:
        """Project the copy by one call of the library for each matrix."""
        for weight in self.theirs:
            q, r = torch.linalg.qr(weight)
            # The factor with a positive diagonal of R is unique: both ways must agree.
            torch.mul(q, torch.where(r.diagonal() < 0, -1.0, 1.0), out=weight)

    def seconds(self, work: Callable[[], object]) -> float:
        """Return the seconds of some work."""
        return time_work(work, self.options.device).wall

    def compared(self) -> dict[str, float]:
        """Return the seconds of a step and of both projections, and how far the two differ."""
        seconds = {"step": self.seconds(self.step)}
        # Copied after the step: both project the same weights.
        self.theirs = [weight.clone() for weight in self.weights]
        seconds["library"] = self.seconds(self.project_theirs)
        seconds["ours"] = self.seconds(self.project)
        pairs = zip(self.weights, self.theirs, strict=True)
        return seconds | {"difference": max(float((a - b).abs().max()) for a, b in pairs)}

    def gap(self, interval: int) -> dict[str, float]:
        """Train for `interval` steps, then project."""
        for _ in range(interval):
            self.step()
        before = [weight.clone() for weight in self.weights]
        seconds = self.seconds(self.project)
        drift = mean(
            float(torch.linalg.matrix_norm(was - now)) / len(now) ** 0.5
            for was, now in zip(before, self.weights, strict=True)
        )
        # Of the weights before the projection: how far they have drifted.
        residual = float(unitary_residual(before).max())
        figures = {"every": interval, "drift": drift, "residual": residual, "seconds": seconds}
        return figures | {"seconds_per_step": seconds / interval}


def costs_of(measurements: Sequence[dict[str, float]]) -> dict[str, float]:
    """Return median seconds, and the ratios of both projections to the step."""
    costs = {
        name: median(measured[name] for measured in measurements)
        for name in ("step", "ours", "library")
    }
    for name in ("ours", "library"):
        costs[f"{name}_ratio"] = median(
            measured[name] / measured["step"] for measured in measurements
        )
    return costs | {"difference": max(measured["difference"] for measured in measurements)}


def main() -> None:
    """Measure and print."""
    parser = command(__doc__, "batch", "length", "repeats", "device", "out", threads=2)
    parser.add_argument("--model", choices=list(SIZES), default="bert-base", help="its size")
    parser.add_argument("--lr", type=float, default=1e-4, help="learning rate; drift grows with it")
    parser.add_argument("--method", choices=["qr", "polar"], default="qr", help="which factor")
    parser.add_argument("--every", type=int, nargs="*", default=[1, 2, 4, 8], help="the k's")
    parser.add_argument("--precision", choices=["32", "bf16"], default="32", help="of the step")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    training = Training(options)
    count = len(training.weights)
    # The first is start-up.
    measurements = [training.compared() for _ in range(options.repeats + 1)][1:]
    costs, gaps = costs_of(measurements), [training.gap(interval) for interval in options.every]
    residual = float(unitary_factor(torch.stack(training.weights), options.method)[1].max())
    names = ("model", "batch", "length", "lr", "method", "precision", "threads")
    setup = {**settings(options, *names), "matrices": count}
    rows = [["step without projection", f"{costs['step']:.4f}", "100 %", ""]]
    for name, label in (("ours", "ours"), ("library", "torch.linalg.qr, one by one")):
        share = f"{100 * costs[f'{name}_ratio']:.1f} %"
        rows.append([label, f"{costs[name]:.4f}", share, f"{costs[name] / count:.5f}"])
    print(f"{heading(setup)}\n\n{table(['', 'seconds', 'of a step', 'seconds per matrix'], rows)}")
    print(f"\nLargest difference between the two: {costs['difference']:.1e}\n")
    head = ["projected every", "of a step, per step", "drift by then", "largest entry of WᵀW - I"]
    rows = []
    for gap in gaps:
        share = f"{100 * gap['seconds_per_step'] / costs['step']:.1f} %"
        rows.append([f"{gap['every']}", share, f"{gap['drift']:.1e}", f"{gap['residual']:.1e}"])
    print(table(head, rows))
    print(f"\nLargest entry of |QᵀQ - I| after a projection: {residual:.1e}")
    save(options.out, {"settings": setup, **costs, "residual": residual, "gaps": gaps})


if __name__ == "__main__":
    main()
