"""Speed of attacks, relative to that of the victim alone.

    python -m benchmarks.attack_cost [--data_dir DIR] [--resources DIR]
        [--victim tiny|mini|small|base] [--samples 100] [--recipes pwws,deepwordbug]
        [--repeats 2] [--device cuda] [--batch_size N]
        [--ckpt_path runs/NAME/checkpoints/best.ckpt] [--in_flight 1,8,64] [--out FILE.json]

For each recipe: the seconds of an attack, and, in the same process, those of plain forward passes
over its unique queries, sorted by length, in batches of the same size (with the sentence encoder's
passes over its own unique texts, where the recipe has one). Their ratio is the efficiency: 1 would
be an attack without any cost but the victim's. On a CPU it is the ratio of processor seconds,
which other programs disturb less. With `--in_flight a,b,c`, how the throughput grows with the
number of samples in flight, and the peak of the process's memory.

The victims: `small`, a Transformer of 4 layers and width 300; `mini`, one of 2 layers and width
128; `base`, one of BERT-base's size (12 layers, width 768); `tiny` is for tests. They are trained
for `--steps` steps on SST-2, or on the corpus Reviews without `--data_dir`, which is enough for
answers that differ.
"""

import time
from argparse import Namespace
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

import torch

import datamodules
import lit_modules
from attacks.composition import Attack
from attacks.engine import Engine, Limits, longest_first
from attacks.goals import Floats
from attacks.outcome import AttackRecord, Sample
from attacks.recipe_settings import RecipeSettings
from attacks.recipes import build
from attacks.resources.catalogue import Resources
from attacks.victims.kinds import ModuleVictim, fastest_batch
from benchmarks.command import command, line, save, settings, table
from benchmarks.program_runs import quiet_trainer
from benchmarks.timing import resident, time_work
from datamodules.labelled_texts import labelled_texts
from lit_modules.shared.optimisation import Optimisation
from text import Text

SIZES = {"tiny": (1, 16, 2), "mini": (2, 128, 4), "small": (4, 300, 6), "base": (12, 768, 12)}
"""Layers, width and heads."""
COLUMNS = ("wall", "plain", "efficiency", "victim", "queries", "unique", "success")


class RecordingVictim(ModuleVictim):
    """A victim that remembers its queries."""

    def __init__(self, victim: ModuleVictim) -> None:
        super().__init__(victim.module, batch_size=victim.batch_size, name=victim.name)
        self.texts: dict[Text, None] = {}
        self.seconds = 0.0

    def logits(self, texts: Sequence[Text]) -> Floats:
        """See `Victim`."""
        self.texts.update(dict.fromkeys(texts))
        started = time.perf_counter()
        answer = super().logits(texts)
        self.seconds += time.perf_counter() - started
        return answer


def victim_of(options: Namespace, corpus: datamodules.TextDataModule) -> lit_modules.TaskModule:
    """Return the trained victim."""
    if options.ckpt_path is not None:
        return lit_modules.load(options.ckpt_path)
    torch.manual_seed(0)
    depth, width, heads = SIZES[options.victim]
    module = lit_modules.TextClassifier(
        depth=depth,
        width=width,
        heads=heads,
        optimisation=Optimisation(optimizer=partial(torch.optim.AdamW, lr=5e-4)),
    )
    corpus.setup("fit")
    # The victim is trained here, so the corpus needs its vocabulary.
    corpus.tokenizer = module.build_tokenizer(corpus.train_texts())
    module.attach(corpus.tokenizer, corpus.class_names)
    accelerator = "gpu" if options.device == "cuda" else "cpu"
    trainer = quiet_trainer(
        max_steps=options.steps, limit_val_batches=0, accelerator=accelerator, devices=1
    )
    trainer.fit(module, datamodule=corpus)
    return module.eval()


def record_texts(attack: Attack) -> list[tuple[Any, dict[str, None]]]:
    """Return what computes in each sentence encoder of an attack, and its texts from here on."""
    pairs = []
    encoders = [getattr(constraint, "encoder", None) for constraint in attack.constraints]
    for encoder in filter(None, encoders):
        compute, texts = encoder._compute, dict[str, None]()

        def listening(new: Sequence[str], compute: Any = compute, texts: Any = texts) -> Any:
            texts.update(dict.fromkeys(new))
            return compute(new)

        # Below the cache of the encoder: only new texts are seen.
        encoder._compute = listening
        pairs.append((compute, texts))
    return pairs


