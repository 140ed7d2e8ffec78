"""Attacks texts with recipes of TextAttack 0.3.11, in an interpreter that has it.

All lines are JSON. The first line of the input has the settings: `recipe`, `stop_words`,
`query_budget`, and where they differ from the defaults `vectors` (a file), `seed`, `distance`,
`exact`, `encoder`, `masked_lm` (a folder) and `candidates` (of CLARE). The reply is a line with
`ready`. Then come requests, lines of `texts` and `labels`. For each, this program writes questions
to the victim, lines with `texts`, reads a line of probabilities after each question, and ends with
a line with `results`.

The parts of the recipes are those of TextAttack, with other vectors and models, as it downloads its
own. With `exact`, random letters are "e", and parts without which two programs can give the same
answers are left out.
"""

import gzip
import importlib
import json
import os
import random
import sys
import time
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any, TextIO
from unittest.mock import MagicMock

import numpy as np

NOT_USED = ("flair", "flair.data", "flair.models", "language_tool_python", "tensorflow_hub")
"""Imports of TextAttack that no attack here needs: hard to install, or slow."""


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
    """Return an attack of TextAttack; the settings are the first line of the input."""
    ta = importlib.import_module("textattack")
    before = importlib.import_module("textattack.constraints.pre_transformation")
    parts = SimpleNamespace(
        ta=ta,
        changes=ta.transformations,
        search=ta.search_methods,
        overlap=importlib.import_module("textattack.constraints.overlap"),
        semantics=importlib.import_module("textattack.constraints.semantics"),
        grammar=importlib.import_module("textattack.constraints.grammaticality"),
        before=before,
        stop=before.StopwordModification(stopwords=set(settings["stop_words"])),
        vectors=embedding(Path(settings["vectors"])) if settings.get("vectors") else None,
        model=load_masked_lm(settings["masked_lm"]) if settings.get("masked_lm") else {},
        near_sentence=[near_sentence(settings["encoder"])] if settings.get("encoder") else [],
        distance=settings.get("distance", 0.5),
        candidates=settings.get("candidates"),
        exact=settings.get("exact", False),
        goal=ta.goal_functions.UntargetedClassification(victim),
        victim=victim,
    )
    # In nearly all recipes: a word changes once, and stop words stay.
    parts.once = [before.RepeatModification(), parts.stop]
    goal, constraints, transformation, search = RECIPES[settings["recipe"]](parts)
    goal.query_budget = settings["query_budget"] or float("inf")
    return ta.Attack(goal, constraints, transformation, search)


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


def _swap(parts: Any, count: int) -> Any:
    return parts.changes.WordSwapEmbedding(max_candidates=count, embedding=parts.vectors)


def _ranked(parts: Any, method: str) -> Any:
    return parts.search.GreedyWordSwapWIR(wir_method=method)


def _distance(parts: Any, *, original: bool) -> Any:
    return parts.semantics.WordEmbeddingDistance(
        embedding=parts.vectors, max_mse_dist=parts.distance, compare_against_original=original
    )


def _typos(parts: Any, names: str, **settings: bool) -> list[Any]:
    """Return transformations of characters; where answers are compared, the only letter is e."""
    kinds = {
        "swap": parts.changes.WordSwapNeighboringCharacterSwap,
        "substitute": parts.changes.WordSwapRandomCharacterSubstitution,
        "delete": parts.changes.WordSwapRandomCharacterDeletion,
        "insert": parts.changes.WordSwapRandomCharacterInsertion,
    }
    swaps = [kinds[name](**settings) for name in names.split()]
    for swap in swaps if parts.exact else ():
        swap._get_random_letter = lambda: "e"
    return swaps


def _homoglyphs(kind: Any) -> Any:
    """Return the swap of look-alikes, whose list for other attacks is not in the package."""
    swap = kind.__new__(kind)
    with suppress(FileNotFoundError):
        swap.__init__()
    return swap


