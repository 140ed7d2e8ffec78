"""What adversarial training costs, beside plain training.

    python -m benchmarks.adversarial_cost --lengths 128 256 512 [--model minilm] [--batch 16]
        [--repeats 3] [--methods FreeLB-2 FreeLB-3 ...] [--out FILE.json] [--figure FILE.png]
    python -m benchmarks.adversarial_cost --corpus sst2 --data_dir DIR [--batches 8]
        [--init_from CHECKPOINT] [--sentence_encoder FOLDER] [--out FILE.json]
    python -m benchmarks.adversarial_cost --textattack --data_dir DIR --init_from CHECKPOINT
        [--textattack_python PYTHON] [--out FILE.json]
    python -m benchmarks.adversarial_cost --out FILE.json --figure FILE.png

`--lengths`: a training step (forward, backward, fused AdamW) of an encoder of `transformers` with
random weights on texts of so many random tokens, in single precision, beside figure 4a of the ASA
paper. `--corpus`: an epoch of `configs/text_classifier/<corpus>.yaml` against each adversary, from
some of its batches. `--textattack`: attacking the texts of these batches in lock step beside one by
one, and beside TextAttack 0.3.11 where an interpreter that has it is named.

All that is compared is measured in one run, one after the other in each round, and ratios are
taken within a round: of seconds of the processor on a CPU, which others may be using too, of the
wall clock on a GPU. `--out` keeps what the file has of the other parts; `--figure` draws from it.
"""

import argparse
import json
import os
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import torch

from app.figures.charts import Bars, grouped_bars
from app.runs import atomic
from app.training.join import training_samples
from attacks.composition import Attack
from attacks.outcome import Sample
from attacks.resources.catalogue import SENTENCE_ENCODER, Resources
from benchmarks import parity
from benchmarks.adversarial_epochs import Epoch, Task, by_adversary, task
from benchmarks.adversarial_steps import ASA, METHODS, NAIVE, PUBLISHED, SIZES, Cost, by_length
from benchmarks.adversarial_texts import (
    Compared,
    TextAttack,
    Way,
    both_ways,
    compared,
    whole_recipe,
    word_level,
)
from lit_modules.adversaries import Adversary, EpochTextAdversary, FGSMAdversary, TextAdversary

CORPORA = ("sst2", "reviews")


def lengths_table(found: Mapping[int, Mapping[str, Cost]]) -> str:
    """Ratios by length, beside the paper's; Markdown."""
    heads = " | ".join(f"N = {length}" for length in found)
    names = list(next(iter(found.values())))
    lines = [f"| step | {heads} | paper, N = 512 |", "|---" * (len(found) + 2) + "|"]
    for name in names:
        cells = []
        for costs in found.values():
            one = costs[name]
            peak = "" if one.peak is None else f", {one.peak:.0f} MiB"
            if one.peak is not None and name != NAIVE:
                peak += f" ({one.peak / (costs[NAIVE].peak or one.peak):.2f})"
            if name == NAIVE:
                cells.append(f"{one.seconds:.3g} s ({one.processor:.3g} s of processor){peak}")
            else:
                cells.append(f"{one.ratio:.2f} ({one.least:.2f} to {one.most:.2f}){peak}")
        lines.append(f"| {name} | {' | '.join(cells)} | {PUBLISHED.get(name, '')} |")
    return "\n".join(lines)


def memory_table(found: Mapping[int, Mapping[str, Cost]]) -> str:
    """What the graph of a text holds, in MiB and beside the naive step's; Markdown."""
    heads = " | ".join(f"N = {length}" for length in found)
    lines = [f"| graph of a text | {heads} |", "|---" * (len(found) + 1) + "|"]
    for name in next(iter(found.values())):
        cells = []
        for costs in found.values():
            one, naive = costs[name].graph or 0.0, costs[NAIVE].graph or 1.0
            cells.append(f"{one:.1f} MiB" if name == NAIVE else f"{one / naive:.2f}")
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return "\n".join(lines)


def corpus_table(found: Mapping[str, Epoch]) -> str:
    """Seconds and ratios of an epoch; Markdown."""
    lines = [
        "| training | seconds per epoch | of the processor | ratio | before the epoch |",
        "|---|---|---|---|---|",
    ]
    for name, one in found.items():
        before = f"{100 * one.generation:.0f} %" if one.generation >= 0.005 else ""
        cells = f"{one.seconds:.0f} | {one.processor:.0f} | {one.ratio:.2f} | {before}"
        lines.append(f"| {name} | {cells} |")
    return "\n".join(lines)


def texts_table(found: Mapping[str, Mapping[str, Compared]]) -> str:
    """Ways to attack the same texts; Markdown."""
    lines = [
        "| attack | way | seconds | of the processor | in the model | ratio | queries | success "
        "| same answers |",
        "|---" * 9 + "|",
    ]
    for attack, ways in found.items():
        for way, one in ways.items():
            times = f"{one.seconds:.2f} | {one.processor:.2f} | {one.victim:.2f}"
            cells = f"{times} | {one.ratio:.1f} | {one.queries} | {100 * one.success:.0f} %"
            lines.append(f"| {attack} | {way} | {cells} | {100 * one.agree:.0f} % |")
    return "\n".join(lines)


