"""Our recipes and those of TextAttack 0.3.11, verdict by verdict, on a fixed victim.

The victim is that of `peer/README.md`. Both attack the same rows of SST-2 with
`compat="textattack"` and GloVe vectors of 50 numbers; each recipe is that of TextAttack, but for
the changes in `CHANGED`, which the output repeats. BAE, BERT-Attack and CLARE take words from a
small masked language model of random weights, which is made of the same rows, or from that of
`--masked_lm`. These recipes are deterministic. Those of `POPULATIONS` draw other random numbers on
each side, and have no `compat`: only their figures can agree.
"""

import gzip
import tempfile
from argparse import ArgumentParser, Namespace
from collections.abc import Collection, Sequence
from dataclasses import fields, is_dataclass, replace
from pathlib import Path
from typing import Any

import torch

from attacks.composition import Attack
from attacks.digests import file_digest
from attacks.document import words_of
from attacks.engine import Limits
from attacks.recipe_settings import RecipeSettings
from attacks.recipes import build, find_recipe, recipe_names
from attacks.resources.catalogue import Resources
from attacks.transformations import Composite
from attacks.victims.kinds import CallableVictim
from benchmarks.command import COMMON, save, table
from benchmarks.parity.recorded import GLOVE, FixedVictim, read_samples
from benchmarks.parity.sides import SideResults, attack_by_engine, attack_by_textattack
from layers.architectures import build_masked_lm
from layers.pretrained_encoders import save_model
from text import save_tokenizer, train_word_piece
from text.estimates import IntervalEstimate, mean, wilson

CANDIDATES = 10
"""Words that CLARE proposes for a place."""
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
"""Changes on both sides, by recipe: without them, two programs cannot agree."""
POPULATIONS = ("leap", "pso")
"""Searches with random numbers. (TextAttack's IGA fails where a mark replaces a word.)"""
MODELS = ("bae", "bert-attack", "clare")
"""Recipes with a masked language model."""


def compose(name: str, resources: Resources) -> Attack:
    """Return the recipe with the changes of `CHANGED`."""
    # Language models and sentence encoders differ on the two sides.
    has = find_recipe(name).settings
    settings: dict[str, Any] = {part: 0.0 for part in ("fluency", "similarity") if part in has}
    if name == "clare":
        settings["candidates"] = CANDIDATES
    if name not in POPULATIONS:
        settings["compat"] = "textattack"
    attack = build(RecipeSettings(recipe=name, **settings), resources)
    swaps = getattr(attack.transformation, "transformations", [])
    fixed = [_without_chance(swap) for swap in swaps]
    return attack if fixed == swaps else replace(attack, transformation=Composite(fixed))


def _without_chance(swap: Any) -> Any:
    """Return a transformation of characters without random numbers."""
    names = {field.name for field in fields(swap)} if is_dataclass(swap) else set()
    changes = {k: v for k, v in {"one": False, "letters": "e"}.items() if k in names}
    return replace(swap, **changes) if changes else swap


def compat_table() -> str:
    """Return the effect of `compat="textattack"` on each recipe, as Markdown."""
    rows = [
        [name, "yes", recipe.differs or "nothing"]
        if recipe.refused is None
        else [name, "refused", recipe.refused]
        for name, recipe in ((name, find_recipe(name)) for name in recipe_names())
    ]
    return table(["recipe", "`compat`", "what differs in TextAttack"], rows)


def vectors_of_words(path: Path) -> Path:
    """Return a file with those vectors of another one that belong to a single word.

    A mark instead of a word leaves TextAttack a text with a word less: some of its searches
    and its sentence encoder end with an error there.
    """
    words = Path(tempfile.gettempdir()) / f"vectors-of-words-{file_digest(path)[:16]}.txt"
    opened = gzip.open if path.suffix == ".gz" else open
    with opened(path, "rt", encoding="utf-8") as stream:
        rows = [row for row in stream if words_of(row.split(" ")[0]) == [row.split(" ")[0]]]
    words.write_text("".join(rows), encoding="utf-8")
    return words


