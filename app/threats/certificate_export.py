"""`python -m app certify export`: claims that a stranger can check without this program."""

import argparse
import hashlib
import json
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save
from torch import Tensor

from app.attack.attack_evaluator import words_read
from app.cli.run_options import run_parser
from app.cli.terminal import harmless
from app.runs.atomic import replace_folder
from app.runs.resume import evaluated
from attacks.json_lines import read_values
from certify.threats import Synonyms, Threat, parse_threat
from certify.threats.parsing import parse_k
from certify.words.score_certifiers import ScoreModel
from layers.ngram_scores import GRID
from layers.window_net import WEIGHT_GRID
from lit_modules import WordScores
from lit_modules.checkpoints.reading import load
from lit_modules.word_scores import score_model
from text.word_splitter import pattern_of

STATEMENT = "statement.json"


def main(argv: Sequence[str]) -> int:
    """Runs `certify export`; see `Command.place`.

    Raises:
        ValueError: a model without scores, nothing certified, or a folder that holds other things.
        OSError: no such run or certificates, or a folder that cannot be written.
    """
    args = parser().parse_args(argv)
    run, checkpoint = evaluated("certify export", Path(args.runs_dir), args.run, args.ckpt_path)
    model = load(checkpoint)
    if run is None or not isinstance(model, WordScores):
        msg = f"got {checkpoint} of {type(model).__name__}, expected a run of WordScores"
        raise ValueError(msg)
    folder = Path(args.to)
    if folder.exists() and not (folder / STATEMENT).is_file():
        msg = f"got --to {folder}, which is there, expected a new folder or an earlier export"
        raise ValueError(msg)
    name = args.threat if args.tag is None else f"{args.threat}-{args.tag}"
    threat = parse_threat(args.threat, lists=args.lists, k=parse_k(args.k), words=words_read(model))
    path = run.path / f"certificates_{name}.jsonl"
    records = list(read_values(path))
    claims = [_claim(line, threat) for line in records if _holds(line, args.k)]
    if not claims:
        msg = f"got {path} without a text that is certified for k={args.k}, expected one"
        raise ValueError(msg)
    scores = score_model(model)
    weights = save(dict(_tensors(scores)))
    statement = _statement(scores, threat, model, weights, args.k)
    fresh = folder.with_name(f".{folder.name}.new")
    shutil.rmtree(fresh, ignore_errors=True)
    fresh.mkdir(parents=True)
    try:
        (fresh / "scores.safetensors").write_bytes(weights)
        (fresh / STATEMENT).write_text(json.dumps(statement, indent=1), encoding="utf-8")
        lines = "".join(json.dumps(claim) + "\n" for claim in claims)
        (fresh / "claims.jsonl").write_text(lines, encoding="utf-8")
        replace_folder(fresh, folder)
    finally:
        shutil.rmtree(fresh, ignore_errors=True)
    print(harmless(f"{len(claims)} of {len(records)} texts are certified for k={args.k}: {folder}"))
    return 0


def parser() -> argparse.ArgumentParser:
    """Returns the parser of the command."""
    made = run_parser(
        "certify export",
        "Write weights, statement and all certified texts of a run as a folder that "
        "docs/certificates/check.py verifies without this program.",
        device=False,
    )
    add = made.add_argument
    add("--threat", required=True, choices=("synonyms", "characters"))
    add("--lists", metavar="FILE", help="JSON with synonyms, as for `certify --threat`")
    add("--k", required=True, metavar="K", help="number of changes, as `certify` was asked; or all")
    add("--tag", metavar="TAG", help="of the outcome, as for `certify --threat`")
    add("--to", required=True, metavar="FOLDER", help="the folder")
    return made


def _holds(line: dict[str, Any], k: str) -> bool:
    if k not in line["holds"]:
        msg = f"got k={k}, expected one of {', '.join(line['holds'])}, which were certified"
        raise ValueError(msg)
    return bool(line["holds"][k])


def _claim(line: dict[str, Any], threat: Threat) -> dict[str, Any]:
    places = threat.candidates(line["text"]) if isinstance(threat, Synonyms) else None
    known = {"text": line["text"], "prediction": line["prediction"]}
    return {**known, "k": threat.k, "places": places}


def _tensors(model: ScoreModel) -> Iterator[tuple[str, Tensor]]:
    """Yields n-grams, scores and the weights of a net over windows, in multiples of the grids."""
    scores = model.scores
    yield "ngrams_1", torch.arange(scores.size).unsqueeze(1)
    yield "scores_1", (scores.word_table() / GRID).round().long()
    if scores.net is not None:
        yield "net_tables", (scores.net_tables() / WEIGHT_GRID).round().long()
        yield "net_output", (scores.net.output() / WEIGHT_GRID).round().long()
    for order in scores.orders:
        keys, places = scores.keys(order), []
        for _ in range(order):
            places.append(keys % scores.size)
            keys = keys // scores.size
        yield f"ngrams_{order}", torch.stack(places[::-1], dim=1)
        yield f"scores_{order}", (scores.ngram_table(order)[:-1] / GRID).round().long()


def _statement(
    model: ScoreModel, threat: Threat, module: WordScores, weights: bytes, k: str
) -> dict[str, Any]:
    splitter = model.tokenizer.splitter
    return {
        "statement": f"{threat.statement}: the answer stays. A tie is no answer.",
        "threat": threat.name,
        "k": k,
        "digest": threat.digest,
        "weights": hashlib.sha256(weights).hexdigest(),
        "grid": GRID,
        "net_grid": WEIGHT_GRID,
        "window": model.scores.width,
        "max_length": model.tokenizer.max_length,
        "pattern": pattern_of(splitter.settings),
        "normalised": splitter.settings.split != "ascii",
        "specials": model.scores.specials,
        "classes": module.require_text()[1],
        "words": model.tokenizer.vocabulary.get_itos(),
    }
