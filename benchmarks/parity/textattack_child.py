"""Attacks texts with recipes of TextAttack 0.3.11, in an interpreter that has it.

All lines are JSON. The first line of the input has the settings: `recipe`, `stop_words`,
`query_budget`, and where they differ from the defaults `vectors` (a file), `exact`, `encoder`,
`masked_lm` (a folder) and `candidates` (of CLARE). The reply is a line with `ready`. Then comes a
line of `texts` and `labels`. This program writes questions to the victim, lines with `texts`, reads
a line of probabilities after each question, and ends with a line with `results`.

The recipes are those of TextAttack, with other vectors and models, as it downloads its own. With
`exact`, random letters are "e", and parts without which two programs can give the same answers are
left out.
"""

import gzip
import importlib
import json
import os
import random
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, TextIO
from unittest.mock import MagicMock

import numpy as np

NOT_USED = ("flair", "flair.data", "flair.models", "language_tool_python", "tensorflow_hub")
"""Imports of TextAttack that no attack here needs: hard to install, or slow."""
RECIPES = (
    *("textfooler", "textbugger", "deepwordbug", "pwws", "bae", "bert-attack", "clare", "alzantot"),
    *("faster-alzantot", "iga", "pso", "kuleshov", "input-reduction", "pruthi", "checklist"),
    *("morpheus", "bad-characters", "leap"),
)
BUILD = {"bad-characters": ("targeted_classification", "invisible")}
"""Further arguments of `build`: the goal, which is replaced, and the characters."""
NOT_HERE = (
    *("GPT2", "Google1BillionWordsLanguageModel", "LearningToWriteLanguageModel"),
    *("WordSwapChangeName", "WordSwapChangeLocation"),
)
"""Parts with a model of their own, which are left out."""
TYPOS = (
    *("WordSwapNeighboringCharacterSwap", "WordSwapRandomCharacterSubstitution"),
    *("WordSwapRandomCharacterDeletion", "WordSwapRandomCharacterInsertion"),
)
LEFT_OUT = object()


def embedding(path: Path, count: int = 50) -> Any:
    """Return TextAttack's object for word vectors, with the nearest by cosine computed before."""
    opened = gzip.open if path.suffix == ".gz" else open
    with opened(path, "rt", encoding="utf-8") as file:
        rows = [line.rstrip("\n").split(" ") for line in file]
    words = [row[0] for row in rows]
    matrix = np.array([row[1:] for row in rows], dtype=np.float32)
    unit = matrix / np.linalg.norm(matrix, axis=1, keepdims=True)
    # [V, count + 1] ids: TextAttack reads neighbours from such a table.
    nearest = np.empty((len(words), count + 1), dtype=np.int64)
    for start in range(0, len(words), 1000):
        cosines = unit[start : start + 1000] @ unit.T
        own = np.arange(len(cosines))
        cosines[own, start + own] = 2.0  # the word itself comes first, and is left out
        order = np.argsort(-cosines, axis=1, kind="stable")
        nearest[start : start + 1000] = order[:, : count + 1]
    shared = importlib.import_module("textattack.shared")
    index = {word: i for i, word in enumerate(words)}
    return shared.WordEmbedding(matrix, index, dict(enumerate(words)), nearest)


def remote_victim(replies: TextIO) -> Any:
    """Return a victim on the other side of the pipe, to which `replies` writes lines."""
    base: Any = importlib.import_module("textattack.models.wrappers").ModelWrapper

    class RemoteVictim(base):  # type: ignore[misc] # a class that only the other interpreter knows
        """A victim on the other side of the pipe."""

        model = None

        def __call__(self, texts: list[str]) -> Any:
            """Return probabilities of each class."""
            print(json.dumps({"texts": list(texts)}), file=replies, flush=True)
            # As an array TextAttack keeps them in double precision, as a list it would not.
            return np.array(json.loads(sys.stdin.readline()), dtype=np.float64)

    return RemoteVictim()


