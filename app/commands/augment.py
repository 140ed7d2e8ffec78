"""Make changed copies of texts by the transformations of an attack, without a model.

The words and their candidates are random; the candidates satisfy the constraints of the recipe.
Writes a JSON line per text. A command that was stopped resumes if it is repeated.
"""

import argparse
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO, Any, Self, get_args

from app.cli.asked_texts import add_texts, chunks, read_texts
from app.cli.run_options import add_option, check_output, command_parser
from attacks.augmenting import TOGETHER, Augmenter
from attacks.digests import content_digest
from attacks.fingerprint import describe, flat
from attacks.json_lines import append, cut_lines, open_lines, read_lines
from attacks.recipe_settings import Language, RecipeSettings
from attacks.resources.catalogue import resources_named
from run_files.atomic import replacing
from run_files.terminal import harmless
from text import Text
from text.subjects import differences, joined


def run(args: argparse.Namespace) -> int:
    """Run the command."""
    if bool(args.text) == (args.file is not None):
        msg = "got both or none of --text and --file, expected texts from one place"
        raise ValueError(msg)
    if args.output is not None:
        check_output(args.output, args.file)
    # --text_pair gives pairs by itself; a file of pairs has to be announced.
    pairs = bool(args.text_pair) or args.pairs
    texts = [item.text for item in read_texts(args, pairs=pairs)]
    augmenter = _build_augmenter(args, pairs=pairs)
    if args.output is None:
        for number, copies in enumerate(augmenter.run(texts)):
            print(json.dumps(_record(number, texts[number], copies), ensure_ascii=False))
        return 0
    subject = {
        **flat(describe(augmenter.attack), "attack"),
        **{name: getattr(augmenter, name) for name in ("copies", "share", "seed")},
        "columns": list(augmenter.columns),
    }
    with AugmentedFile(args.output, subject, texts) as file:
        before = len(file.records)
        if before:
            print(f"resuming after {before} of {len(texts)} texts")
        for part in chunks(texts[before:], TOGETHER):
            # The seed of a text depends on its number in the file, not on where a command resumes.
            first = len(file.records)
            for i, copies in enumerate(augmenter.run(part, first=first)):
                file.add(_record(first + i, part[i], copies))
        file.finish()
    count = sum(len(record["augmented"]) for record in file.records)
    print(harmless(f"{count} copies of {len(texts)} texts: {args.output}"))
    return 0


def parser() -> argparse.ArgumentParser:
    """Return the parser of the command."""
    parser = command_parser("augment", __doc__, "--seed", "--resources", "--sentence_encoder")
    add_texts(parser)
    add_option(parser, "--output", type=Path, help="JSON lines (default: standard output)")
    add = parser.add_argument
    add("--pairs", action="store_true", help="read pairs of a file")
    add("--recipe", default="pwws", help="name of an attack, see docs/attacks.md")
    add("--copies", type=int, default=1, help="copies of each text")
    add("--share", type=float, default=0.1, help="share of the words changed")
    add("--columns", nargs=2, metavar="NAME", help="names of the texts of a pair")
    add("--language", choices=get_args(Language), help="of the texts; English if none")
    add("--vectors", help="file of word vectors, or of lists of neighbours")
    add("--masked_lm", help="model that proposes words")
    add("--similarity", type=float, help="least sentence similarity; 0: no encoder")
    add("--candidates", type=int, help="replacements that are tried for a word")
    return parser


@resources_named("--resources")
def _build_augmenter(args: argparse.Namespace, *, pairs: bool) -> Augmenter:
    from attacks.recipes import build
    from attacks.transformations import NoReplacements

    names = ("recipe", "language", "resources", "vectors", "sentence_encoder", "masked_lm")
    settings = {name: getattr(args, name) for name in (*names, "similarity", "candidates")}
    columns = args.columns or (["text", "text_pair"] if pairs else ["text"])
    attack = build(RecipeSettings(**settings))
    if isinstance(attack.transformation, NoReplacements):
        msg = (
            f"got {args.recipe}, whose texts come from the gradient of a model, expected a recipe "
            "with replacements of words: --recipe pwws"
        )
        raise ValueError(msg)
    return Augmenter(
        attack, copies=args.copies, share=args.share, seed=args.seed, columns=tuple(columns)
    )


def _record(number: int, text: Text, copies: Sequence[Text]) -> dict[str, Any]:
    return {"number": number, "text": text, "augmented": list(copies)}


class AugmentedFile:
    """Writes each record into the journal `FILE.journal`, and the file at the end in one step.

    The records depend on the settings in `subject`, and on all `texts`.
    """

    def __init__(self, path: Path, subject: Mapping[str, Any], texts: Sequence[Text]) -> None:
        self.path = path
        self._journal = path.with_name(f"{path.name}.journal")
        # As it will be read: JSON turns tuples into lists.
        settings = json.loads(json.dumps({**subject, "texts": content_digest(list(texts))}))
        self._stream: IO[bytes] = open_lines(self._journal)
        try:
            # Of former starts, then those of this one.
            self.records, length = self._former(settings)
            cut_lines(self._stream, settings, length)
        except BaseException:
            self._stream.close()
            raise

    def _former(self, settings: Mapping[str, Any]) -> tuple[list[dict[str, Any]], int]:
        """Return the records of the journal, and the number of its bytes to keep."""
        before, records, length = read_lines(self._journal, dict)
        changes = differences(before or {}, settings)
        if not length or not changes:
            return records, length
        if self.path.is_file() and self.path.read_bytes() == b"".join(map(_line, records)):
            # The file is complete: a kill came before its journal was removed.
            return [], 0
        msg = (
            f"got {self._journal} with other settings ({joined(changes)}), expected "
            "the same: give another --output, or delete it"
        )
        raise ValueError(msg)

    def add(self, record: dict[str, Any]) -> None:
        """Write one record."""
        append(self._stream, [record])
        self.records.append(record)

    def finish(self) -> None:
        """Write the file, and remove the journal."""
        with replacing(self.path) as stream:
            stream.writelines(map(_line, self.records))
        self._stream.close()
        self._journal.unlink()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._stream.close()


def _line(record: Mapping[str, Any]) -> bytes:
    return json.dumps(record, ensure_ascii=False).encode() + b"\n"
