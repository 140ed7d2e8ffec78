"""`python -m app resources`: downloads the resources of attacks, with checksums, into a folder."""

import argparse
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from app.cli.run_options import command_parser
from app.resources.download import DownloadError, fetch
from attacks.resources.catalogue import MASKED_LM, SENTENCE_ENCODER
from attacks.resources.vector_files import cache_folder
from text.web_address import redact

# At a fixed commit, so that the file always fits its checksum.
_NLTK = (
    "https://raw.githubusercontent.com/nltk/nltk_data/550b6625bcef1f2abff2ff770a5a0d272c9c6b2a/"
    "packages/{}.zip"
)


@dataclass(frozen=True, kw_only=True)
class Source:
    """A file to download.

    Attributes:
        what: description in a few words.
        url: address.
        path: name in the folder.
        sha256: checksum; None if none is known.
        size: size in bytes; None if not known.
    """

    what: str
    url: str
    path: str
    sha256: str | None
    size: int | None


@dataclass(frozen=True, kw_only=True)
class Model:
    """A model on the hub, whose own client gets and checks it.

    Attributes:
        what: description in a few words.
        repository: name of the repository there.
        files: patterns of those that are needed.
    """

    what: str
    repository: str
    files: tuple[str, ...] = ("*.json", "*.txt", "model.safetensors", "1_Pooling/*")


SOURCES: dict[str, Source | Model] = {
    "wordnet": Source(
        what="WordNet 3.0 (pwws)",
        url=_NLTK.format("corpora/wordnet"),
        path="nltk/corpora/wordnet.zip",
        sha256="cbda5ea6eef7f36a97a43d4a75f85e07fccbb4f23657d27b4ccbc93e2646ab59",
        size=10_775_600,
    ),
    "tagger": Source(
        what="part-of-speech tagger (textfooler, bae, a2t)",
        url=_NLTK.format("taggers/averaged_perceptron_tagger_eng"),
        path="nltk/taggers/averaged_perceptron_tagger_eng.zip",
        sha256="6025f530624335c67d6547d44757b357b4e79bae030a0383e9887a92c1718f0b",
        size=1_539_115,
    ),
    "neighbours": Source(
        what="neighbours among counter-fitted vectors (textfooler, textbugger, a2t, random)",
        url=(
            "https://raw.githubusercontent.com/robinjia/certified-word-sub/"
            "4fa78a459a3fdcecf544b7d10ffd2b9494d74a2b/data/counterfitted_neighbors.json"
        ),
        path="counterfit/counterfitted_neighbors.json",
        sha256="103247143f39bd5dd66850f3a912393392641dbd98093c61e2b24a4cc8a96fb0",
        size=1_976_448,
    ),
    "vectors": Source(
        what="the counter-fitted vectors themselves: 50 neighbours of each word, with similarities",
        url=(
            "https://github.com/nmrksic/counter-fitting/raw/master/word_vectors/"
            "counter-fitted-vectors.txt.zip"
        ),
        path="counterfit/counter-fitted-vectors.txt.zip",
        sha256=None,
        size=None,
    ),
    "sentence-encoder": Model(
        what="sentence encoder (textfooler, textbugger, bae, a2t)", repository=SENTENCE_ENCODER
    ),
    "masked-lm": Model(what="masked language model (bae, a2t-mlm)", repository=MASKED_LM),
}
USUAL = ("wordnet", "tagger", "neighbours")
"""The resources that are downloaded when no names are given."""


def main(argv: Sequence[str]) -> int:
    """Runs `resources`; see `Command.place`.

    Returns:
        0 if all that was asked for is there, 1 if not, each failure in a line on standard error.
    """
    parser = _parser()
    args = parser.parse_args(argv)
    if unknown := [name for name in args.names if name not in SOURCES]:
        parser.error(f"got {unknown}, expected some of {', '.join(SOURCES)}")
    if args.sha256 and len(args.names) != 1:
        parser.error(f"got --sha256 and {len(args.names)} names, expected one")
    folder = Path(args.to) if args.to else cache_folder() / "resources"
    if args.list:
        for name, source in SOURCES.items():
            print(f"{name:<18}{_state(source, folder):<12}{source.what}")
        print(f"\nin {folder}")
        return 0
    failed = 0
    for name in args.names or USUAL:
        source = SOURCES[name]
        try:
            if isinstance(source, Model):
                path = _snapshot(source, folder)
            else:
                checksum = None if args.unchecked else args.sha256 or source.sha256
                if checksum is None and not args.unchecked:
                    msg = (
                        "got no checksum, and none is known for this file, expected --sha256 HEX, "
                        "or --unchecked to take it as it comes"
                    )
                    raise DownloadError(msg)
                url = f"{args.source.rstrip('/')}/{source.path}" if args.source else source.url
                print(f"{name}: {redact(url)}", file=sys.stderr)
                path = fetch(url, folder / source.path, sha256=checksum, size=source.size)
            print(f"{name}: {path}")
        except (DownloadError, OSError) as error:
            failed += 1
            print(f"error: {name}: {' '.join(str(error).split())}", file=sys.stderr)
    return 1 if failed else 0


def _parser() -> argparse.ArgumentParser:
    parser = command_parser(
        "resources",
        "Download the resources of attacks: word lists, a tagger, models.",
        epilog=f"Without names: {', '.join(USUAL)}. Attacks read the default folder, or "
        "that of --attack.resources FOLDER.",
        runs=False,
    )
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(SOURCES))
    parser.add_argument("--to", metavar="FOLDER", help=f"default: {cache_folder() / 'resources'}")
    parser.add_argument("--list", action="store_true", help="list the resources, download nothing")
    parser.add_argument(
        "--from",
        dest="source",
        metavar="URL",
        help="a server that has the files under the same names as the folder; models always come "
        "from the hub",
    )
    known = parser.add_mutually_exclusive_group()
    known.add_argument("--sha256", metavar="HEX", help="checksum of the file, if one NAME is given")
    known.add_argument("--unchecked", action="store_true", help="download without a checksum")
    return parser


def _snapshot(model: Model, folder: Path) -> Path:
    """A model of the hub, in a folder of its own."""
    from huggingface_hub import snapshot_download

    from text.hub_access import hub_reachable

    if not hub_reachable():
        msg = f"the hub cannot be reached, or is switched off, for {model.repository}"
        raise DownloadError(msg)
    target = folder / model.repository.rpartition("/")[2]
    return Path(
        snapshot_download(model.repository, local_dir=target, allow_patterns=list(model.files))
    )


def _state(source: Source | Model, folder: Path) -> str:
    if isinstance(source, Model):
        there = (folder / source.repository.rpartition("/")[2] / "config.json").is_file()
    else:
        there = (folder / source.path).is_file()
    if there:
        return "there"
    size = getattr(source, "size", None)
    return f"{size / 1e6:.2f} MB" if size else "-"
