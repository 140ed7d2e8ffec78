"""Additive attention scores in three forms: time, memory, and that they agree.

    python -m benchmarks.additive_attention [--length 128 --batch 32 --heads 8 --width 256]

`textbook` is the definition, `pairs` has the absolute differences spelled out, `cdist` is what OLSA
uses. Times are medians of interleaved repeats of one process, memory is the peak of a fresh process
for each form above what the inputs need.
"""

from argparse import Namespace
from functools import partial

import torch
from torch import Tensor

from benchmarks.command import command, heading, save, settings, table
from benchmarks.timing import (
    MIB,
    forward_and_backward,
    in_fresh_process,
    medians,
    resident,
    rounds,
)
from layers.attention.additive import Form, additive_scores

FORMS: tuple[Form, ...] = ("textbook", "pairs", "cdist")


def inputs(given: Namespace) -> list[Tensor]:
    """Returns random queries, keys and score vectors."""
    torch.manual_seed(0)
    tokens = (given.batch, given.heads, given.length, given.width // given.heads)
    return [
        torch.randn(sizes, device=given.device, requires_grad=True)
        for sizes in (tokens, tokens, (given.heads, tokens[-1]))
    ]


def weights(form: Form, tensors: list[Tensor]) -> Tensor:
    """Returns attention weights, softmax included."""
    query, key, weight = tensors
    return additive_scores(query, key, weight, form=form).softmax(dim=-1)


def once(form: Form, tensors: list[Tensor]) -> tuple[float, float]:
    """Returns the seconds of one forward and one backward pass."""
    return forward_and_backward(partial(weights, form, tensors), tensors, tensors[0].device.type)


def peak(form: Form, given: Namespace) -> float:
    """Returns the MiB that one forward and backward pass needs in this process."""
    torch.set_num_threads(given.threads)
    # Kernels and thread pools are no memory of the form.
    once(form, inputs(Namespace(**vars(given) | {"batch": 1, "length": 4})))
    tensors = inputs(given)
    if given.device == "cuda":
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
        once(form, tensors)
        return (torch.cuda.max_memory_allocated() - before) / MIB
    before_it = resident()
    once(form, tensors)
    return resident() - before_it


def disagreement(given: Namespace) -> dict[str, float]:
    """Returns each form's largest relative error of weights and gradients against float64."""
    small = {"batch": min(given.batch, 2), "length": min(given.length, 32)}
    tensors = inputs(Namespace(**vars(given) | small))
    exact = [tensor.detach().double().requires_grad_() for tensor in tensors]

    def run(form: Form, at: list[Tensor]) -> list[Tensor]:
        found = weights(form, at)
        return [found, *torch.autograd.grad(found.square().sum(), at)]

    expected = run("textbook", exact)
    return {
        form: max(
            float((found.double() - true).detach().abs().max() / true.detach().abs().max())
            for found, true in zip(run(form, tensors), expected, strict=True)
        )
        for form in FORMS
    }


def main() -> None:
    """Measures, checks and prints."""
    parser = command(__doc__, "length", "repeats", "threads", "out", batch=32, device="cpu")
    parser.add_argument("--heads", type=int, default=8, help="attention heads")
    parser.add_argument("--width", type=int, default=256, help="token width")
    given = parser.parse_args()
    torch.set_num_threads(given.threads)
    errors = disagreement(given)
    if max(errors.values()) > 1e-4:
        msg = f"got forms that disagree: {errors}, expected relative errors below 1e-4"
        raise RuntimeError(msg)
    memory = {form: in_fresh_process(peak, form, given) for form in FORMS}
    tensors = inputs(given)
    seen = rounds(FORMS, lambda form, _: once(form, tensors), range(given.repeats + 1))
    found = {
        form: dict(zip(("forward_ms", "backward_ms"), medians(seen[form]), strict=True))
        | {"peak_mib": memory[form], "error": errors[form]}
        for form in FORMS
    }
    about = settings(given, "batch", "heads", "length", "width", "threads")
    print(f"{heading(about)}\n")
    base, rows = found["textbook"], []
    for form, one in found.items():
        forward, backward = one["forward_ms"], one["backward_ms"]
        both = (forward + backward) / (base["forward_ms"] + base["backward_ms"])
        mib = one["peak_mib"]
        cells = [form, f"{forward:.1f}", f"{backward:.1f}", both, f"{mib:.0f}"]
        ratio = mib / base["peak_mib"] if base["peak_mib"] else ""  # too small to be seen
        rows.append([*cells, ratio, f"{one['error']:.0e}"])
    times = ["forward ms", "backward ms", "both, ratio"]
    print(table(["form", *times, "peak MiB", "ratio", "largest error"], rows))
    save(given.out, {"settings": about, "forms": found})


if __name__ == "__main__":
    main()
