"""Attacks rows with recipes of TextAttack 0.3.11, in an interpreter that has it.

The first line of the input says how: `recipe`, `vectors` (a file), `stop_words`, `seed`,
`distance`, `query_budget`, `exact`, and where they are wanted `encoder`, `masked_lm` (a folder) and
`candidates` (of CLARE).
It is answered by a line with `ready`. Then come lines of `texts` and `labels`. Questions to the
victim are lines with `texts`, each answered by a line of probabilities; the end of each request is
a line with `results`. All lines are JSON; see `textattack_child`.

The parts of the recipes are those of TextAttack, with other vectors and models, as it downloads its
own. With `exact`, random letters are "e", and parts without which two programs can give the same
answers are left out.
"""

import importlib
import json
import os
import random
import sys
import time
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np


def beside() -> Any:
    """Returns the module `textattack_child`, which lies beside this file."""
    return importlib.import_module("textattack_child")


def recipe(settings: dict[str, Any], victim: Any) -> Any:
    """Returns an attack of TextAttack.

    Args:
        settings: the first line of the input.
        victim: a wrapper of the victim.

    Raises:
        KeyError: an unknown recipe.
    """
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
        vectors=beside().embedding(Path(settings["vectors"])) if settings.get("vectors") else None,
        model=lm(settings["masked_lm"]) if settings.get("masked_lm") else {},
        near_sentence=[sentences(settings["encoder"])] if settings.get("encoder") else [],
        distance=settings["distance"],
        candidates=settings.get("candidates"),
        exact=settings["exact"],
        goal=ta.goal_functions.UntargetedClassification(victim),
        victim=victim,
    )
    parts.once = [before.RepeatModification(), parts.stop]
    found = RECIPES[settings["recipe"]](parts)
    goal, constraints, transformation, search = found
    return ta.Attack(goal, constraints, transformation, search)


def lm(folder: str) -> dict[str, Any]:
    """Returns a masked language model and its tokenizer, as transformations take them."""
    hub: Any = importlib.import_module("transformers")
    return {
        "masked_language_model": hub.AutoModelForMaskedLM.from_pretrained(folder),
        "tokenizer": hub.AutoTokenizer.from_pretrained(folder, use_fast=True),
    }


def sentences(settings: dict[str, Any]) -> Any:
    """Returns TextAttack's constraint for a sentence encoder of `transformers`, means of tokens.

    Args:
        settings: `folder`, and the arguments of TextAttack's constraint.
    """
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
            """Returns `[texts, width]`."""
            found = []
            for start in range(0, len(texts), 32):
                read = tokenizer(
                    texts[start : start + 32], padding=True, truncation=True, return_tensors="pt"
                )
                with torch.no_grad():
                    hidden = model(**read)[0]
                mask = read["attention_mask"].unsqueeze(-1)
                found.append((hidden * mask).sum(1) / mask.sum(1))
            return torch.cat(found)

    return Means(**settings)


def _swap(parts: Any, count: int) -> Any:
    return parts.changes.WordSwapEmbedding(max_candidates=count, embedding=parts.vectors)


def _ranked(parts: Any, method: str) -> Any:
    return parts.search.GreedyWordSwapWIR(wir_method=method)


def _cosine(parts: Any, least: float) -> Any:
    return parts.semantics.WordEmbeddingDistance(embedding=parts.vectors, min_cos_sim=least)


def _distance(parts: Any, *, original: bool) -> Any:
    return parts.semantics.WordEmbeddingDistance(
        embedding=parts.vectors, max_mse_dist=parts.distance, compare_against_original=original
    )


def _typos(parts: Any, names: str, **settings: bool) -> list[Any]:
    """Returns transformations of characters; where answers are compared, the only letter is e."""
    every = {
        "swap": parts.changes.WordSwapNeighboringCharacterSwap,
        "substitute": parts.changes.WordSwapRandomCharacterSubstitution,
        "delete": parts.changes.WordSwapRandomCharacterDeletion,
        "insert": parts.changes.WordSwapRandomCharacterInsertion,
    }
    found = [every[name](**settings) for name in names.split()]
    for one in found if parts.exact else ():
        one._get_random_letter = lambda: "e"
    return found


def _homoglyphs(kind: Any) -> Any:
    """Returns the swap of look-alikes, whose list for other attacks is not in the package."""
    made = kind.__new__(kind)
    with suppress(FileNotFoundError):
        made.__init__()
    return made


