"""Cost of perturbation sets: certificates relative to predictions, robust steps to plain ones.

    python -m benchmarks.set_certificates --data_dir DIR [--sets pwws,deepwordbug]
        [--resources DIR] [--texts 1821] [--steps 40] [--batch 256] [--out FILE]

Three methods on SST-2: WordScores with words alone (`window 1`) and with pairs of words, and
TextCNN. Their words are those of the training split and of the sets; they are trained for as many
steps as are timed. A prediction is that of `predict`: it splits, corrects and scores raw texts. A
certificate is for 1, 2, 3 and any number of words, on the same texts, with the worst text of each
that does not hold; `lists` is what it does once, for all words of the texts. Times are medians, of
the processor, over rounds in which all take turns.
"""

from argparse import Namespace
from collections.abc import Callable
from copy import deepcopy
from functools import partial
from itertools import cycle, islice

import torch
from torch.nn import functional

from attacks.resources.catalogue import Resources
from attacks.word_sets import find_sets
from benchmarks.command import command, heading, save, settings, table
from benchmarks.timing import median_seconds, silence, time_work
from certify.threats import Substitutions, TextCertifier
from datamodules import SST2
from lit_modules import TaskModule, TextCNN, WordRobustness, WordScores
from text import Batch, WordSettings, collate

FRONT = WordSettings(split="joined", front_end="spelling")
KS = (1, 2, 3, None)
METHODS: dict[str, Callable[..., TaskModule]] = {
    "WordScores, window 1": partial(WordScores, window=1, words=FRONT, min_count=2),
    "WordScores, window 2": partial(WordScores, window=2, words=FRONT, min_count=2),
    "TextCNN": partial(TextCNN, words=FRONT, min_count=2),
}


class Trained:
    """A method, its batches and its optimiser."""

    def __init__(self, module: TaskModule, batches: list[Batch]) -> None:
        module.on_fit_start()
        self.module, self.batches = module, cycle(batches)
        self.optimizer = torch.optim.Adam(module.parameters(), lr=0.01)

    def train(self, steps: int) -> None:
        """Take some steps."""
        module = self.module.train()
        for batch in islice(self.batches, steps):
            assert batch.labels is not None  # of the training split
            logits = module(batch)
            if isinstance(module, WordScores):
                loss = module._loss(batch, logits, batch.labels, torch.ones(len(batch)))
            else:
                losses = functional.cross_entropy(logits, batch.labels, reduction="none")
                if isinstance(module, TextCNN) and module.options is not None:
                    losses = module._robust(batch, batch.labels, losses)
                loss = losses.mean()
            self.optimizer.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call] # torch leaves it untyped
            self.optimizer.step()
        module.eval()


def prepare(
    make: Callable[..., TaskModule], options: Namespace, rows: list[tuple[str, int]]
) -> tuple[Trained, Trained]:
    """Return a method without robust training, and with it, on the same words and batches."""
    against = WordRobustness(against=options.sets, resources=options.resources, kappa=0.9)
    robust = make(robustness=against)
    tokenizer = robust.build_tokenizer([text for text, _ in rows])
    batches = []
    for start in range(0, len(rows), options.batch):
        texts, labels = zip(*rows[start : start + options.batch], strict=True)
        encodings = tokenizer.encode(texts)
        batches.append(collate(encodings, pad_id=tokenizer.pad_id, labels=list(labels)))
    both = []
    for module in (make(), robust):
        if isinstance(module, WordScores) and isinstance(robust, WordScores):
            module.ngrams, module.ngram_counts = robust.ngrams, robust.ngram_counts
        module.attach(tokenizer, ["negative", "positive"])
        module.configure_model()
        both.append(Trained(module, batches))
    return both[0], both[1]


def main() -> None:
    """Measure and print."""
    parser = command(__doc__, "data_dir", "out", batch=256, repeats=5)
    text = "perturbation sets (docs/robust_words.md)"
    parser.add_argument("--sets", default="pwws,deepwordbug", help=text)
    parser.add_argument("--resources", metavar="DIR", help="folder with WordNet")
    parser.add_argument("--texts", type=int, default=1821, help="texts of the test split")
    parser.add_argument("--steps", type=int, default=40, help="training steps of a round")
    options = parser.parse_args()
    # Processor time of several threads would depend on how they wait.
    torch.set_num_threads(1)
    corpus = SST2(data_dir=options.data_dir)
    corpus.setup("fit")
    corpus.setup("test")
    count = options.steps * options.batch
    rows = [
        (str(example.text), example.label)
        for example in islice(corpus.examples("train"), count)
        if isinstance(example.label, int)
    ]
    texts = [str(example.text) for example in islice(corpus.examples("test"), options.texts)]
    threat: Substitutions = find_sets(options.sets, FRONT, Resources(options.resources))
    figures: dict[str, dict[str, float]] = {}
    for name, make in METHODS.items():
        plain, robust = prepare(make, options, rows)
        steps = {"plain step": plain, "robust step": robust}
        work = {way: partial(trained.train, options.steps) for way, trained in steps.items()}
        seconds = median_seconds(work, options.repeats)
        figures[name] = seconds | time_certificates(robust.module, threat, texts, options.repeats)
    setup = settings(options, "sets", "texts", "steps", "batch")
    print(f"{heading(setup)}\n\n{draw_table(figures, len(texts), options.steps)}")
    save(options.out, {"settings": setup, "seconds": figures})


def time_certificates(
    module: TaskModule, threat: Substitutions, texts: list[str], repeats: int
) -> dict[str, float]:
    """Return seconds of predictions, certificates and lists of texts, and the share that holds."""
    # A copy: its layers change their precision. The checks of the code are not timed.
    certifier: TextCertifier = deepcopy(module).own_certifier(threat)
    with silence():
        first = time_work(partial(certifier, texts, (None,))).compared
    ways: dict[str, Callable[[], object]] = {
        "prediction": partial(module.predict_texts, texts),
        "certificate, any number": partial(certifier, texts, (None,)),
        "certificate, 1 2 3 all": partial(certifier, texts, KS),
    }
    seconds = median_seconds(ways, repeats)
    held = [one.holds[0] for one in certifier(texts, (None,))]
    return {**seconds, "lists": first, "held": sum(held) / len(held)}


def draw_table(figures: dict[str, dict[str, float]], texts: int, steps: int) -> str:
    """Return a row for each method, of so many texts and training steps."""
    lines = []
    for name, each in figures.items():
        certificates = [each[way] for way in ("certificate, any number", "certificate, 1 2 3 all")]
        lines.append(
            [
                name,
                1e6 * each["prediction"] / texts,
                *(value / each["prediction"] for value in certificates),
                each["lists"],
                100 * each["held"],
                1e3 * each["plain step"] / steps,
                each["robust step"] / each["plain step"],
            ]
        )
    head = [
        "method",
        "us a prediction",
        "certificate, any number: ratio",
        "certificate, 1 2 3 all: ratio",
        "lists, s",
        "held, %",
        "ms a plain step",
        "robust step: ratio",
    ]
    return table(head, lines)


if __name__ == "__main__":
    main()
