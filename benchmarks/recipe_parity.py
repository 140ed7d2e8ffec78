"""Recipes next to those of TextAttack 0.3.11 itself, on the fixed victim of `peer/README.md`.

    python -m benchmarks.recipe_parity
    python -m benchmarks.recipe_parity --data_dir DIR --python PEER/bin/python [--rows 100]
        [--recipes pruthi,kuleshov,bert-attack] [--query_budget N] [--masked_lm FOLDER] [--out F]

The first command prints what `compat="textattack"` does for each recipe (docs/attacks/parity.md).

`PEER/bin/python` has TextAttack. Both attack the same rows of SST-2 with `compat="textattack"` and
GloVe vectors of 50 numbers; each recipe is that of TextAttack, but for what `CHANGED` says and the
table repeats. BAE, BERT-Attack and CLARE take words from a small masked language model of random
weights, which this command makes of the same rows, or from that of `--masked_lm`. All recipes here
are deterministic, and are compared verdict by verdict.
"""

import gzip
import tempfile
import time
from collections.abc import Sequence
from dataclasses import fields, is_dataclass, replace
from pathlib import Path
from typing import Any

import torch

from attacks.composition import Attack
from attacks.digests import file_digest
from attacks.document import words_of
from attacks.engine import Engine, Limits
from attacks.outcome import Sample
from attacks.recipe_settings import RecipeSettings
from attacks.recipes import build, find_recipe, recipe_names
from attacks.resources.catalogue import Resources
from attacks.resources.stop_words import ENGLISH, TEXTFOOLER
from attacks.summary import IntervalEstimate, mean, wilson
from attacks.transformations import Composite
from attacks.victims.kinds import CallableVictim
from benchmarks.command import command, save, table
from benchmarks.parity import GLOVE, FixedVictim, answer, samples
from benchmarks.textattack_process import RECIPES, TextAttackProcess
from layers.architectures import build_masked_lm
from layers.pretrained_encoders import save_model
from text import save_tokenizer, train_word_piece

CANDIDATES = 10
"""Words that CLARE proposes for a place."""
Answer = dict[str, Any]
"""Outcome, queries and text of a row."""
_NO_ENCODER = "no sentence encoder"
_SMALL_MODEL = "a small masked language model of random weights"
CHANGED = {
    "pwws": "",
    "textfooler": _NO_ENCODER,
    "deepwordbug": "each place in place of a random one; the only letter is e",
    "textbugger": f"{_NO_ENCODER}; each place in place of a random one",
    "bae": f"{_NO_ENCODER}; {_SMALL_MODEL}",
    "bert-attack": f"{_NO_ENCODER}; {_SMALL_MODEL}",
    "clare": f"{_NO_ENCODER}; {_SMALL_MODEL}; nltk's tagger; {CANDIDATES} words for a place",
    "pruthi": "the only letter is e",
    "kuleshov": "no language model; vectors of words alone (with marks TextAttack fails)",
    "input-reduction": "",
}
"""What is changed on both sides, by recipe: without it, two programs cannot agree."""
MODELS = ("bae", "bert-attack", "clare")
"""Recipes with a masked language model."""


def composed(name: str, resources: Resources) -> Attack:
    """Returns the recipe with the changes of `CHANGED`.

    Args:
        name: of the recipe.
        resources: vectors, WordNet, and the masked language model.
    """
    has = find_recipe(name).settings
    settings: dict[str, Any] = {part: 0.0 for part in ("fluency", "similarity") if part in has}
    if name == "clare":
        settings["candidates"] = CANDIDATES
    attack = build(RecipeSettings(recipe=name, compat="textattack", **settings), resources)
    swaps = getattr(attack.transformation, "transformations", [])
    fixed = [_fixed(part) for part in swaps]
    return attack if fixed == swaps else replace(attack, transformation=Composite(fixed))


def _fixed(part: Any) -> Any:
    """Returns a transformation of characters without random numbers."""
    names = {field.name for field in fields(part)} if is_dataclass(part) else set()
    changes: dict[str, Any] = {"one": False, "letters": "e"}
    changes = {name: value for name, value in changes.items() if name in names}
    return replace(part, **changes) if changes else part


def _vectors(name: str, data_dir: Path) -> Path:
    """Returns the file of vectors; without marks where TextAttack fails with them."""
    path = data_dir / GLOVE
    return vectors_of_words(path) if name == "kuleshov" else path


def compat_table() -> str:
    """Returns what `compat="textattack"` does for each recipe, as Markdown."""
    rows = [
        [name, "yes", recipe.differs or "nothing"]
        if recipe.refused is None
        else [name, "refused", recipe.refused]
        for name, recipe in ((name, find_recipe(name)) for name in recipe_names())
    ]
    return table(["recipe", "`compat`", "what differs in TextAttack"], rows)


def vectors_of_words(path: Path) -> Path:
    """Returns a file with those vectors of another one that are of one word, and of no mark.

    A mark in the place of a word leaves TextAttack a text with a word less: some of its searches
    and its sentence encoder end with an error there.
    """
    made = Path(tempfile.gettempdir()) / f"vectors-of-words-{file_digest(path)[:16]}.txt"
    opened = gzip.open if path.suffix == ".gz" else open
    with opened(path, "rt", encoding="utf-8") as stream:
        rows = [row for row in stream if words_of(row.split(" ")[0]) == [row.split(" ")[0]]]
    made.write_text("".join(rows), encoding="utf-8")
    return made


