"""How near the attacks run to the speed of the victim itself.

    python -m benchmarks.attacks --data_dir DIR --resources DIR [--victim small|base]
        [--samples 100] [--recipes pwws,deepwordbug] [--repeats 2]
        [--ckpt_path runs/NAME/checkpoints/best.ckpt]
        [--in_flight 1,8,64]

For each recipe: the seconds of an attack, and, in the same process, those of plain forward passes
over its unique queries, sorted by length, in batches of the same size (with the sentence encoder's
passes over its own unique texts, where the recipe has one). Their ratio is the efficiency: 1 would
be an attack that costs nothing beside the victim. With `--in_flight a,b,c`, how the throughput
grows with the number of samples in flight; beside it the peak of the process's memory.

The victims: `small`, a Transformer of 4 layers and width 300; `base`, one of BERT-base's size (12
layers, width 768). They are trained for `--steps` steps, which is enough for answers that differ.
"""

import argparse
import resource
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import Any

import pytorch_lightning as pl
import torch

import datamodules
import lit_modules
from app.training.join import labelled_texts
from attacks.composition import Attack
from attacks.engine import Engine, Limits
from attacks.goals import Floats
from attacks.outcome import AttackRecord, Sample
from attacks.recipes import build
from attacks.resources.catalogue import Resources
from attacks.victims.kinds import ModuleVictim
from text import Text

SIZES = {"small": (4, 300, 6), "base": (12, 768, 12)}
"""Layers, width and heads."""


class Recorder:
    """A victim that remembers what it was asked.

    Args:
        victim: what answers.
    """

    def __init__(self, victim: ModuleVictim) -> None:
        self.victim, self.name = victim, victim.name
        self.texts: dict[Text, None] = {}
        self.seconds = 0.0

    def logits(self, texts: Sequence[Text]) -> Floats:
        """See `Victim`."""
        self.texts.update(dict.fromkeys(texts))
        started = time.perf_counter()
        answer = self.victim.logits(texts)
        self.seconds += time.perf_counter() - started
        return answer

    def word_weights(self, documents: Any) -> list[list[float]]:
        """See `WhiteBox`."""
        white: Any = self.victim
        weights: list[list[float]] = white.word_weights(documents)
        return weights


def victim_of(arguments: argparse.Namespace, corpus: datamodules.SST2) -> lit_modules.TaskModule:
    """The trained victim."""
    if arguments.ckpt_path is not None:
        return lit_modules.load(arguments.ckpt_path)
    torch.manual_seed(0)
    depth, width, heads = SIZES[arguments.victim]
    module = lit_modules.TextClassifier(
        depth=depth,
        width=width,
        heads=heads,
        optimizer=lambda parameters: torch.optim.AdamW(parameters, lr=5e-4),
    )
    corpus.setup("fit")
    corpus.tokenizer = module.build_tokenizer(corpus.train_texts())
    module.attach(corpus.tokenizer, corpus.class_names)
    trainer = pl.Trainer(
        accelerator="cpu",
        max_steps=arguments.steps,
        limit_val_batches=0,
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        use_distributed_sampler=False,
    )
    trainer.fit(module, datamodule=corpus)
    return module.eval()


class Encoded:
    """Remembers what the sentence encoders of an attack had to compute.

    Args:
        attack: the attack; its encoders are listened to from here on.
    """

    def __init__(self, attack: Attack) -> None:
        self._computed: list[tuple[Any, dict[str, None]]] = []
        encoders = [getattr(constraint, "encoder", None) for constraint in attack.constraints]
        for encoder in filter(None, encoders):
            self._listen(encoder)

    def _listen(self, encoder: Any) -> None:
        compute, texts = encoder._compute, dict[str, None]()

        def listening(new: Sequence[str]) -> Any:
            texts.update(dict.fromkeys(new))
            return compute(new)

        encoder._compute = listening
        self._computed.append((compute, texts))

    def seconds(self) -> float:
        """Of plain passes over each of these texts once."""
        started = time.perf_counter()
        for compute, texts in self._computed:
            if texts:
                compute(list(texts))
        return time.perf_counter() - started


def measure(
    name: str, victim: ModuleVictim, samples: Sequence[Sample], arguments: argparse.Namespace
) -> dict[str, float]:
    """One recipe: medians over the repetitions."""
    rows: list[dict[str, float]] = []
    for _ in range(arguments.repeats):
        attack = build(name, Resources(arguments.resources))
        encoded = Encoded(attack)
        recorder = Recorder(victim)
        engine = Engine(attack, recorder, limits=Limits(in_flight=arguments.flight))
        started = time.perf_counter()
        records: list[AttackRecord] = list(engine.run(samples))
        wall = time.perf_counter() - started
        texts = list(recorder.texts)
        started = time.perf_counter()
        victim.logits(texts)
        plain = time.perf_counter() - started
        plain += encoded.seconds()
        attacked = [record for record in records if record.outcome != "skipped"]
        rows.append(
            {
                "wall": wall,
                "plain": plain,
                "efficiency": plain / wall,
                "victim": recorder.seconds / wall,
                "queries": sum(record.queries for record in records),
                "unique": len(texts),
                "success": sum(r.outcome == "succeeded" for r in attacked) / max(len(attacked), 1),
            }
        )
    return {key: median(row[key] for row in rows) for key in rows[0]}


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--data_dir", required=True, help="folder of corpora, with sst2_sentences")
    parser.add_argument("--resources", help="folder of word vectors, WordNet and taggers")
    parser.add_argument("--victim", choices=sorted(SIZES), default="small")
    parser.add_argument("--ckpt_path", type=Path, help="attack this checkpoint instead")
    parser.add_argument("--steps", type=int, default=200, help="training steps of the victim")
    parser.add_argument("--samples", type=int, default=100)
    parser.add_argument("--batch_size", type=int, default=256)
    parser.add_argument("--recipes", default="pwws,deepwordbug,textfooler,textbugger")
    parser.add_argument("--in_flight", default="64", help="one number, or several to compare")
    parser.add_argument("--repeats", type=int, default=2)
    arguments = parser.parse_args()

    corpus = datamodules.SST2(data_dir=arguments.data_dir)
    module = victim_of(arguments, corpus)
    corpus.setup("test")
    examples = corpus.examples("test")[: arguments.samples]
    samples = [
        Sample(sample_id=sample_id, text=text, label=label)
        for sample_id, text, label in labelled_texts(examples)
    ]
    victim = ModuleVictim(module, batch_size=arguments.batch_size)
    victim.logits([sample.text for sample in samples])  # the first pass pays for everything
    weights = sum(parameter.numel() for parameter in module.parameters()) / 1e6
    print(f"{weights:.1f} M weights, {len(samples)} samples, {torch.get_num_threads()} threads")
    columns = ("wall", "plain", "efficiency", "victim", "queries", "unique", "success")
    print(f"{'recipe':<14}{'in flight':>10}" + "".join(f"{c:>12}" for c in columns) + "   peak MiB")
    for name in arguments.recipes.split(","):
        for flight in arguments.in_flight.split(","):
            arguments.flight = int(flight)
            found = measure(name, victim, samples, arguments)
            peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
            print(
                f"{name:<14}{flight:>10}"
                + "".join(
                    f"{found[c]:>12.0f}" if found[c] >= 1000 else f"{found[c]:>12.3f}"
                    for c in columns
                )
                + f"{peak:>11}",
                flush=True,
            )


if __name__ == "__main__":
    main()
