"""Additive attention scores in three forms: time, memory, and that they agree.

    python -m benchmarks.additive_attention [--length 128 --batch 32 --heads 8 --width 256]

`textbook` is the definition, `pairs` has the absolute differences spelled out, `cdist` is what OLSA
uses. Times are medians of interleaved repeats of one process, memory is the peak of a fresh process
for each form without the memory of the inputs.
"""

from argparse import Namespace
from functools import partial

import torch
from torch import Tensor

from benchmarks.command import command, heading, save, settings, table
from benchmarks.timing import MIB, forward_and_backward, in_fresh_process, medians, resident, rounds
from layers.attention.additive import Form, additive_scores

FORMS: tuple[Form, ...] = ("textbook", "pairs", "cdist")


def inputs(options: Namespace) -> list[Tensor]:
    """Return random queries, keys and score vectors."""
    torch.manual_seed(0)
    tokens = (options.batch, options.heads, options.length, options.width // options.heads)
    return [
        torch.randn(sizes, device=options.device, requires_grad=True)
        for sizes in (tokens, tokens, (options.heads, tokens[-1]))
    ]


def weights(form: Form, tensors: list[Tensor]) -> Tensor:
    """Return attention weights, softmax included."""
    query, key, weight = tensors
    return additive_scores(query, key, weight, form=form).softmax(dim=-1)


def once(form: Form, tensors: list[Tensor]) -> tuple[float, float]:
    """Return the seconds of one forward and one backward pass."""
    return forward_and_backward(partial(weights, form, tensors), tensors, tensors[0].device.type)


def peak(form: Form, options: Namespace) -> float:
    """Return the MiB that one forward and backward pass needs in this process."""
    torch.set_num_threads(options.threads)
    # Kernels and thread pools are no memory of the form.
    once(form, inputs(Namespace(**vars(options) | {"batch": 1, "length": 4})))
    tensors = inputs(options)
    if options.device == "cuda":
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
        once(form, tensors)
        return (torch.cuda.max_memory_allocated() - before) / MIB
    # The peak never sinks, so only growth beyond the inputs counts.
    before_it = resident()
    once(form, tensors)
    return resident() - before_it


def disagreement(options: Namespace) -> dict[str, float]:
    """Return each form's largest relative error of weights and gradients against float64."""
    small = {"batch": min(options.batch, 2), "length": min(options.length, 32)}
    tensors = inputs(Namespace(**vars(options) | small))
    # The definition in float64 is the reference.
    exact = [tensor.detach().double().requires_grad_() for tensor in tensors]

    def run(form: Form, at: list[Tensor]) -> list[Tensor]:
        actual = weights(form, at)
        return [actual, *torch.autograd.grad(actual.square().sum(), at)]

    expected = run("textbook", exact)
    return {
        form: max(
            float((actual.double() - true).detach().abs().max() / true.detach().abs().max())
            for actual, true in zip(run(form, tensors), expected, strict=True)
        )
        for form in FORMS
    }


def main() -> None:
    """Measure, check and print."""
    parser = command(__doc__, "length", "repeats", "threads", "out", batch=32, device="cpu")
    parser.add_argument("--heads", type=int, default=8, help="attention heads")
    parser.add_argument("--width", type=int, default=256, help="token width")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    errors = disagreement(options)
    if max(errors.values()) > 1e-4:
        msg = f"got forms that disagree: {errors}, expected relative errors below 1e-4"
        raise RuntimeError(msg)
    memory = {form: in_fresh_process(peak, form, options) for form in FORMS}
    tensors = inputs(options)
    # Round 0 pays for start-up: `rounds` leaves it out.
    measurements = rounds(FORMS, lambda form, _: once(form, tensors), range(options.repeats + 1))
    columns = {
        form: dict(zip(("forward_ms", "backward_ms"), medians(measurements[form]), strict=True))
        | {"peak_mib": memory[form], "error": errors[form]}
        for form in FORMS
    }
    setup = settings(options, "batch", "heads", "length", "width", "threads")
    print(f"{heading(setup)}\n")
    base, rows = columns["textbook"], []
    for form, column in columns.items():
        forward, backward = column["forward_ms"], column["backward_ms"]
        both = (forward + backward) / (base["forward_ms"] + base["backward_ms"])
        mib = column["peak_mib"]
        cells = [form, f"{forward:.1f}", f"{backward:.1f}", both, f"{mib:.0f}"]
        ratio = mib / base["peak_mib"] if base["peak_mib"] else ""  # too small to be seen
        rows.append([*cells, ratio, f"{column['error']:.0e}"])
    times = ["forward ms", "backward ms", "both, ratio"]
    print(table(["form", *times, "peak MiB", "ratio", "largest error"], rows))
    save(options.out, {"settings": setup, "forms": columns})


if __name__ == "__main__":
    main()
