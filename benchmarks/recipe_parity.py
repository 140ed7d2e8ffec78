"""Recipes beside those of TextAttack 0.3.11 itself, on the fixed victim of `peer/README.md`.

    python -m benchmarks.recipe_parity --data_dir DIR --python PEER/bin/python [--rows 100]
        [--recipes pruthi,kuleshov,bert-attack] [--query_budget N] [--masked_lm FOLDER] [--out F]

`PEER/bin/python` has TextAttack (docs/attacks/parity.md). Both attack the same rows of SST-2 with
`compat="textattack"`, GloVe vectors of 50 numbers, and without the models that TextAttack
downloads. BERT-Attack and CLARE take words from a small masked language model of random weights,
which this command makes of the same rows, or from that of `--masked_lm`; CLARE proposes 10 words
for a place. CheckList has contractions only, in rows whose contractions are joined ("is n't"
becomes "isn't"). Deterministic recipes (`EXACT`) are compared verdict by verdict; the others, whose
random numbers, word lists or searches differ, by the intervals of their figures.
"""

import gzip
import tempfile
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from attacks.composition import Attack
from attacks.constraints import WordDistance
from attacks.constraints.fluency import Fluency
from attacks.constraints.thought_vectors import ThoughtVectors
from attacks.digests import file_digest
from attacks.document import words_of
from attacks.engine import Engine, Limits
from attacks.goals import Unchanged, make_goal
from attacks.outcome import Sample
from attacks.recipe_settings import RecipeSettings
from attacks.recipes import HAS, build
from attacks.resources.catalogue import Resources
from attacks.resources.stop_words import ENGLISH
from attacks.summary import Estimate, mean, wilson
from attacks.transformations import (
    Composite,
    Contract,
    DeleteCharacter,
    Expand,
    InsertCharacter,
    SwapCharacters,
)
from attacks.victims.kinds import CallableVictim
from benchmarks.command import command, save, table
from benchmarks.parity import GLOVE, FixedVictim, answer, samples
from benchmarks.textattack_process import RECIPES, TextAttackProcess
from layers.architectures import build_masked_lm
from layers.pretrained_encoders import save_model
from text import save_tokenizer, train_word_piece

ALL = (
    *("pruthi", "kuleshov", "bert-attack", "checklist", "clare", "iga", "alzantot"),
    *("faster-alzantot", "pso", "input-reduction", "morpheus", "bad-characters"),
)
EXACT = ("pruthi", "kuleshov", "bert-attack", "checklist", "clare")
"""Recipes that are compared verdict by verdict."""
MODELS = ("bert-attack", "clare")
"""Recipes with a masked language model."""
CANDIDATES = 10
"""Words that CLARE proposes for a place."""
FAR = 25.0
"""Squared distance of GloVe vectors, which are not of length 1: 0.5 would leave no neighbours."""


def composed(name: str, resources: Resources) -> Attack:
    """Returns the recipe without the parts that the other side cannot have.

    Args:
        name: of the recipe.
        resources: vectors, WordNet, and the masked language model.
    """
    settings: dict[str, Any] = {"fluency": 0.0} if "fluency" in HAS.get(name, ()) else {}
    if name in MODELS:
        settings["similarity"] = 0.0
    if name == "clare":
        settings["candidates"] = CANDIDATES
    given = RecipeSettings(recipe=name, compat="textattack", **settings)
    attack = build(given, resources)
    constraints = [
        one for one in attack.constraints if not isinstance(one, Fluency | ThoughtVectors)
    ]
    for one in constraints:
        if isinstance(one, WordDistance):
            one.maximum = FAR
    attack = replace(attack, constraints=constraints)
    if name == "pruthi":
        inner = {"one": False, "keep_first": True, "keep_last": True}
        swaps = [
            SwapCharacters(**inner),
            DeleteCharacter(**inner),
            InsertCharacter(letters="e", **inner),
        ]
        attack = replace(attack, transformation=Composite(swaps))
    if name == "checklist":
        attack = replace(attack, transformation=Composite([Expand(), Contract()]))
    goal = make_goal(compat="textattack")
    return attack if isinstance(attack.goal, Unchanged) else attack.aiming(goal)


def _vectors(name: str, data_dir: Path) -> Path:
    """Returns the file of vectors; without marks for Alzantot, with which TextAttack fails."""
    path = data_dir / GLOVE
    return vectors_of_words(path) if "alzantot" in name else path


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


