"""What it costs to keep a BERT's attention weights unitary, beside the training step itself.

    python -m benchmarks.unitary [--model bert-base] [--batch 16 --length 128] [--threads 2]
        [--device cuda --precision bf16]

One training run on random tokens: a step (forward, backward, fused AdamW), then the projection of
the query, key, value and attention-output weights; beside it, on a copy of the same weights, one
`torch.linalg.qr` for each matrix, and its factors are compared with ours. All are timed after the
same step, so that they see the same machine; numbers are medians. Then, for each k of `--every`, a
projection after k steps only: how far the weights have come by then (drift ‖W - Q‖_F / √d, mean
over matrices, and the largest entry of |WᵀW - I|), and the cost per step.
"""

import argparse
import json
import time
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn import functional
from transformers import BertConfig, BertForSequenceClassification

from layers.unitary import UnitaryMethod, project_, unitary_factor, unitary_residual
from layers.weight_names import unitary_weights

SIZES = {"bert-base": (12, 768, 12), "bert-large": (24, 1024, 16), "bert-small": (4, 256, 4)}
"""Layers, width and heads."""


class Gap(NamedTuple):
    """What k steps without a projection do, and what one costs per step."""

    every: int
    drift: float
    residual: float
    seconds: float
    seconds_per_step: float


class Training:
    """A BERT with a classifier on random tokens.

    Args:
        given: the command line.
    """

    def __init__(self, given: argparse.Namespace) -> None:
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
        project_(self.weights, given.method)

    def step(self) -> None:
        """Forward, backward, AdamW."""
        low = torch.autocast(self.given.device, torch.bfloat16)
        with low if self.given.precision == "bf16" else nullcontext():
            logits = self.model(self.tokens).logits
        torch.autograd.backward(functional.cross_entropy(logits.float(), self.labels))
        self.optimizer.step()
        self.optimizer.zero_grad()

    def project(self) -> None:
        """Ours."""
        project_(self.weights, self.given.method)

    def seconds(self, work: Callable[[], object]) -> float:
        """Seconds of some work, once the device has done it."""
        self._wait()
        start = time.perf_counter()
        work()
        self._wait()
        return time.perf_counter() - start

    def _wait(self) -> None:
        if self.given.device == "cuda":
            torch.cuda.synchronize()


def library_qr_(weights: Sequence[Tensor]) -> None:
    """The same in place by one call of the library for each matrix."""
    for weight in weights:
        q, r = torch.linalg.qr(weight)
        torch.mul(q, torch.where(r.diagonal() < 0, -1.0, 1.0), out=weight)


def compare(training: Training, repeats: int) -> dict[str, float]:
    """Median seconds of a step and of each way to project, and how far the two differ."""
    seen: dict[str, list[float]] = {"step": [], "ours": [], "library": []}
    errors = []
    for repeat in range(repeats + 1):
        times = {"step": training.seconds(training.step)}
        theirs = [weight.clone() for weight in training.weights]
        times["library"] = training.seconds(partial(library_qr_, theirs))
        times["ours"] = training.seconds(training.project)
        pairs = zip(training.weights, theirs, strict=True)
        errors.append(max(float((ours - other).abs().max()) for ours, other in pairs))
        if repeat:  # the first pays for start-up
            for name, value in times.items():
                seen[name].append(value)
    ratios = {
        f"{name}_ratio": median(t / s for t, s in zip(seen[name], seen["step"], strict=True))
        for name in ("ours", "library")
    }
    seconds = {name: median(values) for name, values in seen.items()}
    return {**seconds, **ratios, "difference": max(errors)}


def gap(training: Training, every: int) -> Gap:
    """Train for `every` steps, then project."""
    for _ in range(every):
        training.step()
    before = [weight.clone() for weight in training.weights]
    residual = float(unitary_residual(before).max())
    seconds = training.seconds(training.project)
    moved = [
        float(torch.linalg.matrix_norm(was - now)) / len(now) ** 0.5
        for was, now in zip(before, training.weights, strict=True)
    ]
    return Gap(every, sum(moved) / len(moved), residual, seconds, seconds / every)


def report(costs: dict[str, float], gaps: Sequence[Gap], count: int) -> str:
    """Markdown."""
    step = costs["step"]
    lines = [
        "| | seconds | of a step | seconds per matrix |",
        "|---|---|---|---|",
        f"| step without projection | {step:.4f} | 100 % | |",
    ]
    for name, label in (("ours", "ours"), ("library", "torch.linalg.qr, one by one")):
        share = 100 * costs[f"{name}_ratio"]
        lines.append(f"| {label} | {costs[name]:.4f} | {share:.1f} % | {costs[name] / count:.5f} |")
    lines += [
        f"\nLargest difference between the two: {costs['difference']:.1e}\n",
        "| projected every | of a step, per step | drift by then | largest entry of WᵀW - I |",
        "|---|---|---|---|",
    ]
    for g in gaps:
        share = 100 * g.seconds_per_step / step
        lines.append(f"| {g.every} | {share:.1f} % | {g.drift:.1e} | {g.residual:.1e} |")
    return "\n".join(lines)


def main() -> None:
    """Measure, print, write."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--model", choices=list(SIZES), default="bert-base", help="its size")
    parser.add_argument("--batch", type=int, default=16, help="texts")
    parser.add_argument("--length", type=int, default=128, help="tokens of each")
    parser.add_argument("--lr", type=float, default=1e-4, help="learning rate; drift grows with it")
    methods: list[UnitaryMethod] = ["qr", "polar"]
    parser.add_argument("--method", choices=methods, default="qr", help="which factor")
    parser.add_argument("--every", type=int, nargs="*", default=[1, 2, 4, 8], help="the k's")
    parser.add_argument("--repeats", type=int, default=5, help="timed steps")
    parser.add_argument("--threads", type=int, default=2, help="threads of torch")
    on_gpu = torch.cuda.is_available()
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cuda" if on_gpu else "cpu")
    parser.add_argument("--precision", choices=["32", "bf16"], default="32", help="of the step")
    parser.add_argument("--json", type=Path, help="where the numbers are written")
    given = parser.parse_args()
    torch.set_num_threads(given.threads)
    training = Training(given)
    count = len(training.weights)
    costs = compare(training, given.repeats)
    gaps = [gap(training, every) for every in given.every]
    residual = float(unitary_factor(torch.stack(training.weights), given.method)[1].max())
    where = torch.cuda.get_device_name() if given.device == "cuda" else "CPU"
    shape = f"{given.batch} x {given.length} tokens"
    head = f"{given.model}, {count} matrices, {shape}, {where}, {given.threads} thread(s)"
    print(f"{head}, torch {torch.__version__}\n\n{report(costs, gaps, count)}")
    print(f"\nLargest entry of |QᵀQ - I| after a projection: {residual:.1e}")
    if given.json is not None:
        settings: dict[str, Any] = {k: v for k, v in vars(given).items() if k != "json"}
        content = {
            "settings": settings,
            "torch": torch.__version__,
            "device": where,
            "matrices": count,
            **costs,
            "residual": residual,
            "gaps": [g._asdict() for g in gaps],
        }
        given.json.write_text(json.dumps(content, indent=2) + "\n")


if __name__ == "__main__":
    main()