def small_model(folder: Path, texts: Sequence[str]) -> Path:
    """Write a masked language model of random weights that both sides can read; return its folder.

    Its word pieces are learnt from the texts.
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
        # Special tokens must never be the likeliest word.
        model.get_output_embeddings().bias[sorted(tokenizer.special_ids)] = -1e4
    save_model(model, folder)
    save_tokenizer(tokenizer, folder)
    return folder


def row(name: str, ours: SideResults, theirs: SideResults) -> list[str]:
    """Return the cells of a recipe: figures of both sides, and the rows with equal results."""
    # Outcome, queries and text: all three have to agree.
    same = sum(mine == other for mine, other in zip(ours.results, theirs.results, strict=True))
    cells = [name]
    # Skipped texts were wrong before any change.
    attacked = [
        [result for result in side.results if result["outcome"] != "skipped"]
        for side in (ours, theirs)
    ]
    for results in attacked:
        successes = sum(result["outcome"] == "succeeded" for result in results)
        cells.append(_cell(wilson(successes, len(results))) if results else "-")
    for results in attacked:
        queries = mean([float(result["queries"]) for result in results])
        cells.append("-" if queries is None else _cell(queries))
    seconds = f"{ours.seconds:.1f}, {theirs.seconds:.1f}"
    return [*cells, seconds, f"{same}/{len(ours.results)}"]


def _cell(estimate: IntervalEstimate) -> str:
    return f"{estimate.value:.3g} [{estimate.low:.3g}, {estimate.high:.3g}]"


def add_options(parser: ArgumentParser) -> None:
    """Add the options of the command."""
    parser.add_argument("--data_dir", type=Path, required=True, help="data directory")
    parser.add_argument("--peer", type=Path, help="default: `peer` next to the data")
    parser.add_argument("--python", type=Path, required=True, help="interpreter with TextAttack")
    parser.add_argument("--rows", type=int, default=100, help="of the test split, from the first")
    parser.add_argument("--query_budget", type=int, help="for each text (default: no limit)")
    parser.add_argument("--recipes", default=",".join(CHANGED))
    parser.add_argument("--masked_lm", type=Path, help="folder (default: random weights)")
    parser.add_argument("--out", **COMMON["out"])


def run(options: Namespace) -> int:
    """Run both sides and print a row for each recipe."""
    names = checked_recipes(options.recipes, (*CHANGED, *POPULATIONS))
    data_dir = options.data_dir
    victim = FixedVictim((options.peer or data_dir.parent / "peer") / "victim.json")
    samples = read_samples(data_dir / "sst2_sentences" / "test.tsv", range(options.rows))
    comparisons: list[dict[str, Any]] = []
    head = ["recipe", "success", "TextAttack", "queries", "TextAttack", "s", "same"]
    with tempfile.TemporaryDirectory() as folder:
        texts = [str(sample.text) for sample in samples]
        model = options.masked_lm or small_model(Path(folder), texts)
        for name in names:
            vectors = data_dir / GLOVE
            if name == "kuleshov":  # TextAttack fails with vectors of marks
                vectors = vectors_of_words(vectors)
            ours = attack_by_engine(
                compose(name, Resources(data_dir, vectors=vectors, masked_lm=model)),
                CallableVictim(victim, outputs="probabilities"),
                samples,
                Limits(query_budget=options.query_budget),
            )
            theirs = attack_by_textattack(
                options.python,
                name,
                samples,
                victim,
                data_dir=data_dir,
                vectors=vectors,
                masked_lm=model if name in MODELS else None,
                exact=True,
                query_budget=options.query_budget,
                candidates=CANDIDATES,
            )
            change = CHANGED.get(name, "random numbers") or "nothing"
            comparisons.append(
                {"recipe": name, "ours": ours.results, "theirs": theirs.results, "changed": change}
            )
            print(table(head, [row(name, ours, theirs)]))
            print(f"changed on both sides: {change}\n", flush=True)
            save(options.out, comparisons)
    return 0


def checked_recipes(names: str, expected: Collection[str]) -> list[str]:
    """Return the names of recipes, separated by commas; a ValueError for an unknown one."""
    recipes = names.split(",")
    if unknown := [name for name in recipes if name not in expected]:
        msg = f"got --recipes {','.join(unknown)}, expected some of {', '.join(expected)}"
        raise ValueError(msg)
    return recipes
