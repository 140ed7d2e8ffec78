"""Attacks rows with recipes of TextAttack 0.3.11, in an interpreter that has it.

The first line of the input says how: `recipe`, `vectors` (a file), `stop_words`, `seed`. The
second has `texts` and `labels`. Questions to the victim are lines with `texts`, each answered by a
line of probabilities; the last line has `results`. All lines are JSON; see `textattack_child`.

The parts of the recipes are those of TextAttack, with other vectors and without language models,
which it downloads; random letters are "e".
"""

import importlib
import json
import os
import random
import sys
from pathlib import Path
from typing import Any

import numpy as np

child: Any = importlib.import_module("textattack_child")  # beside this file


def recipe(settings: dict[str, Any], victim: Any) -> Any:
    """Returns an attack of TextAttack.

    Args:
        settings: the first line of the input.
        victim: a wrapper of the victim.
    """
    ta = importlib.import_module("textattack")
    before = importlib.import_module("textattack.constraints.pre_transformation")
    overlap = importlib.import_module("textattack.constraints.overlap")
    semantics = importlib.import_module("textattack.constraints.semantics")
    goals, search, changes = ta.goal_functions, ta.search_methods, ta.transformations
    stop = before.StopwordModification(stopwords=set(settings["stop_words"]))
    vectors = child.embedding(Path(settings["vectors"]))
    name = settings["recipe"]
    goal = goals.UntargetedClassification(victim)
    near = semantics.WordEmbeddingDistance(
        embedding=vectors, max_mse_dist=settings["distance"], compare_against_original=False
    )
    if name in ("alzantot", "iga"):
        made = search.AlzantotGeneticAlgorithm if name == "alzantot" else None
        once = [before.RepeatModification()] if name == "alzantot" else []
        made = made or search.ImprovedGeneticAlgorithm
        return ta.Attack(
            goal,
            [*once, stop, overlap.MaxWordsPerturbed(max_percent=0.2), near],
            changes.WordSwapEmbedding(
                max_candidates=8 if name == "alzantot" else 50, embedding=vectors
            ),
            made(pop_size=60, max_iters=20, post_crossover_check=False),
        )
    once = [before.RepeatModification(), stop]
    if name == "pso":
        return ta.Attack(
            goal,
            once,
            changes.WordSwapWordNet(),
            search.ParticleSwarmOptimization(pop_size=60, max_iters=20),
        )
    if name == "kuleshov":
        return ta.Attack(
            goal,
            [*once, overlap.MaxWordsPerturbed(max_percent=0.5)],
            changes.WordSwapEmbedding(max_candidates=15, embedding=vectors),
            search.GreedySearch(),
        )
    if name == "input-reduction":
        return ta.Attack(
            goals.InputReduction(victim, maximizable=True),
            once,
            changes.WordDeletion(),
            search.GreedyWordSwapWIR(wir_method="delete"),
        )
    inner = {"random_one": False, "skip_first_char": True, "skip_last_char": True}
    swaps = [
        changes.WordSwapNeighboringCharacterSwap(**inner),
        changes.WordSwapRandomCharacterDeletion(**inner),
        changes.WordSwapRandomCharacterInsertion(**inner),
    ]
    for one in swaps:
        one._get_random_letter = lambda: "e"
    return ta.Attack(
        goal,
        [
            before.MinWordLength(min_length=4),
            stop,
            overlap.MaxWordsPerturbed(max_num_words=1),
            before.RepeatModification(),
        ],
        changes.CompositeTransformation(swaps),
        search.GreedySearch(),
    )


def main() -> None:
    """Answers one request."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    child.stand_ins()
    settings = json.loads(sys.stdin.readline())
    random.seed(settings["seed"])
    np.random.seed(settings["seed"])  # noqa: NPY002 - the generator of TextAttack
    made = recipe(settings, child.asking(answers))
    made.goal_function.query_budget = settings["query_budget"] or float("inf")
    request, results = json.loads(sys.stdin.readline()), []
    for text, label in zip(request["texts"], request["labels"], strict=True):
        found = made.attack(text, label)
        kind = type(found).__name__
        outcome = child.KINDS.get(kind, "failed")
        if kind == "MaximizedAttackResult":
            outcome = "succeeded" if found.perturbed_text() != text else "failed"
        final = found.perturbed_result.attacked_text
        results.append(
            {
                "outcome": outcome,
                "queries": found.num_queries,
                "text": found.perturbed_text() if outcome == "succeeded" else None,
                "words": len(final.words),
            }
        )
    print(json.dumps({"results": results}), file=answers, flush=True)


if __name__ == "__main__":
    main()