def textfooler(parts: Any) -> Any:
    """Returns TextFooler."""
    columns = parts.before.InputColumnModification(["premise", "hypothesis"], {"premise"})
    tags = parts.grammar.PartOfSpeech(allow_verb_noun_swap=True)
    constraints = [*parts.once, columns, _cosine(parts, 0.5), tags, *parts.near_sentence]
    return parts.goal, constraints, _swap(parts, 50), _ranked(parts, "delete")


def textbugger(parts: Any) -> Any:
    """Returns TextBugger; with each place where answers are compared."""
    inner = {"random_one": not parts.exact, "skip_first_char": True, "skip_last_char": True}
    space = parts.changes.WordSwapRandomCharacterInsertion(letters_to_insert=" ", **inner)
    swaps = [
        space,
        *_typos(parts, "delete swap", **inner),
        _homoglyphs(parts.changes.WordSwapHomoglyphSwap),
        _swap(parts, 5),
    ]
    whole = parts.changes.CompositeTransformation(swaps)
    return parts.goal, [*parts.once, *parts.near_sentence], whole, _ranked(parts, "delete")


def deepwordbug(parts: Any) -> Any:
    """Returns DeepWordBug; with each place where answers are compared."""
    names, one = "swap substitute delete insert", not parts.exact
    swaps = parts.changes.CompositeTransformation(_typos(parts, names, random_one=one))
    limit = parts.overlap.LevenshteinEditDistance(30)
    return parts.goal, [*parts.once, limit], swaps, _ranked(parts, "unk")


def pwws(parts: Any) -> Any:
    """Returns PWWS."""
    synonyms = parts.changes.WordSwapWordNet()
    return parts.goal, parts.once, synonyms, _ranked(parts, "weighted-saliency")


def bae(parts: Any) -> Any:
    """Returns BAE-R."""
    words = parts.changes.WordSwapMaskedLM(
        method="bae", max_candidates=50, min_confidence=0.0, **parts.model
    )
    tags = parts.grammar.PartOfSpeech(allow_verb_noun_swap=True)
    return parts.goal, [*parts.once, tags, *parts.near_sentence], words, _ranked(parts, "delete")


def bert_attack(parts: Any) -> Any:
    """Returns BERT-Attack."""
    words = parts.changes.WordSwapMaskedLM(method="bert-attack", max_candidates=8, **parts.model)
    limit = parts.overlap.MaxWordsPerturbed(max_percent=0.4)
    return parts.goal, [*parts.once, limit, *parts.near_sentence], words, _ranked(parts, "unk")


def clare(parts: Any) -> Any:
    """Returns CLARE."""
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
    """Returns Alzantot's genetic algorithm without its language model."""
    return _genetic(parts, original=False, iterations=20)


def faster_alzantot(parts: Any) -> Any:
    """Returns the faster genetic algorithm without its language model."""
    return _genetic(parts, original=True, iterations=40)


def _genetic(parts: Any, *, original: bool, iterations: int) -> Any:
    limit = parts.overlap.MaxWordsPerturbed(max_percent=0.2)
    constraints = [*parts.once, limit, _distance(parts, original=original)]
    search = parts.search.AlzantotGeneticAlgorithm(
        pop_size=60, max_iters=iterations, post_crossover_check=False
    )
    return parts.goal, constraints, _swap(parts, 8), search


def iga(parts: Any) -> Any:
    """Returns the improved genetic algorithm."""
    limit = parts.overlap.MaxWordsPerturbed(max_percent=0.2)
    constraints = [parts.stop, limit, _distance(parts, original=False)]
    search = parts.search.ImprovedGeneticAlgorithm(
        pop_size=60, max_iters=20, post_crossover_check=False
    )
    return parts.goal, constraints, _swap(parts, 50), search


def pso(parts: Any) -> Any:
    """Returns the particle swarm, with WordNet in place of HowNet."""
    search = parts.search.ParticleSwarmOptimization(pop_size=60, max_iters=20)
    return parts.goal, parts.once, parts.changes.WordSwapWordNet(), search


def kuleshov(parts: Any) -> Any:
    """Returns Kuleshov's attack without its language model."""
    encoders = importlib.import_module("textattack.constraints.semantics.sentence_encoders")
    near = encoders.ThoughtVector(embedding=parts.vectors, threshold=0.2, metric="max_euclidean")
    limit = parts.overlap.MaxWordsPerturbed(max_percent=0.5)
    goal = parts.ta.goal_functions.UntargetedClassification(parts.victim, target_max_score=0.7)
    return goal, [*parts.once, limit, near], _swap(parts, 15), parts.search.GreedySearch()


