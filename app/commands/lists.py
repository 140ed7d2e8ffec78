"""List what words may become, by recipes, resources and typos, for the words of a vocabulary.

`--lists` and `--model.robustness.lists` take the file, and so do other programs. Typos are those
that a spelling corrector with this vocabulary leaves (docs/robust_words.md).
"""

import argparse
import json
import time
from pathlib import Path

from app.cli.run_options import add_option, command_parser
from attacks.resources.catalogue import Resources, resources_named
from attacks.set_names import OWN_SETS
from attacks.word_sets import find_sets
from certify.threats import Substitutions
from lit_modules.checkpoints.reading import load
from run_files import atomic
from run_files.checkpoint_lookup import find_checkpoint
from text import Vocabulary, WordSettings, WordTokenizer
from text.bounded_files import read_text

_FRONT = WordSettings(split="joined", front_end="spelling")


def run(args: argparse.Namespace) -> int:
    """Run the command."""
    start = time.monotonic()
    tokenizer = _vocabulary(args.vocabulary, Path(args.runs_dir))
    with resources_named("--resources"):
        threat = find_sets(args.sets, tokenizer.splitter.settings, Resources(args.resources))
    content = list_words(threat, tokenizer)
    if not content:
        msg = f"got {args.sets}, which replace no word of {args.vocabulary}, expected other sets"
        raise ValueError(msg)
    atomic.write_text(args.output, json.dumps(content, indent=0, ensure_ascii=False) + "\n")
    count = sum(map(len, content.values()))
    words = len(tokenizer.vocabulary) - len(tokenizer.specials)
    seconds = time.monotonic() - start
    print(f"{len(content):,} of {words:,} words have {count:,} replacements ({seconds:.0f} s)")
    print(args.output)
    return 0


def list_words(threat: Substitutions, tokenizer: WordTokenizer) -> dict[str, list[str]]:
    """Return the single words that each word of a vocabulary may become, if there are any."""
    tokens, first = tokenizer.vocabulary.get_itos(), len(tokenizer.specials)
    words = tokens[first:]
    reach = threat.reach(words, tokenizer)
    rows, starts = reach.ids.tolist(), reach.starts.tolist()
    content = {}
    for row, word in enumerate(words):
        single = (a for a, b in rows[starts[row] : starts[row + 1]] if b < 0 and a >= first)
        listed = (text for text in threat.listed(word) if " " not in text)
        names = dict.fromkeys((*listed, *(tokens[index] for index in single)))
        names.pop(word, None)
        if names:
            content[word] = list(names)
    return content


def _vocabulary(name: str, runs_dir: Path) -> WordTokenizer:
    """Return the words of a run, or of a file with a word in each line."""
    if Path(name).is_file():
        words = dict.fromkeys(read_text(Path(name)).split())
        if not words:
            msg = f"got {name} without words, expected one in each line, frequent ones first"
            raise ValueError(msg)
        # A corrector prefers frequent words: the first ones of the file.
        counts = {word: len(words) - i for i, word in enumerate(words)}
        return WordTokenizer(Vocabulary(counts), words=_FRONT)
    _, checkpoint = find_checkpoint("lists", runs_dir, name, None)
    tokenizer, _ = load(checkpoint).require_text()
    if not isinstance(tokenizer, WordTokenizer):
        msg = (
            f"got run {name} with subwords, expected a method with whole words, or a file of words"
        )
        raise ValueError(msg)
    return tokenizer


def parser() -> argparse.ArgumentParser:
    """Return the parser of the command line."""
    parser = command_parser("lists", __doc__, "--runs_dir")
    add = parser.add_argument
    text = f"recipes of attacks, {', '.join(OWN_SETS)}, JSON files; commas between them"
    add("--from", dest="sets", required=True, metavar="SETS", help=text)
    text = "name of a run, or a file with a word in each line, frequent ones first"
    add("--vocabulary", required=True, metavar="RUN|FILE", help=text)
    text = "folder with WordNet and word vectors (docs/attacks.md)"
    add_option(parser, "--resources", help=text)
    add_option(parser, "--output", type=Path, required=True, help="JSON file for the lists")
    return parser
