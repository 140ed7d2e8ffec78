"""Write texts in other words, by a language model, for the attack `paraphrase`.

The model is a folder of `transformers` (--model), or a chat endpoint (--url, --http.chat). The same
command resumes after a stop. The texts are those of attacks that were made before, or of files.
"""

import argparse
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from app.cli.run_options import add_option, check_output
from app.cli.victim_options import OneLineParser, split_names
from app.commands.attack_validity import add_records, record_files
from attacks.resources.paraphrases import (
    LEVELS,
    ChatParaphraser,
    Paraphraser,
    SequenceParaphraser,
    write_paraphrases,
)
from attacks.victims.http_settings import HttpSettings
from measure.validity_files import read_attack_records
from run_files.devices import torch_device
from text import check_range
from text.bounded_files import read_text


def run(args: argparse.Namespace) -> int:
    """Run the command."""
    check_output(Path(args.output), *map(Path, [*args.texts, *(args.records or [])]))
    texts = list(dict.fromkeys(text.strip() for text in _texts(args) if text.strip()))
    if not texts:
        msg = "got no texts, expected attacked texts, or files with a text in each line"
        raise ValueError(msg)
    http, path = HttpSettings(**args.http.as_dict()), Path(args.output)
    count = write_paraphrases(
        path,
        texts[: args.num_samples],
        _paraphraser(args, http),
        budget=http.budget,
        progress=lambda done: print(f"{done:,} texts", end="\r", flush=True),
    )
    print(f"{path}: {count:,} texts; steadfast attack --attack paraphrase reads them by")
    print(f"--attack.paraphrases {path}")
    return 0


def parser() -> OneLineParser:
    """Return the parser of the command line."""
    parser = OneLineParser(prog="steadfast resources paraphrases", description=__doc__)
    add = parser.add_argument
    add_records(parser)
    add("--texts", nargs="+", default=[], metavar="FILE", help="a text in each line; may be .gz")
    text = "folder or hub name of a sequence-to-sequence model of transformers"
    add("--model", metavar="NAME", help=text)
    add("--prefix", default="", help="text that --model reads before each text, as `paraphrase: `")
    add("--count", type=int, default=5, metavar="N", help="texts that --model writes of a text")
    add("--url", metavar="URL", help="chat endpoint, as https://HOST/v1/chat/completions")
    text = f"what it is asked for, three texts of each: {', '.join(LEVELS)}, with commas between"
    add("--levels", type=str, default=",".join(LEVELS), help=text)
    add_option(parser, "--output", required=True, help="file of the texts, JSON lines")
    add_option(parser, "--num_samples", help="texts at most (default: all)")
    for option in ("--runs_dir", "--device", "--debug"):
        add_option(parser, option)
    parser.add_class_arguments(HttpSettings, "http")
    return parser


def _paraphraser(args: argparse.Namespace, http: HttpSettings) -> Paraphraser:
    if (args.model is None) == (args.url is None):
        msg = "got no language model, or two, expected --model NAME or --url URL"
        raise ValueError(msg)
    if args.url is not None:
        return ChatParaphraser(args.url, http, split_names(args.levels) or [])
    check_range({"--count": args.count}, least=1)
    device = torch_device(args.device)
    return SequenceParaphraser(args.model, count=args.count, prefix=args.prefix, device=device)


def _texts(args: argparse.Namespace) -> Iterator[str]:
    for name in args.texts:
        yield from read_text(Path(name)).splitlines()
    if args.texts and not args.records and args.run is None:
        return
    for path in record_files(args, "resources paraphrases"):
        for record in read_attack_records(path):
            text: Any = record.text
            yield from (text,) if isinstance(text, str) else text