def adversaries(given: argparse.Namespace) -> dict[str, Adversary]:
    """What an epoch is measured with."""
    made: dict[str, Adversary] = {name: METHODS[name]() for name in given.methods if name != ASA}
    made["FGSM"] = FGSMAdversary()
    resources, encoder = str(given.resources), given.sentence_encoder
    for similarity, words in ((None, ""), (0.0, ", no sentence encoder")):
        made[f"TextFooler in every step, {given.budget} queries{words}"] = TextAdversary(
            query_budget=given.budget,
            resources=resources,
            sentence_encoder=encoder,
            similarity=similarity,
        )
    made["A2T before the epoch, 20 % of its texts"] = EpochTextAdversary(
        clean_epochs=0, resources=resources, sentence_encoder=encoder
    )
    return made


def attacked(given: argparse.Namespace, one: Task) -> dict[str, dict[str, Compared]]:
    """The texts of the batches, attacked in every way."""
    every = training_samples(one.corpus)
    batches = [
        [Sample(sample_id=i, text=every[i].text, label=every[i].label) for i in ids]
        for ids in (batch.sample_ids.tolist() for batch in (one.first, *one.batches))
    ]
    module, budget = one.module.eval(), given.budget
    encoder = given.sentence_encoder or SENTENCE_ENCODER

    def whole() -> Attack:
        return whole_recipe(Resources(given.resources, sentence_encoder=encoder))

    vectors = given.vectors or given.data_dir / parity.GLOVE

    def words() -> Attack:
        return word_level(Resources(given.resources, vectors=vectors))

    found = {"TextFooler": compared(both_ways(whole, module, budget=budget), batches)}
    ways = both_ways(words, module, budget=budget)
    title = "TextFooler as TextAttack does it, no sentence encoder"
    if given.textattack_python is None:
        found[title] = compared(ways, batches)
        return found
    with TextAttack(
        given.textattack_python, module, vectors=vectors, data_dir=given.data_dir, budget=budget
    ) as theirs:
        way = Way("TextAttack 0.3.11", theirs, theirs.victim, elsewhere=lambda: theirs.processor)
        found[title] = compared([*ways, way], batches)
    return found


def recorded(data_dir: Path) -> str:
    """What is known of TextAttack's time without having it."""
    peer = data_dir.parent / "peer"
    if not peer.is_dir():
        return f"No recorded answers of TextAttack: {peer} is absent."
    found = parity.compare("textfooler", data_dir, peer, repeats=3)
    return (
        f"Recorded on the victim of `peer/README.md`, {found.samples} texts, word level, "
        f"no budget: TextAttack {found.reference_seconds:.1f} s on an idle machine; here "
        f"{found.processor:.2f} s of the processor, {found.seconds:.2f} s"
    )


def drawn(content: Mapping[str, Any], path: Path) -> None:
    """The ratios by length, as a picture like figure 4a.

    Args:
        content: of the file that `--out` names.
        path: the PNG to write.

    Raises:
        ValueError: there is nothing about lengths in it.
    """
    found: dict[str, dict[str, dict[str, float]]] = content.get("lengths", {}).get("costs", {})
    if not found:
        msg = "got a file without lengths, expected one that --lengths 128 256 512 has filled"
        raise ValueError(msg)
    lengths = sorted(found, key=int)
    names = [name for name in found[lengths[0]] if name != NAIVE]
    settings = content["lengths"]["settings"]
    grouped_bars(
        lengths,
        [
            Bars(
                name=name,
                height=[found[length][name]["ratio"] for length in lengths],
                low=[found[length][name]["least"] for length in lengths],
                high=[found[length][name]["most"] for length in lengths],
            )
            for name in names
        ],
        path,
        x_label="tokens of a text",
        y_label="time of a step, in naive steps",
        title=f"{settings['model']}, batches of {settings['batch']}, {settings['where']}",
        line=1.0,
    )


def about(given: argparse.Namespace) -> dict[str, Any]:
    """Where and with what it is measured."""
    return {
        "torch": torch.__version__,
        "where": torch.cuda.get_device_name() if given.device == "cuda" else "CPU",
        "threads": torch.get_num_threads(),
        "load": round(os.getloadavg()[0], 1),
    }


def head(settings: Mapping[str, Any]) -> str:
    """The line above a table."""
    return ", ".join(f"{name} {value}" for name, value in settings.items())


