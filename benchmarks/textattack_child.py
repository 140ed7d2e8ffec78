"""Attacks texts with TextAttack 0.3.11, in an interpreter that has it.

The first line of the input says how: `vectors` (a file), `stop_words`, `query_budget`. Then come
lines of `texts` and `labels`. Each of these is answered by lines with `texts` that the victim is to
be asked about, and whose probabilities are the next line, and in the end by a line with `results`.
All lines are JSON. The attack is TextFooler without its sentence encoder, which needs TensorFlow.
"""

import gzip
import importlib
import json
import os
import sys
import time
from pathlib import Path
from typing import Any, TextIO
from unittest.mock import MagicMock

import numpy as np

NOT_USED = ("flair", "flair.data", "flair.models", "language_tool_python", "tensorflow_hub")
"""Imports of TextAttack that this attack does not need: hard to install, or slow."""
KINDS = {"SkippedAttackResult": "skipped", "SuccessfulAttackResult": "succeeded"}


def embedding(path: Path, count: int = 50) -> Any:
    """Returns TextAttack's object for word vectors, with the nearest by cosine computed before."""
    opened = gzip.open if path.suffix == ".gz" else open
    with opened(path, "rt", encoding="utf-8") as file:
        rows = [line.rstrip("\n").split(" ") for line in file]
    words = [row[0] for row in rows]
    matrix = np.array([row[1:] for row in rows], dtype=np.float32)
    unit = matrix / np.linalg.norm(matrix, axis=1, keepdims=True)
    nearest = np.empty((len(words), count + 1), dtype=np.int64)
    for start in range(0, len(words), 1000):
        part = unit[start : start + 1000] @ unit.T
        rows_here = np.arange(len(part))
        part[rows_here, start + rows_here] = 2.0  # the word itself comes first, and is left out
        nearest[start : start + 1000] = np.argsort(-part, axis=1, kind="stable")[:, : count + 1]
    shared = importlib.import_module("textattack.shared")
    return shared.WordEmbedding(
        matrix, {word: i for i, word in enumerate(words)}, dict(enumerate(words)), nearest
    )


def attack(settings: dict[str, Any], victim: Any) -> Any:
    """Returns TextFooler as TextAttack composes it, but for the sentence encoder."""
    ta = importlib.import_module("textattack")
    before = importlib.import_module("textattack.constraints.pre_transformation")
    semantics = importlib.import_module("textattack.constraints.semantics")
    grammar = importlib.import_module("textattack.constraints.grammaticality")
    vectors = embedding(Path(settings["vectors"]))
    goal = ta.goal_functions.UntargetedClassification(victim)
    goal.query_budget = settings["query_budget"] or float("inf")
    return ta.Attack(
        goal,
        [
            before.RepeatModification(),
            before.StopwordModification(stopwords=set(settings["stop_words"])),
            semantics.WordEmbeddingDistance(embedding=vectors, min_cos_sim=0.5),
            grammar.PartOfSpeech(allow_verb_noun_swap=True),
        ],
        ta.transformations.WordSwapEmbedding(max_candidates=50, embedding=vectors),
        ta.search_methods.GreedyWordSwapWIR(wir_method="delete"),
    )


def stand_ins() -> None:
    """Puts stand-ins for imports of TextAttack that no attack here needs, installed or not."""
    for name in NOT_USED:
        sys.modules.setdefault(name, MagicMock())


def asking(answers: TextIO) -> Any:
    """Returns a victim on the other side of the pipe.

    Args:
        answers: a stream of lines to that side.
    """
    base: Any = importlib.import_module("textattack.models.wrappers").ModelWrapper

    class Asking(base):  # type: ignore[misc] # a class that only the other interpreter knows
        """A victim on the other side of the pipe."""

        model = None

        def __call__(self, texts: list[str]) -> Any:
            """Returns probabilities of each class."""
            print(json.dumps({"texts": list(texts)}), file=answers, flush=True)
            # As an array TextAttack keeps them in double precision, as a list it would not.
            return np.array(json.loads(sys.stdin.readline()), dtype=np.float64)

    return Asking()


def main() -> None:
    """Answers until the input ends."""
    # Whatever is printed by others must not come between our lines.
    answers: TextIO = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    stand_ins()
    made = attack(json.loads(sys.stdin.readline()), asking(answers))
    print(json.dumps({"ready": True}), file=answers, flush=True)
    while line := sys.stdin.readline():
        request, results = json.loads(line), []
        processor = time.process_time()
        # The weights have changed since the batch before.
        made.goal_function.clear_cache()
        for text, label in zip(request["texts"], request["labels"], strict=True):
            found = made.attack(text, label)
            outcome = KINDS.get(type(found).__name__, "failed")
            results.append(
                {
                    "outcome": outcome,
                    "queries": found.num_queries,
                    "text": found.perturbed_text() if outcome == "succeeded" else None,
                }
            )
        spent = time.process_time() - processor
        print(json.dumps({"results": results, "processor": spent}), file=answers, flush=True)


if __name__ == "__main__":
    main()
