"""Write weights, statement and all certified texts of a run as a folder that others can check.

docs/certificates/check.py verifies it without this program; perturbation sets behind a front end:
docs/certificates/check_sets.py; text added to detections: docs/certificates/check_detector.py.
"""

import argparse
import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from app.claim_files import (
    STATEMENT,
    check_detector_threat,
    detector_files,
    digest,
    is_readable,
    scores_file,
    seal,
)
from app.cli.run_options import RUN, add_option, command_parser, find_model
from app.commands.certify import RESOURCES, read_threat, threat_type
from attacks.set_names import ADDED
from attacks.word_sets import changes_of
from certify.threats import Additions, Substitutions, Synonyms, Threat
from certify.threats.parsing import parse_k
from lit_modules import MonotoneScores, WordScores
from lit_modules.checkpoints.reading import load
from lit_modules.word_scores import score_model
from measure.certificate_records import stamp_of
from measure.corpus_split import words_read
from run_files.atomic import replacing_folder
from run_files.run_directory import RunDirectory
from run_files.terminal import harmless
from run_files.weights import shelf, weights_of
from text.bounded_files import json_lines
from text.canonical import CanonicalForm, canonical_table
from text.subjects import differences, joined
from text.word_splitter import pattern_of

KINDS = ("synonyms", "characters")
"""Threats that are no perturbation sets."""


def run(args: argparse.Namespace) -> int:
    """Run the command."""
    run, checkpoint = find_model("certify export", args)
    model = load(checkpoint)
    if run is None or not isinstance(model, WordScores | MonotoneScores):
        msg = (
            f"got {checkpoint} of {type(model).__name__}, expected a run of WordScores or "
            "MonotoneScores"
        )
        raise ValueError(msg)
    folder = Path(args.output)
    if folder.exists() and not (folder / STATEMENT).is_file():
        msg = f"got --output {folder}, which exists, expected a new folder or an earlier export"
        raise ValueError(msg)
    threat = read_threat(args, parse_k(args.k), words_read(model))
    if isinstance(model, MonotoneScores):
        check_detector_threat(threat)
    else:
        _check_threat(threat, model.words.front_end)
    weights = weights_of(checkpoint)
    files = run if checkpoint == run.chosen else shelf(run, weights)
    records = _certified(files, args, threat, weights.checkpoint)
    certified = [line for line in records if line["holds"][args.k]]
    claims = [_claim(line, threat) for line in certified if is_readable(line["text"], model.words)]
    if not claims:
        msg = f"got no text that is certified for k={args.k}, expected one: certify other texts"
        raise ValueError(msg)
    contents = _contents(model, threat, claims)
    with replacing_folder(folder) as fresh:
        for name, content in contents.items():
            (fresh / name).write_bytes(content)
    print(harmless(f"{len(claims)} of {len(records)} texts are certified for k={args.k}: {folder}"))
    if left := len(certified) - len(claims):
        print(
            f"{left} more have hidden, directed or upside-down characters, which the checker of "
            "words.canonical.display does not read"
        )
    return 0


def parser() -> argparse.ArgumentParser:
    """Return the parser of the command."""
    parser = command_parser("certify export", __doc__, *RUN, "--lists", "--tag")
    add = parser.add_argument
    text = "synonyms, characters, names of perturbation sets with commas between, or of detectors "
    text += ", ".join(ADDED)
    add("--threat", required=True, type=threat_type(KINDS), metavar="NAME", help=text)
    add_option(parser, "--resources", help=RESOURCES)
    text = "number of changes, as `certify` was asked; or all (default)"
    add("--k", default="all", metavar="K", help=text)
    add_option(parser, "--output", required=True, help="folder to write")
    return parser


def _check_threat(threat: Threat, front_end: str) -> None:
    """Raise a ValueError for claims of `WordScores` that no checker knows."""
    if isinstance(threat, Additions) or isinstance(threat, Substitutions) == (front_end == "none"):
        msg = (
            f"got --threat {threat.title} for WordScores with words.front_end={front_end}, "
            "expected perturbation sets for a model with a front end (lists: their file as a set), "
            "and synonyms or characters for one without"
        )
        raise ValueError(msg)