def input_reduction(parts: Any) -> Any:
    """Returns the reduction of inputs."""
    goal = parts.ta.goal_functions.InputReduction(parts.victim, maximizable=True)
    return goal, parts.once, parts.changes.WordDeletion(), _ranked(parts, "delete")


def pruthi(parts: Any) -> Any:
    """Returns Pruthi's typing error."""
    inner = {"random_one": False, "skip_first_char": True, "skip_last_char": True}
    swaps = _typos(parts, "swap delete insert", **inner)
    swaps.append(parts.changes.WordSwapQWERTY(**inner))
    constraints = [
        parts.before.MinWordLength(min_length=4),
        parts.stop,
        parts.overlap.MaxWordsPerturbed(max_num_words=1),
        parts.before.RepeatModification(),
    ]
    whole = parts.changes.CompositeTransformation(swaps)
    return parts.goal, constraints, whole, parts.search.GreedySearch()


def checklist(parts: Any) -> Any:
    """Returns CheckList; names and places need a model that is not there."""
    changes = parts.changes
    swaps = [changes.WordSwapExtend(), changes.WordSwapContract(), changes.WordSwapChangeNumber()]
    constraints = [parts.before.RepeatModification()]
    whole = changes.CompositeTransformation(swaps)
    return parts.goal, constraints, whole, parts.search.GreedySearch()


def morpheus(parts: Any) -> Any:
    """Returns Morpheus, aimed at the class in place of a translation."""
    forms = parts.changes.WordSwapInflections()
    return parts.goal, parts.once, forms, parts.search.GreedySearch()


def bad_characters(parts: Any) -> Any:
    """Returns Bad Characters with invisible characters, for any wrong class."""
    search = parts.search.DifferentialEvolution(popsize=32, maxiter=10, max_perturbs=1)
    return parts.goal, [], parts.changes.WordSwapInvisibleCharacters(), search


RECIPES = {
    one.__name__.replace("_", "-"): one
    for one in (
        *(textfooler, textbugger, deepwordbug, pwws, bae, bert_attack, clare, alzantot),
        *(faster_alzantot, iga, pso, kuleshov, input_reduction, pruthi, checklist, morpheus),
        *(bad_characters,),
    )
}


def tags_by_nltk() -> None:
    """Lets texts take parts of speech from nltk: the tagger of TextAttack is a download."""
    nltk: Any = importlib.import_module("nltk")
    text: Any = importlib.import_module("textattack.shared").AttackedText

    def tag(self: Any, index: int) -> str:
        if not self._pos_tags:
            self._pos_tags = [one for _, one in nltk.pos_tag(self.words, tagset="universal")]
        found: str = self._pos_tags[index]
        return found

    text.pos_of_word_index = tag


def answers_of(made: Any, request: dict[str, Any]) -> list[dict[str, Any]]:
    """Returns the outcome, the queries and the texts of each row.

    Where TextAttack breaks off with its own error the outcome is `broken`: its sentence encoder
    looks for the first word that a candidate has changed, and ends with StopIteration on one that
    changed none.
    """
    results: list[dict[str, Any]] = []
    for text, label in zip(request["texts"], request["labels"], strict=True):
        try:
            found = made.attack(text, label)
        except StopIteration:
            asked = made.goal_function.num_queries
            results.append({"outcome": "broken", "queries": asked, "text": None, "words": 0})
            continue
        kind = type(found).__name__
        outcome = beside().KINDS.get(kind, "failed")
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
    return results


def main() -> None:
    """Answers until the input ends."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    beside().stand_ins()
    settings = json.loads(sys.stdin.readline())
    random.seed(settings["seed"])
    np.random.seed(settings["seed"])  # noqa: NPY002 - the generator of TextAttack
    tags_by_nltk()
    made = recipe(settings, beside().asking(answers))
    made.goal_function.query_budget = settings["query_budget"] or float("inf")
    print(json.dumps({"ready": True}), file=answers, flush=True)
    while line := sys.stdin.readline():
        processor = time.process_time()
        results = answers_of(made, json.loads(line))
        spent = time.process_time() - processor
        print(json.dumps({"results": results, "processor": spent}), file=answers, flush=True)


if __name__ == "__main__":
    main()