def measure(
    name: str, victim: ModuleVictim, samples: Sequence[Sample], options: Namespace, flight: int
) -> list[float]:
    """Return the medians of one recipe over the repetitions, in the order of `COLUMNS`."""
    rows: list[tuple[float, ...]] = []
    for _ in range(options.repeats):
        attack = build(RecipeSettings(recipe=name), Resources(options.resources))
        encoders = record_texts(attack)
        recorder = RecordingVictim(victim)
        engine = Engine(attack, recorder, limits=Limits(in_flight=flight))
        records: list[AttackRecord] = []
        spent = time_work(partial(records.extend, engine.run(longest_first(samples, flight))))
        texts = list(recorder.texts)
        # The same texts without an attack: the least that the victim costs.
        passes = [time_work(partial(victim.logits, texts))]
        passes += [time_work(partial(part, list(new))) for part, new in encoders if new]
        wall, plain = spent.wall, sum(part.wall for part in passes)
        # On a busy machine the wall clock also counts what others do.
        clock = "wall" if options.device == "cuda" else "processor"
        share = sum(getattr(part, clock) for part in passes) / getattr(spent, clock)
        attacked = [record for record in records if record.attacked]
        success = sum(record.outcome == "succeeded" for record in attacked) / max(len(attacked), 1)
        queries = sum(record.queries for record in records)
        shares = (share, recorder.seconds / wall)
        rows.append((wall, plain, *shares, queries, len(texts), success))
    return [float(median(column)) for column in zip(*rows, strict=True)]


def main() -> None:
    """Measure and print."""
    parser = command(__doc__, "data_dir", "out", "device", repeats=2)
    parser.add_argument("--resources", help="folder of word vectors, WordNet and taggers")
    parser.add_argument("--victim", choices=sorted(SIZES), default="small")
    parser.add_argument("--ckpt_path", type=Path, help="attack this checkpoint instead")
    parser.add_argument("--steps", type=int, default=200, help="training steps of the victim")
    parser.add_argument("--samples", type=int, default=100)
    parser.add_argument("--batch_size", type=int, default=256)
    parser.add_argument("--recipes", default="pwws,deepwordbug,textfooler,textbugger")
    parser.add_argument("--in_flight", default="128", help="one number, or several to compare")
    options = parser.parse_args()

    corpus: datamodules.TextDataModule = datamodules.Reviews()
    if options.data_dir is not None:
        corpus = datamodules.SST2(data_dir=str(options.data_dir))
    module = victim_of(options, corpus).to(options.device)
    corpus.setup("test")
    texts = labelled_texts(corpus.examples("test")[: options.samples])
    samples = [Sample(sample_id=i, text=text, label=label) for i, text, label in texts]
    # One batch size for the attack and for the plain passes.
    options.batch_size = fastest_batch(module, options.batch_size)
    victim = ModuleVictim(module, batch_size=options.batch_size)
    victim.logits([sample.text for sample in samples])  # the first pass pays for everything
    weights = sum(parameter.numel() for parameter in module.parameters()) / 1e6
    print(f"{weights:.1f} M weights, {len(samples)} samples, {torch.get_num_threads()} threads\n")
    print(table(["recipe", "in flight", *COLUMNS, "peak MiB"], []))
    rows = []
    for name in options.recipes.split(","):
        for flight in options.in_flight.split(","):
            medians = measure(name, victim, samples, options, int(flight))
            rows.append(
                {"recipe": name, "in_flight": int(flight)}
                | dict(zip(COLUMNS, medians, strict=True))
            )
            figures = (f"{figure:.0f}" if figure >= 1000 else figure for figure in medians)
            print(line([name, flight, *figures, f"{resident():.0f}"]), flush=True)
    setup = settings(options, "victim", "samples", "batch_size", "steps", "device")
    save(options.out, {"settings": setup, "weights": weights * 1e6, "recipes": rows})


if __name__ == "__main__":
    main()