def _certified(
    files: RunDirectory, args: argparse.Namespace, threat: Threat, checkpoint: str
) -> list[dict[str, Any]]:
    """Return the records of a certification of the exported lists and weights."""
    name = threat.title if args.tag is None else f"{threat.title}-{args.tag}"
    results = files.results()
    subject = {} if results is None else results["about"].get(f"certify_{name}", {})
    if not subject:
        msg = (
            f"got no certificates_{name} in {files.path}, expected some: run `certify` with the "
            "same --threat first"
        )
        raise ValueError(msg)
    path = files.path / f"certificates_{name}.jsonl"
    records: list[dict[str, Any]] = [record for _, record in json_lines(path, "certificates")]
    stamp = stamp_of(threat.digest, checkpoint)
    stamps = ({name: line.get(name) for name in ("threat", "checkpoint")} for line in records)
    before = {
        "threat": subject["threat"]["digest"],
        "checkpoint": subject["checkpoint"],
        "around": subject["around"],
        # A killed program may have replaced the records before `results.json`.
        "records": next((other for other in stamps if other != stamp), stamp),
    }
    now = {"threat": threat.digest, "checkpoint": checkpoint, "around": None, "records": stamp}
    if other := differences(before, now):
        msg = (
            f"got an export of other things than were certified as {name} ({joined(other)}), "
            "expected the same lists and weights: give `certify` with these first"
        )
        raise ValueError(msg)
    if args.k not in subject["k"]:
        msg = f"got k={args.k}, expected one of {', '.join(subject['k'])}, which were certified"
        raise ValueError(msg)
    return records


def _claim(line: dict[str, Any], threat: Threat) -> dict[str, Any]:
    claim = {name: line[name] for name in ("sample_id", "text")}
    if isinstance(threat, Additions):
        return claim
    claim["prediction"] = line["prediction"]
    if isinstance(threat, Substitutions):
        return claim
    candidates = threat.candidates(line["text"]) if isinstance(threat, Synonyms) else None
    return {**claim, "k": threat.k, "places": candidates}


def _contents(
    model: WordScores | MonotoneScores, threat: Threat, claims: Sequence[dict[str, Any]]
) -> dict[str, bytes]:
    """Return the files of an export by name; the statement has the digests of the others."""
    if isinstance(model, MonotoneScores):
        assert isinstance(threat, Additions)  # see `check_detector_threat`
        return detector_files(model, threat, claims)
    copy = model.exact_copy()
    assert isinstance(copy, WordScores)  # of the same class
    scores = score_model(copy)
    if model.detector is not None:
        msg = (
            "got a detector, whose threshold the checkers of WordScores do not know, expected "
            "MonotoneScores, or a classifier trained without --detect.positive"
        )
        raise ValueError(msg)
    if scores.network.bias is not None:
        msg = (
            "got a model with a bias, which the checkers of WordScores do not add, expected "
            "bias=false: train without --model.bias"
        )
        raise ValueError(msg)
    if scores.tokenizer.splitter.settings.canonical != CanonicalForm():
        msg = (
            "got a model with words.canonical.display, which the checker does not know, expected "
            "one without options of the canonical form"
        )
        raise ValueError(msg)
    if isinstance(threat, Substitutions):
        lists = _lists(threat, (claim["text"] for claim in claims))
    else:
        lists = json.dumps(threat.content, sort_keys=True).encode()
    weights = scores_file(scores.scores)
    lines = "".join(json.dumps(claim) + "\n" for claim in claims).encode()
    splitter, specials = scores.tokenizer.splitter, scores.scores.specials
    sets = isinstance(threat, Substitutions)
    forms = canonical_table().encode()
    statement = {
        "threat": threat.name,
        **({"sets": threat.statement} if sets else {}),
        "split": splitter.settings.split,
        "pattern": pattern_of(splitter.settings),
        **({"front_end": splitter.settings.front_end, "forms": digest(forms)} if sets else {}),
        "lists": digest(lists),
        "weights": digest(weights),
        "claims": digest(lines),
        "number": len(claims),
        "max_length": scores.tokenizer.max_length,
        "classes": model.require_text()[1],
        "words": scores.tokenizer.vocabulary.get_itos()[specials:],
        **({"uncorrected": sorted(splitter.settings.uncorrected)} if sets else {}),
        "k": threat.k,
    }
    return {
        STATEMENT: seal(statement),
        **({"forms.json": forms} if sets else {}),
        "lists.json": lists,
        "scores.safetensors": weights,
        "claims.jsonl": lines,
    }


def _lists(threat: Substitutions, texts: Iterable[str]) -> bytes:
    """Return what each word of some texts may become, and the words that get no typo."""
    if threat.moves or any(part.tags for part in threat.sets):
        msg = (
            f"got {threat.title}, expected sets that replace a word by one, whatever the text: "
            "the checker knows lists of words, and typos"
        )
        raise ValueError(msg)
    lists: dict[str, list[str]] = {}
    excluded = []
    words = sorted({word for text in texts for word in threat.split(text)})
    for word in words:
        changes = [changes_of(part, word) for part in threat.sets]
        if listed := list(dict.fromkeys(text for texts, _ in changes for text in texts)):
            lists[word] = listed
        if not any(typed for _, typed in changes):
            excluded.append(word)
    content = {"lists": lists, "excluded": excluded if len(excluded) < len(words) else None}
    return json.dumps(content, ensure_ascii=False).encode()