def compose(settings: dict[str, Any], victim: Any) -> Any:
    """Return a recipe of TextAttack; the settings are the first line of the input."""
    names: Any = importlib.import_module("textattack.attack_args").ATTACK_RECIPE_NAMES
    package, _, name = names[settings["recipe"]].rpartition(".")
    recipe: Any = getattr(importlib.import_module(package), name)
    # The recipe makes its parts by these names of its module.
    module = sys.modules[recipe.__module__]
    for part, make in {**replacements(settings), name: assemble}.items():
        setattr(module, part, make)
    attack = recipe.build(victim, *BUILD.get(settings["recipe"], ()))
    attack.goal_function.query_budget = settings["query_budget"] or float("inf")
    return attack


def assemble(goal: Any, constraints: list[Any], transformation: Any, search: Any) -> Any:
    """Return an attack without the constraints that are left out."""
    kept = [constraint for constraint in constraints if constraint is not LEFT_OUT]
    return importlib.import_module("textattack").Attack(goal, kept, transformation, search)


def replacements(settings: dict[str, Any]) -> dict[str, Any]:
    """Return what makes parts of a recipe by name, where it is not the part of TextAttack."""
    ta: Any = importlib.import_module("textattack")
    changes, before = ta.transformations, ta.constraints.pre_transformation
    semantics: Any = importlib.import_module("textattack.constraints.semantics")
    exact = settings.get("exact", False)
    # In TextAttack a download each: vectors, stop words, encoders and language models.
    vectors = {"embedding": embedding(Path(settings["vectors"]))} if settings.get("vectors") else {}
    model = load_masked_lm(settings["masked_lm"]) if settings.get("masked_lm") else {}
    near = near_sentence(settings["encoder"]) if settings.get("encoder") else LEFT_OUT

    def make(kind: Any, **fixed: Any) -> Callable[..., Any]:
        return lambda *args, **named: kind(*args, **{**named, **fixed})

    def typos(kind: Any) -> Callable[..., Any]:
        """Return typing errors; where answers are compared, at each position and by e alone."""
        return lambda **named: kind(**{"letters_to_insert": "e", **named, "random_one": False})

    def composite(swaps: list[Any]) -> Any:
        return changes.CompositeTransformation([swap for swap in swaps if swap is not LEFT_OUT])

    stop_words = set(settings["stop_words"])
    encoders = semantics.sentence_encoders
    fewer = {"max_candidates": settings["candidates"]} if settings.get("candidates") else {}
    masked = ["WordInsertionMaskedLM", "WordMergeMaskedLM"]
    masked += ["WordSwapMaskedLM"] if settings["recipe"] == "clare" else []
    return {
        "Attack": assemble,
        "StopwordModification": lambda **_: before.StopwordModification(stopwords=stop_words),
        "WordSwapEmbedding": make(changes.WordSwapEmbedding, **vectors),
        "WordEmbeddingDistance": make(semantics.WordEmbeddingDistance, **vectors),
        "ThoughtVector": make(encoders.ThoughtVector, **vectors),
        "UniversalSentenceEncoder": lambda **_: near,
        "WordSwapMaskedLM": make(changes.WordSwapMaskedLM, **model),
        **{name: make(getattr(changes, name), **{**model, **fewer}) for name in masked},
        # CLARE loads its model itself.
        "transformers": MagicMock(),
        **{name: typos(getattr(changes, name)) for name in TYPOS if exact},
        "CompositeTransformation": composite,
        "WordSwapHomoglyphSwap": partial(_homoglyphs, changes.WordSwapHomoglyphSwap),
        "WordSwapHowNet": changes.WordSwapWordNet,
        # Aimed at any wrong class instead of a translation or a target.
        "MinimizeBleu": ta.goal_functions.UntargetedClassification,
        "TargetedClassification": lambda victim, **_: ta.goal_functions.UntargetedClassification(
            victim
        ),
        **{name: lambda **_: LEFT_OUT for name in NOT_HERE},
    }


def load_masked_lm(folder: str) -> dict[str, Any]:
    """Return a masked language model and its tokenizer, as transformations take them."""
    hub: Any = importlib.import_module("transformers")
    return {
        "masked_language_model": hub.AutoModelForMaskedLM.from_pretrained(folder),
        "tokenizer": hub.AutoTokenizer.from_pretrained(folder, use_fast=True),
    }