def small_model(folder: Path, texts: Sequence[str]) -> Path:
    """Writes a masked language model of random weights that both sides can read.

    Args:
        folder: for its files.
        texts: its word pieces are learnt from them.

    Returns:
        The folder.
    """
    tokenizer = train_word_piece(texts, 1000, max_length=512)
    torch.manual_seed(0)
    shape = {"hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2}
    model: Any = build_masked_lm(
        {
            "model_type": "bert",
            "vocab_size": tokenizer.vocab_size,
            "intermediate_size": 64,
            # Large weights, so that some words are likely and others are not.
            "initializer_range": 0.3,
            **shape,
        }
    )
    with torch.no_grad():
        model.get_output_embeddings().bias[sorted(tokenizer.special_ids)] = -1e4
    save_model(model, folder)
    save_tokenizer(tokenizer, folder)
    return folder


class Sides:
    """Attacks the same rows from both sides.

    Args:
        victim: the victim.
        data_dir: corpora and resources.
        budget: queries of a row; None for no limit.
        model: folder of the masked language model.
    """

    def __init__(
        self, victim: FixedVictim, *, data_dir: Path, budget: int | None, model: Path
    ) -> None:
        self.victim, self.data_dir, self.budget, self.model = victim, data_dir, budget, model

    def theirs(
        self, name: str, python: Path, chosen: Sequence[Sample]
    ) -> tuple[list[Answer], float]:
        """Returns the answers of TextAttack, row by row, and its seconds without imports.

        Raises:
            RuntimeError: the other interpreter ended without an answer.
        """
        settings = {
            "recipe": name,
            "exact": True,
            "vectors": str(_vectors(name, self.data_dir).resolve()),
            "stop_words": sorted(TEXTFOOLER if name == "textfooler" else ENGLISH),
            "seed": 0,
            "distance": 0.5,
            "query_budget": self.budget,
            "masked_lm": str(self.model.resolve()) if name in MODELS else None,
            "candidates": CANDIDATES,
        }
        with TextAttackProcess(python, RECIPES, settings, data_dir=self.data_dir) as process:
            process.wait()
            started = time.monotonic()
            results: list[Answer] = process.attack(chosen, self.victim)["results"]
            return results, time.monotonic() - started

    def ours(self, name: str, chosen: Sequence[Sample]) -> tuple[list[Answer], float]:
        """Returns our answers, row by row, and the seconds."""
        resources = Resources(
            self.data_dir, vectors=_vectors(name, self.data_dir), masked_lm=self.model
        )
        attack, started = composed(name, resources), time.monotonic()
        victim = CallableVictim(self.victim, outputs="probabilities")
        engine = Engine(attack, victim, limits=Limits(query_budget=self.budget))
        records = sorted(engine.run(chosen), key=lambda record: record.sample_id)
        seconds = time.monotonic() - started
        return [answer(record) for record in records], seconds


def row(name: str, mine: Sequence[Answer], other: Sequence[Answer], seconds: str) -> list[str]:
    """Returns the cells of a recipe: figures of both sides, and the rows with equal answers."""
    keys = ("outcome", "queries", "text")
    pairs = list(zip(mine, other, strict=True))
    same = sum(all(ours[key] == theirs[key] for key in keys) for ours, theirs in pairs)
    cells = [name]
    attacked = [
        [answer for answer in side if answer["outcome"] != "skipped"] for side in (mine, other)
    ]
    for side in attacked:
        won = sum(answer["outcome"] == "succeeded" for answer in side)
        cells.append(_cell(wilson(won, len(side))) if side else "-")
    for side in attacked:
        queries = mean([float(answer["queries"]) for answer in side])
        cells.append("-" if queries is None else _cell(queries))
    return [*cells, seconds, f"{same}/{len(pairs)}"]


def _cell(estimate: IntervalEstimate) -> str:
    return f"{estimate.value:.3g} [{estimate.low:.3g}, {estimate.high:.3g}]"


def main(argv: Sequence[str] | None = None) -> None:
    """Runs both and prints a row per recipe."""
    parser = command(__doc__, "out")
    parser.add_argument("--data_dir", type=Path, help="data directory")
    parser.add_argument("--peer", type=Path, help="default: `peer` beside the data")
    parser.add_argument("--python", type=Path, help="interpreter with TextAttack")
    parser.add_argument("--rows", type=int, default=100, help="of the test split, from the first")
    parser.add_argument("--query_budget", type=int, help="for each text; none if not given")
    parser.add_argument("--recipes", default=",".join(CHANGED))
    parser.add_argument("--masked_lm", type=Path, help="folder; a small one of random weights")
    args = parser.parse_args(argv)
    if args.data_dir is None or args.python is None:
        if args.data_dir or args.python:
            parser.error("got one of --data_dir and --python, expected both, or none of them")
        print(compat_table())
        return
    names = args.recipes.split(",")
    if unknown := [name for name in names if name not in CHANGED]:
        parser.error(f"got --recipes {','.join(unknown)}, expected some of {', '.join(CHANGED)}")
    peer = args.peer or args.data_dir.parent / "peer"
    victim = FixedVictim(peer / "victim.json")
    chosen = samples(args.data_dir / "sst2_sentences" / "test.tsv", range(args.rows))
    results, head = [], ["recipe", "success", "TextAttack", "queries", "TextAttack", "s", "same"]
    with tempfile.TemporaryDirectory() as folder:
        model = args.masked_lm or small_model(Path(folder), [str(one.text) for one in chosen])
        sides = Sides(victim, data_dir=args.data_dir, budget=args.query_budget, model=model)
        for name in names:
            mine, own = sides.ours(name, chosen)
            other, peers = sides.theirs(name, args.python, chosen)
            change = CHANGED[name] or "nothing"
            results.append({"recipe": name, "ours": mine, "theirs": other, "changed": change})
            print(table(head, [row(name, mine, other, f"{own:.1f}, {peers:.1f}")]))
            print(f"changed on both sides: {change}\n", flush=True)
            save(args.out, results)


if __name__ == "__main__":
    main()