def steps_part(given: argparse.Namespace) -> dict[str, Any]:
    """Steps by length, printed and returned."""
    settings = {
        "model": given.model,
        "batch": given.batch,
        "repeats": given.repeats,
        **about(given),
    }
    found = by_length(
        given.model,
        given.lengths,
        batch=given.batch,
        repeats=given.repeats,
        device=given.device,
        methods=given.methods,
    )
    costs: dict[int, dict[str, Cost]] = {}
    for length, one in found:
        costs[length] = one
        print(f"{length} tokens: {one[NAIVE].seconds:.3f} s naive", flush=True)
    print(f"\n{head(settings)}\n\n{lengths_table(costs)}\n", flush=True)
    print(f"{memory_table(costs)}\n", flush=True)
    rows = {str(k): {name: one._asdict() for name, one in row.items()} for k, row in costs.items()}
    return {"settings": settings, "costs": rows}


def epochs_part(given: argparse.Namespace, one: Task) -> dict[str, Any]:
    """Epochs, printed and returned."""
    settings = {"corpus": given.corpus, "batches": len(one.batches), "of": one.total}
    settings |= about(given)
    epochs = by_adversary(one, adversaries(given))
    print(f"{head(settings)}: extrapolated to the epoch\n\n{corpus_table(epochs)}\n", flush=True)
    return {"settings": settings, "epochs": {name: one._asdict() for name, one in epochs.items()}}


def texts_part(given: argparse.Namespace, one: Task) -> dict[str, Any]:
    """Ways to attack, printed and returned."""
    settings = {"corpus": one.corpus.corpus, "batches": len(one.batches), **about(given)}
    ways = attacked(given, one)
    known = recorded(given.data_dir)
    print(f"{head(settings)}\n\n{texts_table(ways)}\n\n{known}\n", flush=True)
    rows = {name: {k: way._asdict() for k, way in by.items()} for name, by in ways.items()}
    return {"settings": settings, "attacks": rows, "recorded": known}


def main(argv: Sequence[str] | None = None) -> None:
    """Measure, print, write, draw."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--lengths", type=int, nargs="+", help="tokens of the texts of a step")
    parser.add_argument("--model", choices=list(SIZES), default="minilm", help="its size")
    parser.add_argument("--batch", type=int, default=16, help="texts of a step")
    parser.add_argument("--repeats", type=int, default=3, help="rounds that count")
    parser.add_argument("--methods", nargs="+", choices=list(METHODS), default=list(METHODS))
    parser.add_argument("--corpus", choices=CORPORA, help="measure an epoch of it")
    parser.add_argument("--data_dir", type=Path, help="data directory (docs/data.md)")
    parser.add_argument("--batches", type=int, default=8, help="batches of the epoch")
    parser.add_argument(
        "--init_from", type=Path, help="checkpoint; an attack's cost depends on the weights"
    )
    parser.add_argument("--resources", type=Path, help="of the attacks; the data directory if null")
    parser.add_argument("--sentence_encoder", help="folder or hub name, as --attack has it")
    parser.add_argument("--vectors", type=Path, help="word vectors that TextAttack is given")
    parser.add_argument("--budget", type=int, default=100, help="queries for each text")
    parser.add_argument("--textattack", action="store_true", help="compare with one-by-one")
    parser.add_argument("--textattack_python", type=Path, help="interpreter with TextAttack 0.3.11")
    parser.add_argument("--threads", type=int, default=1, help="threads of torch")
    on_gpu = torch.cuda.is_available()
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cuda" if on_gpu else "cpu")
    parser.add_argument("--out", type=Path, help="where the numbers are kept, as JSON")
    parser.add_argument("--figure", type=Path, help="draw the lengths of --out, as PNG")
    given = parser.parse_args(argv)
    on_corpus = given.corpus is not None or given.textattack
    if not given.lengths and not on_corpus and given.figure is None:
        parser.error("give --lengths N ..., --corpus NAME, --textattack or --figure FILE")
    if on_corpus and given.data_dir is None:
        parser.error("give --data_dir DIR with --corpus and --textattack")
    if given.figure is not None and given.out is None:
        parser.error("give --out FILE with --figure, which is drawn from it")
    if (
        min(given.batch, given.repeats, given.threads, *(given.lengths or ())) < 1
        or given.batches < 2
    ):
        parser.error("give positive numbers, and at least two batches")
    given.resources = given.resources or given.data_dir
    torch.set_num_threads(given.threads)
    parts: dict[str, Callable[[], dict[str, Any]]] = {}
    if given.lengths:
        parts["lengths"] = partial(steps_part, given)
    if on_corpus:
        name = given.corpus or CORPORA[0]
        one = task(
            name,
            given.data_dir,
            batches=given.batches,
            init_from=given.init_from,
            device=given.device,
        )
        if given.corpus is not None:
            parts["corpus"] = partial(epochs_part, given, one)
        if given.textattack:
            parts["texts"] = partial(texts_part, given, one)
    for name, part in parts.items():
        content = read(given.out) | {name: part()}
        if given.out is not None:
            atomic.write_text(given.out, json.dumps(content, indent=2) + "\n")
    if given.figure is not None:
        drawn(read(given.out), given.figure)


def read(path: Path | None) -> dict[str, Any]:
    """What a file has of earlier runs."""
    content: dict[str, Any] = {}
    if path is not None and path.is_file():
        content = json.loads(path.read_text())
    return content


if __name__ == "__main__":
    main()