def textfooler(parts: Any) -> Any:
    """Return TextFooler."""
    columns = parts.before.InputColumnModification(["premise", "hypothesis"], {"premise"})
    tags = parts.grammar.PartOfSpeech(allow_verb_noun_swap=True)
    cosine = parts.semantics.WordEmbeddingDistance(embedding=parts.vectors, min_cos_sim=0.5)
    constraints = [*parts.once, columns, cosine, tags, *parts.near_sentence]
    return parts.goal, constraints, _swap(parts, 50), _ranked(parts, "delete")


def textbugger(parts: Any) -> Any:
    """Return TextBugger; at each position where answers are compared."""
    inner = {"random_one": not parts.exact, "skip_first_char": True, "skip_last_char": True}
    space = parts.changes.WordSwapRandomCharacterInsertion(letters_to_insert=" ", **inner)
    swaps = [
        space,
        *_typos(parts, "delete swap", **inner),
        _homoglyphs(parts.changes.WordSwapHomoglyphSwap),
        _swap(parts, 5),
    ]
    changes = parts.changes.CompositeTransformation(swaps)
    return parts.goal, [*parts.once, *parts.near_sentence], changes, _ranked(parts, "delete")


def deepwordbug(parts: Any) -> Any:
    """Return DeepWordBug; at each position where answers are compared."""
    kinds = _typos(parts, "swap substitute delete insert", random_one=not parts.exact)
    swaps = parts.changes.CompositeTransformation(kinds)
    # The bound of the paper.
    limit = parts.overlap.LevenshteinEditDistance(30)
    return parts.goal, [*parts.once, limit], swaps, _ranked(parts, "unk")


def pwws(parts: Any) -> Any:
    """Return PWWS."""
    synonyms = parts.changes.WordSwapWordNet()
    return parts.goal, parts.once, synonyms, _ranked(parts, "weighted-saliency")


def bae(parts: Any) -> Any:
    """Return BAE-R."""
    words = parts.changes.WordSwapMaskedLM(
        method="bae", max_candidates=50, min_confidence=0.0, **parts.model
    )
    tags = parts.grammar.PartOfSpeech(allow_verb_noun_swap=True)
    return parts.goal, [*parts.once, tags, *parts.near_sentence], words, _ranked(parts, "delete")


def bert_attack(parts: Any) -> Any:
    """Return BERT-Attack."""
    words = parts.changes.WordSwapMaskedLM(method="bert-attack", max_candidates=8, **parts.model)
    limit = parts.overlap.MaxWordsPerturbed(max_percent=0.4)
    return parts.goal, [*parts.once, limit, *parts.near_sentence], words, _ranked(parts, "unk")


def clare(parts: Any) -> Any:
    """Return CLARE."""
    model: dict[str, Any] = {**parts.model, "max_candidates": parts.candidates or 50}
    actions = parts.changes.CompositeTransformation(
        [
            parts.changes.WordSwapMaskedLM(method="bae", min_confidence=5e-4, **model),
            parts.changes.WordInsertionMaskedLM(min_confidence=0.0, **model),
            parts.changes.WordMergeMaskedLM(min_confidence=5e-3, **model),
        ]
    )
    return parts.goal, [*parts.once, *parts.near_sentence], actions, parts.search.GreedySearch()


def alzantot(parts: Any) -> Any:
    """Return Alzantot's genetic algorithm without its language model."""
    return _genetic(parts, original=False, iterations=20)


def faster_alzantot(parts: Any) -> Any:
    """Return the faster genetic algorithm without its language model."""
    return _genetic(parts, original=True, iterations=40)


def _genetic(parts: Any, *, original: bool, iterations: int) -> Any:
    limit = parts.overlap.MaxWordsPerturbed(max_percent=0.2)
    constraints = [*parts.once, limit, _distance(parts, original=original)]
    search = parts.search.AlzantotGeneticAlgorithm(
        pop_size=60, max_iters=iterations, post_crossover_check=False
    )
    return parts.goal, constraints, _swap(parts, 8), search


def iga(parts: Any) -> Any:
    """Return the improved genetic algorithm."""
    limit = parts.overlap.MaxWordsPerturbed(max_percent=0.2)
    constraints = [parts.stop, limit, _distance(parts, original=False)]
    search = parts.search.ImprovedGeneticAlgorithm(
        pop_size=60, max_iters=20, post_crossover_check=False
    )
    return parts.goal, constraints, _swap(parts, 50), search


