"""Recipes beside those of TextAttack 0.3.11 itself, on the fixed victim of `peer/README.md`.

    python -m benchmarks.recipe_parity --data_dir DIR --python PEER/bin/python [--rows 100]
        [--recipes pruthi,kuleshov,iga,alzantot,pso,input-reduction] [--query_budget N] [--out F]

`PEER/bin/python` has TextAttack (docs/attacks/parity.md). Both attack the same rows of SST-2 with
`compat="textattack"`, GloVe vectors of 50 numbers, and without language models, which TextAttack
downloads. Deterministic recipes (pruthi without keys, kuleshov at word level) are compared verdict
by verdict; the others, whose random numbers differ, by the intervals of their figures.
"""

import gzip
import json
import tempfile
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from attacks.composition import Attack
from attacks.constraints import WordDistance
from attacks.constraints.fluency import Fluency
from attacks.constraints.thought_vectors import ThoughtVectors
from attacks.document import words_of
from attacks.engine import Engine, Limits
from attacks.goals import Unchanged, make_goal
from attacks.outcome import Sample
from attacks.recipe_settings import RecipeSettings
from attacks.recipes import build
from attacks.resources.catalogue import Resources
from attacks.resources.stop_words import ENGLISH
from attacks.summary import Estimate, mean, wilson
from attacks.transformations import Composite, DeleteCharacter, InsertCharacter, SwapCharacters
from attacks.victims.kinds import CallableVictim
from benchmarks.command import command, save, table
from benchmarks.parity import GLOVE, FixedVictim, answer, samples, textattack_process

CHILD = Path(__file__).with_name("textattack_recipes.py")
EXACT = ("pruthi", "kuleshov")
"""Recipes that are compared verdict by verdict."""
FAR = 25.0
"""Squared distance of GloVe vectors, which are not of length 1: 0.5 would leave no neighbours."""


def composed(name: str, resources: Resources) -> Attack:
    """Returns the recipe without the parts that the other side cannot have.

    Args:
        name: of the recipe.
        resources: vectors and WordNet.
    """
    settings: dict[str, Any] = {"fluency": 0.0} if name in ("alzantot", "kuleshov") else {}
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
    goal = make_goal(compat="textattack")
    return attack if isinstance(attack.goal, Unchanged) else attack.aiming(goal)


def _vectors(name: str, data_dir: Path) -> Path:
    """Returns the file of vectors; without marks for Alzantot, with which TextAttack fails."""
    path = data_dir / GLOVE
    if name != "alzantot":
        return path
    made = Path(tempfile.gettempdir()) / "glove-50d-words.txt"
    with gzip.open(path, "rt", encoding="utf-8") as stream:
        rows = [row for row in stream if words_of(row.split(" ")[0]) == [row.split(" ")[0]]]
    made.write_text("".join(rows), encoding="utf-8")
    return made


def theirs(
    name: str,
    python: Path,
    victim: FixedVictim,
    chosen: Sequence[Sample],
    *,
    data_dir: Path,
    budget: int | None,
) -> list[dict[str, Any]]:
    """Returns the answers of TextAttack, row by row.

    Raises:
        RuntimeError: the other interpreter ended without an answer.
    """
    process = textattack_process(python, CHILD, data_dir)
    if process.stdin is None or process.stdout is None:
        msg = "got a process without pipes, expected both"
        raise RuntimeError(msg)
    first = {
        "recipe": name,
        "vectors": str(_vectors(name, data_dir).resolve()),
        "stop_words": sorted(ENGLISH),
        "seed": 0,
        "distance": FAR,
        "query_budget": budget,
    }
    second = {"texts": [one.text for one in chosen], "labels": [one.label for one in chosen]}
    process.stdin.write(json.dumps(first) + "\n" + json.dumps(second) + "\n")
    process.stdin.flush()
    for line in process.stdout:
        heard = json.loads(line)
        if "results" in heard:
            process.communicate()
            results: list[dict[str, Any]] = heard["results"]
            return results
        process.stdin.write(json.dumps(victim(heard["texts"])) + "\n")
        process.stdin.flush()
    msg = (
        "got no answer from the process with TextAttack, whose error stands above; expected an "
        "interpreter that can import textattack 0.3.11"
    )
    raise RuntimeError(msg)


def ours(
    name: str,
    victim: FixedVictim,
    chosen: Sequence[Sample],
    *,
    data_dir: Path,
    budget: int | None,
) -> list[dict[str, Any]]:
    """Returns our answers, row by row."""
    attack = composed(name, Resources(data_dir, vectors=_vectors(name, data_dir)))
    engine = Engine(
        attack,
        CallableVictim(victim, outputs="probabilities"),
        limits=Limits(query_budget=budget),
    )
    records = sorted(engine.run(chosen), key=lambda one: one.sample_id)
    return [
        {**answer(one), "words": len(words_of(str(one.adversarial or one.text)))} for one in records
    ]


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
    parser.add_argument("--recipes", default="pruthi,kuleshov,iga,alzantot,pso,input-reduction")
    args = parser.parse_args(argv)
    peer = args.peer or args.data_dir.parent / "peer"
    victim = FixedVictim(peer / "victim.json")
    chosen = samples(args.data_dir / "sst2_sentences" / "test.tsv", range(args.rows))
    found = []
    head = ["recipe", "side", "success", "queries", "words left", "seconds", "same verdicts"]
    rows: list[list[object]] = []
    for name in args.recipes.split(","):
        started = time.monotonic()
        limits: dict[str, Any] = {"data_dir": args.data_dir, "budget": args.query_budget}
        mine = ours(name, victim, chosen, **limits)
        between = time.monotonic()
        other = theirs(name, args.python, victim, chosen, **limits)
        ended = time.monotonic()
        keys = ("outcome", "queries", "text")
        same = sum(all(a[key] == b[key] for key in keys) for a, b in zip(mine, other, strict=True))
        shown = f"{same}/{len(chosen)}" if name in EXACT else "-"
        for side, results, seconds in (
            ("ours", mine, between - started),
            ("TextAttack", other, ended - between),
        ):
            row = figures(results, chosen)
            cells = ["-" if one is None else _cell(one) for one in row.values()]
            rows.append([name, side, *cells, f"{seconds:.1f}", shown])
        found.append({"recipe": name, "ours": mine, "theirs": other})
        print(table(head, rows[-2:]), flush=True)
    save(args.out, found)


if __name__ == "__main__":
    main()