def joined(sample: Sample) -> Sample:
    """Returns a row of SST-2 with its contractions as people write them."""
    text = str(sample.text)
    return replace(sample, text=text.replace(" n't", "n't").replace(" '", "'"))


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
    ) -> tuple[list[dict[str, Any]], float]:
        """Returns the answers of TextAttack, row by row, and its seconds without imports.

        Raises:
            RuntimeError: the other interpreter ended without an answer.
        """
        settings = {
            "recipe": name,
            "exact": True,
            "vectors": str(_vectors(name, self.data_dir).resolve()),
            "stop_words": sorted(ENGLISH),
            "seed": 0,
            "distance": FAR,
            "query_budget": self.budget,
            "masked_lm": str(self.model.resolve()) if name in MODELS else None,
            "candidates": CANDIDATES,
        }
        with TextAttackProcess(python, RECIPES, settings, data_dir=self.data_dir) as process:
            process.wait()
            started = time.monotonic()
            results: list[dict[str, Any]] = process.attack(chosen, self.victim)["results"]
            return results, time.monotonic() - started

    def ours(self, name: str, chosen: Sequence[Sample]) -> tuple[list[dict[str, Any]], float]:
        """Returns our answers, row by row, and the seconds."""
        resources = Resources(
            self.data_dir, vectors=_vectors(name, self.data_dir), masked_lm=self.model
        )
        attack, started = composed(name, resources), time.monotonic()
        victim = CallableVictim(self.victim, outputs="probabilities")
        engine = Engine(attack, victim, limits=Limits(query_budget=self.budget))
        records = sorted(engine.run(chosen), key=lambda one: one.sample_id)
        seconds = time.monotonic() - started
        return [
            {**answer(one), "words": len(words_of(str(one.adversarial or one.text)))}
            for one in records
        ], seconds


def figures(
    results: Sequence[dict[str, Any]], chosen: Sequence[Sample]
) -> dict[str, Estimate | None]:
    """Returns success rate, queries and the share of words that are left, with intervals."""
    rows = [(one, row) for one, row in zip(results, chosen, strict=True)]
    attacked = [(one, row) for one, row in rows if one["outcome"] != "skipped"]
    won = sum(one["outcome"] == "succeeded" for one, _ in attacked)
    left = [one["words"] / max(len(words_of(str(row.text))), 1) for one, row in attacked]
    return {
        "success": wilson(won, len(attacked)),
        "queries": mean([float(one["queries"]) for one, _ in attacked]),
        "words left": mean(left),
    }


def _cell(one: Estimate) -> str:
    return f"{one.value:.3g} [{one.low:.3g}, {one.high:.3g}]"


def main(argv: Sequence[str] | None = None) -> None:
    """Runs both and prints a row per recipe."""
    parser = command(__doc__, "out")
    parser.add_argument("--data_dir", type=Path, required=True, help="data directory")
    parser.add_argument("--peer", type=Path, help="default: `peer` beside the data")
    parser.add_argument("--python", type=Path, required=True, help="interpreter with TextAttack")
    parser.add_argument("--rows", type=int, default=100, help="of the test split, from the first")
    parser.add_argument("--query_budget", type=int, help="for each text; none if not given")
    parser.add_argument("--recipes", default=",".join(ALL))
    parser.add_argument("--masked_lm", type=Path, help="folder; a small one of random weights")
    args = parser.parse_args(argv)
    peer = args.peer or args.data_dir.parent / "peer"
    victim = FixedVictim(peer / "victim.json")
    every = samples(args.data_dir / "sst2_sentences" / "test.tsv", range(args.rows))
    found = []
    head = ["recipe", "side", "success", "queries", "words left", "seconds", "same verdicts"]
    rows: list[list[object]] = []
    with tempfile.TemporaryDirectory() as folder:
        model = args.masked_lm or small_model(Path(folder), [str(one.text) for one in every])
        sides = Sides(victim, data_dir=args.data_dir, budget=args.query_budget, model=model)
        for name in args.recipes.split(","):
            chosen = [joined(one) for one in every] if name == "checklist" else every
            mine, own = sides.ours(name, chosen)
            other, peers = sides.theirs(name, args.python, chosen)
            keys = ("outcome", "queries", "text")
            same = sum(
                all(a[key] == b[key] for key in keys) for a, b in zip(mine, other, strict=True)
            )
            shown = f"{same}/{len(chosen)}" if name in EXACT else "-"
            for side, results, seconds in (("ours", mine, own), ("TextAttack", other, peers)):
                row = figures(results, chosen)
                cells = ["-" if one is None else _cell(one) for one in row.values()]
                rows.append([name, side, *cells, f"{seconds:.1f}", shown])
            found.append({"recipe": name, "ours": mine, "theirs": other})
            print(table(head, rows[-2:]), flush=True)
            save(args.out, found)


if __name__ == "__main__":
    main()