def pso(parts: Any) -> Any:
    """Return the particle swarm, with WordNet instead of HowNet."""
    search = parts.search.ParticleSwarmOptimization(pop_size=60, max_iters=20)
    return parts.goal, parts.once, parts.changes.WordSwapWordNet(), search


def kuleshov(parts: Any) -> Any:
    """Return Kuleshov's attack without its language model."""
    encoders = importlib.import_module("textattack.constraints.semantics.sentence_encoders")
    near = encoders.ThoughtVector(embedding=parts.vectors, threshold=0.2, metric="max_euclidean")
    limit = parts.overlap.MaxWordsPerturbed(max_percent=0.5)
    goal = parts.ta.goal_functions.UntargetedClassification(parts.victim, target_max_score=0.7)
    return goal, [*parts.once, limit, near], _swap(parts, 15), parts.search.GreedySearch()


def input_reduction(parts: Any) -> Any:
    """Return the reduction of inputs."""
    goal = parts.ta.goal_functions.InputReduction(parts.victim, maximizable=True)
    return goal, parts.once, parts.changes.WordDeletion(), _ranked(parts, "delete")


def pruthi(parts: Any) -> Any:
    """Return Pruthi's typing error."""
    inner = {"random_one": False, "skip_first_char": True, "skip_last_char": True}
    swaps = _typos(parts, "swap delete insert", **inner)
    swaps.append(parts.changes.WordSwapQWERTY(**inner))
    constraints = [
        parts.before.MinWordLength(min_length=4),
        parts.stop,
        parts.overlap.MaxWordsPerturbed(max_num_words=1),
        parts.before.RepeatModification(),
    ]
    changes = parts.changes.CompositeTransformation(swaps)
    return parts.goal, constraints, changes, parts.search.GreedySearch()


def checklist(parts: Any) -> Any:
    """Return CheckList; names and places need a model of their own."""
    changes = parts.changes
    swaps = [changes.WordSwapExtend(), changes.WordSwapContract(), changes.WordSwapChangeNumber()]
    constraints = [parts.before.RepeatModification()]
    composite = changes.CompositeTransformation(swaps)
    return parts.goal, constraints, composite, parts.search.GreedySearch()


def morpheus(parts: Any) -> Any:
    """Return Morpheus, aimed at the class instead of a translation."""
    forms = parts.changes.WordSwapInflections()
    return parts.goal, parts.once, forms, parts.search.GreedySearch()


def bad_characters(parts: Any) -> Any:
    """Return Bad Characters with invisible characters, for any wrong class."""
    search = parts.search.DifferentialEvolution(popsize=32, maxiter=10, max_perturbs=1)
    return parts.goal, [], parts.changes.WordSwapInvisibleCharacters(), search


RECIPES = {
    recipe.__name__.replace("_", "-"): recipe
    for recipe in (
        *(textfooler, textbugger, deepwordbug, pwws, bae, bert_attack, clare, alzantot),
        *(faster_alzantot, iga, pso, kuleshov, input_reduction, pruthi, checklist, morpheus),
        *(bad_characters,),
    )
}


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
    """Reply until the input ends."""
    # Nothing that libraries print may come between our lines.
    replies: TextIO = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    for name in NOT_USED:
        sys.modules.setdefault(name, MagicMock())
    settings = json.loads(sys.stdin.readline())
    random.seed(settings.get("seed", 0))
    np.random.seed(settings.get("seed", 0))  # noqa: NPY002 - the generator of TextAttack
    tag_by_nltk()
    attack = compose(settings, remote_victim(replies))
    print(json.dumps({"ready": True}), file=replies, flush=True)
    while line := sys.stdin.readline():
        request, processor = json.loads(line), time.process_time()
        # A victim in training has other weights than for the request before.
        attack.goal_function.clear_cache()
        results = attack_texts(attack, request["texts"], request["labels"])
        seconds = time.process_time() - processor
        print(json.dumps({"results": results, "processor": seconds}), file=replies, flush=True)


if __name__ == "__main__":
    main()