def near_sentence(settings: dict[str, Any]) -> Any:
    """Return TextAttack's constraint for a sentence encoder of `transformers`, means of tokens."""
    torch: Any = importlib.import_module("torch")
    hub: Any = importlib.import_module("transformers")
    encoders = importlib.import_module("textattack.constraints.semantics.sentence_encoders")
    settings = dict(settings)
    folder = settings.pop("folder")
    tokenizer = hub.AutoTokenizer.from_pretrained(folder)
    model = hub.AutoModel.from_pretrained(folder).eval()

    class Means(encoders.SentenceEncoder):  # type: ignore[name-defined, misc] # known elsewhere only
        """A sentence encoder."""

        def encode(self, texts: list[str]) -> Any:
            """Return `[texts, width]`."""
            means = []
            for start in range(0, len(texts), 32):
                tokens = tokenizer(
                    texts[start : start + 32], padding=True, truncation=True, return_tensors="pt"
                )
                with torch.no_grad():
                    hidden = model(**tokens)[0]
                mask = tokens["attention_mask"].unsqueeze(-1)
                means.append((hidden * mask).sum(1) / mask.sum(1))
            return torch.cat(means)

    return Means(**settings)


def _homoglyphs(kind: Any) -> Any:
    """Return the swap of look-alikes, whose list for other attacks is not in the package."""
    swap = kind.__new__(kind)
    with suppress(FileNotFoundError):
        swap.__init__()
    return swap


def tag_by_nltk() -> None:
    """Let texts take parts of speech from nltk: the tagger of TextAttack is a download."""
    nltk: Any = importlib.import_module("nltk")
    text: Any = importlib.import_module("textattack.shared").AttackedText

    def tag(self: Any, index: int) -> str:
        if not self._pos_tags:
            self._pos_tags = [tag for _, tag in nltk.pos_tag(self.words, tagset="universal")]
        name: str = self._pos_tags[index]
        return name

    # Replaces the method of the class, for all texts of this process.
    text.pos_of_word_index = tag


def attack_texts(attack: Any, texts: list[str], labels: list[int]) -> list[dict[str, Any]]:
    """Return the outcome, the queries and the adversarial text of each text.

    Where TextAttack breaks off with its own error the outcome is `broken`: its sentence encoder
    looks for the first word that a candidate has changed, and ends with StopIteration on one that
    changed none.
    """
    results: list[dict[str, Any]] = []
    for text, label in zip(texts, labels, strict=True):
        try:
            result = attack.attack(text, label)
        except StopIteration:
            queries = attack.goal_function.num_queries
            results.append({"outcome": "broken", "queries": queries, "text": None})
            continue
        kind, adversarial = type(result).__name__, None
        outcome = "skipped" if kind == "SkippedAttackResult" else "failed"
        if kind in ("SuccessfulAttackResult", "MaximizedAttackResult"):
            adversarial = result.perturbed_text()
            # The reduction of inputs has reached its maximum also where no word could go.
            if kind == "SuccessfulAttackResult" or adversarial != text:
                outcome = "succeeded"
            else:
                adversarial = None
        results.append({"outcome": outcome, "queries": result.num_queries, "text": adversarial})
    return results


def main() -> None:
    """Attack the texts of the input."""
    # Nothing that libraries print may come between our lines.
    replies: TextIO = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    for name in NOT_USED:
        sys.modules.setdefault(name, MagicMock())
    settings = json.loads(sys.stdin.readline())
    random.seed(0)
    np.random.seed(0)  # noqa: NPY002 - the generator of TextAttack
    tag_by_nltk()
    attack = compose(settings, remote_victim(replies))
    print(json.dumps({"ready": True}), file=replies, flush=True)
    request, processor = json.loads(sys.stdin.readline()), time.process_time()
    results = attack_texts(attack, request["texts"], request["labels"])
    seconds = time.process_time() - processor
    print(json.dumps({"results": results, "processor": seconds}), file=replies, flush=True)


if __name__ == "__main__":
    main()
