"""Predict your own texts with a trained model (--text, --file or -).

Class, probabilities, margin and certified radius: a table on a terminal, JSON lines elsewhere.
"""

import argparse
import json
import shutil
import sys
import textwrap
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import IO

from app.cli.asked_texts import STDIN, add_texts, chunks, read_stream, read_texts, typed
from app.cli.run_options import RUN, add_option, check_output, command_parser, find_model
from lit_modules.checkpoints.reading import load
from measure.certified_answers import SETS, ThreatCertifiers
from measure.predictions import BATCH, TextPrediction, TextPredictor
from measure.verdict import judge_run
from run_files.atomic import replacing
from run_files.devices import torch_device
from run_files.terminal import harmless
from text import check_range


def run(args: argparse.Namespace) -> int:
    """Run the command."""
    check_range({"--batch_size": args.batch_size}, least=1)
    if sum((bool(args.text), args.file is not None, args.stdin is not None)) > 1:
        msg = "got more than one of --text, --file and -, expected texts from one place"
        raise ValueError(msg)
    if args.output is not None:
        check_output(Path(args.output), args.file)
    run, checkpoint = find_model("predict", args)
    # Results of a run are about its own checkpoint; a prediction does not need them.
    with suppress(OSError, ValueError):
        own = run is not None and checkpoint in (run.chosen, run.source_checkpoint())
        if run is not None and own and (results := run.results()) is not None:
            verdict = judge_run(run, results)
            if verdict.collapsed:
                print(harmless(f"{run.name}: {verdict.headline}"), file=sys.stderr)
    model = load(checkpoint).to(torch_device(args.device))
    # By default a model is certified for the sets that it is trained against, and for added text.
    words = None
    if model.perturbation_sets is not None or model.addition is not None:
        words = ThreatCertifiers.of_model(model, None, SETS, args.resources)
    answering = TextPredictor(model, words)
    pairs = answering.model.pairs
    numbered = read_texts(args, pairs=pairs)
    if args.stdin is not None:
        numbered = read_stream(sys.stdin.buffer, pairs=pairs)
    # On a terminal each line gets its prediction before the next one is typed.
    size = 1 if args.stdin and typed() else args.batch_size
    answers = (
        answer if item.line is None else {"line": item.line, **answer}
        for chunk in chunks(numbered, size)
        for item, answer in zip(chunk, answering([item.text for item in chunk]), strict=True)
    )
    if args.output is not None:
        with replacing(Path(args.output)) as stream:
            count = _write(answers, stream)
        print(harmless(f"{count} answers: {args.output}"))
    elif args.json or not sys.stdout.isatty():
        _write(answers, sys.stdout.buffer)
    else:
        _table(answers, answering)
    return 0


def parser() -> argparse.ArgumentParser:
    """Return the parser of the command."""
    parser = command_parser("predict", __doc__, *RUN, "--device", "--json", "--resources")
    add_option(parser, "--output", help="file of JSON lines, written whole or not at all")
    add = parser.add_argument
    add_texts(parser)
    add("stdin", nargs="?", choices=[STDIN], help=f"{STDIN}: the same from standard input")
    add_option(parser, "--batch_size", default=BATCH, help="texts that are read at a time")
    return parser


def _write(answers: Iterator[TextPrediction], stream: IO[bytes]) -> int:
    """Write a line for each prediction at once; return their number."""
    count = 0
    for answer in answers:
        stream.write(json.dumps(answer, ensure_ascii=False).encode() + b"\n")
        stream.flush()
        count += 1
    return count


def _table(answers: Iterator[TextPrediction], answering: TextPredictor) -> None:
    """Print a row for each prediction, then notes."""
    cut, unknown = 0, 0
    row = _number_row if answering.number else _class_row(answering)
    room = shutil.get_terminal_size().columns
    for number, answer in enumerate(answers):
        if number == 0:
            print(row(None))
        text = " / ".join(answer[key] for key in ("text", "text_pair") if key in answer)
        print(f"{row(answer)}  {harmless(' '.join(text.split()))}"[:room])
        cut += answer["cut"]
        if answer["unknown"]:
            unknown += 1
            print(harmless(f"  unknown words: {', '.join(answer['unknown'])}")[:room])
        for note in _word_notes(answer):
            filled = textwrap.fill(note, room, initial_indent="  ", subsequent_indent="    ")
            print(harmless(filled))
    if cut:
        length = answering.model.require_text()[0].max_length
        print(f"\n{cut} of the texts were longer than {length} tokens, and are cut there")
    if answering.no_certificate is not None and not (answering.words and answering.words.threats):
        print(f"\nno certificate: {answering.no_certificate}")


def _word_notes(answer: TextPrediction) -> Iterator[str]:
    """Yield the decision of a detector, corrected words, and the certificates in words."""
    if why := answer.get("why"):
        words = ", ".join(f"{word} {value:+.2f}" for word, value in why)
        yield f"{'detected' if answer['detected'] else 'not detected'}, evidence: {words}"
    if corrected := answer.get("corrected"):
        yield "read as: " + ", ".join(f"{word} -> {read}" for word, read in corrected.items())
    for record in answer.get("certificates", ()):
        yield record["sentence"]


def _class_row(answering: TextPredictor) -> Callable[[TextPrediction | None], str]:
    names = answering.model.require_text()[1]
    detects = answering.model.detector is not None
    width = max(len("prediction"), *(len(harmless(name)) for name in names))

    def row(answer: TextPrediction | None) -> str:
        if answer is None:
            score = "   score" * detects
            return f"{'prediction':<{width}}{score}  probability  margin  radius  text"
        margin, radius = (_shown(answer[key], ".3f") for key in ("margin", "radius"))
        name = harmless(answer["prediction"])
        score = f"  {_shown(answer['score'], '.2f'):>6}" if detects else ""
        return f"{name:<{width}}{score}  {answer['probability']:>11.4f}  {margin:>6}  {radius:>6}"

    return row


def _number_row(answer: TextPrediction | None) -> str:
    if answer is None:
        return f"{'value':>10}  text"
    return f"{_shown(answer['value'], '.4f'):>10}"


def _shown(value: float | None, form: str) -> str:
    return "-" if value is None else format(value, form)
