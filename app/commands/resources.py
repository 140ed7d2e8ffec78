"""Download the resources of attacks: word lists, a tagger, models."""

import argparse
import sys
import time
import urllib.error
import urllib.request
from dataclasses import dataclass
from http.client import HTTPException
from pathlib import Path
from typing import IO

from app.cli.commands import COMMANDS
from app.cli.run_options import add_option, command_parser
from attacks.digests import file_digest
from attacks.resources.catalogue import MASKED_LM, SENTENCE_ENCODER
from attacks.resources.vector_files import cache_folder
from run_files import atomic
from text.error_reasons import describe_error
from text.web_address import redact

TRIES = 6
"""Connections in a row without new bytes after which a download fails."""
TIMEOUT = 30.0
"""Seconds without a byte after which a connection fails."""
# Without TLS only to this machine: not every file has a checksum.
_ALLOWED = ("https://", "file:///", "http://127.0.0.1:", "http://localhost:", "http://[::1]:")
# At a fixed commit: else a new version of the file would not match its checksum.
_NLTK = (
    "https://raw.githubusercontent.com/nltk/nltk_data/550b6625bcef1f2abff2ff770a5a0d272c9c6b2a/"
    "packages/{}.zip"
)


@dataclass(frozen=True, kw_only=True)
class Download:
    """A file at `url`, or a model in a `repository` of the hub, whose own client checks it."""

    description: str
    path: str  # in the folder
    url: str = ""
    sha256: str | None = None  # None: not known
    size: int | None = None  # bytes of a file; None: not known
    repository: str = ""


SOURCES: dict[str, Download] = {
    "wordnet": Download(
        description="WordNet 3.0 (pwws)",
        url=_NLTK.format("corpora/wordnet"),
        path="nltk/corpora/wordnet.zip",
        sha256="cbda5ea6eef7f36a97a43d4a75f85e07fccbb4f23657d27b4ccbc93e2646ab59",
        size=10_775_600,
    ),
    "tagger": Download(
        description="part-of-speech tagger (textfooler, bae, a2t)",
        url=_NLTK.format("taggers/averaged_perceptron_tagger_eng"),
        path="nltk/taggers/averaged_perceptron_tagger_eng.zip",
        sha256="6025f530624335c67d6547d44757b357b4e79bae030a0383e9887a92c1718f0b",
        size=1_539_115,
    ),
    "neighbours": Download(
        description="neighbours among counter-fitted vectors (textfooler, textbugger, a2t, random)",
        url="https://raw.githubusercontent.com/robinjia/certified-word-sub/"
        "4fa78a459a3fdcecf544b7d10ffd2b9494d74a2b/data/counterfitted_neighbors.json",
        path="counterfit/counterfitted_neighbors.json",
        sha256="103247143f39bd5dd66850f3a912393392641dbd98093c61e2b24a4cc8a96fb0",
        size=1_976_448,
    ),
    "vectors": Download(
        description="counter-fitted vectors: 50 neighbours of each word, with similarities",
        url="https://github.com/nmrksic/counter-fitting/raw/master/word_vectors/"
        "counter-fitted-vectors.txt.zip",
        path="counterfit/counter-fitted-vectors.txt.zip",
    ),
    "sentence-encoder": Download(
        description="sentence encoder (textfooler, textbugger, bae, a2t)",
        path=SENTENCE_ENCODER.rpartition("/")[2],
        repository=SENTENCE_ENCODER,
    ),
    "masked-lm": Download(
        description="masked language model (bae, a2t-mlm)",
        path=MASKED_LM.rpartition("/")[2],
        repository=MASKED_LM,
    ),
}
USUAL = ("wordnet", "tagger", "neighbours")
"""The resources without which most attacks do not run: the default."""


def run(args: argparse.Namespace) -> int:
    """Run the command."""
    if args.sha256 and len(args.names) != 1:
        parser().error(f"got --sha256 and {len(args.names)} names, expected one")
    folder = Path(args.output) if args.output else cache_folder() / "resources"
    if args.list:
        for name, source in SOURCES.items():
            file = folder / source.path / ("config.json" if source.repository else "")
            size = f"{source.size / 1e6:.2f} MB" if source.size else "-"
            print(f"{name:<18}{'there' if file.is_file() else size:<12}{source.description}")
        print(f"\nin {folder}")
        return 0
    failed = 0
    for name in args.names or USUAL:
        try:
            print(f"{name}: {_download(name, args, folder)}")
        except (DownloadError, OSError) as error:
            failed += 1
            print(f"error: {name}: {describe_error(error)}", file=sys.stderr)
    return 1 if failed else 0


def _name(name: str) -> str:
    if name not in SOURCES:
        msg = f"got {name}, expected some of {', '.join(SOURCES)}"
        raise argparse.ArgumentTypeError(msg)
    return name


def parser() -> argparse.ArgumentParser:
    """Return the parser of the command."""
    text = f"Without names: {', '.join(USUAL)}. Attacks read the default folder, or that of "
    text += "--attack.resources FOLDER. Others are made here: "
    made = ", ".join(name for name in COMMANDS if name.startswith("resources "))
    parser = command_parser("resources", __doc__, epilog=f"{text}{made}.")
    add = parser.add_argument
    add("names", nargs="*", type=_name, metavar="NAME", help=", ".join(SOURCES))
    text = f"folder of the files (default: {cache_folder() / 'resources'})"
    add_option(parser, "--output", help=text)
    add("--list", action="store_true", help="list the resources, download nothing")
    text = "a server with the same file names as the folder; models always come from the hub"
    add("--from", dest="server", metavar="URL", help=text)
    checks = parser.add_mutually_exclusive_group()
    text = "checksum of the file, if there is one NAME"
    checks.add_argument("--sha256", metavar="HEX", help=text)
    checks.add_argument("--unchecked", action="store_true", help="download without a checksum")
    return parser


def _download(name: str, args: argparse.Namespace, folder: Path) -> Path:
    """Download a file, or the files of a model into its own folder; return the path."""
    source = SOURCES[name]
    path = folder / source.path
    if source.repository:
        # Here, not at the top: `--help` and `--list` are to be fast.
        from huggingface_hub import snapshot_download

        from text.hub_access import hub_reachable

        if not hub_reachable():
            msg = f"the hub cannot be reached, or is switched off, for {source.repository}"
            raise DownloadError(msg)
        # No weights in other formats: they are large, and a pickle can run code.
        patterns = ["*.json", "*.txt", "model.safetensors", "1_Pooling/*"]
        return Path(snapshot_download(source.repository, local_dir=path, allow_patterns=patterns))
    sha256 = None if args.unchecked else args.sha256 or source.sha256
    if sha256 is None and not args.unchecked:
        msg = (
            "got no checksum, and none is known for this file, expected --sha256 HEX, or "
            "--unchecked to skip the check"
        )
        raise DownloadError(msg)
    url = f"{args.server.rstrip('/')}/{source.path}" if args.server else source.url
    print(f"{name}: {redact(url)}", file=sys.stderr)
    return fetch(url, path, sha256=sha256, size=source.size)


# `torch.hub` and `datasets` do less: neither tries again, torch sets no time limit and takes a
# broken connection for the end of a file, and `datasets` compares no checksum of a file.


class DownloadError(RuntimeError):
    """A file could not be downloaded."""


def fetch(url: str, path: Path, *, sha256: str | None, size: int | None = None) -> Path:
    """Download a file and return its path; a copy with the right checksum is kept.

    The address is https, file, or http on this machine. The file has at most `size` bytes.

    Raises:
        DownloadError: the server does not send it, or sends another file.
        OSError: it cannot be written.
    """
    if not url.startswith(_ALLOWED):
        msg = f"got {redact(url)}, expected https://, file:/// or a server on this machine"
        raise DownloadError(msg)
    if sha256 is not None and path.is_file() and file_digest(path) == sha256.lower():
        return path
    with atomic.replacing(path) as stream:
        _fill(stream, url, size)
        stream.flush()
        if sha256 is not None and (digest := file_digest(Path(stream.name))) != sha256.lower():
            msg = (
                f"got a file of SHA-256 {digest} from {redact(url)}, expected {sha256}: it has "
                "changed or was tampered with, and is deleted"
            )
            raise DownloadError(msg)
    return path


def _fill(stream: IO[bytes], url: str, size: int | None) -> None:
    """Write the content of a file; a new connection resumes where the last one broke."""
    tries = furthest = 0
    while True:
        try:
            _append(stream, url, size)
            return
        except urllib.error.HTTPError as error:
            error.close()
            # 4xx: our request is wrong, another try would not help.
            if error.code < 500:
                msg = f"got status {error.code} {error.reason} from {redact(url)}"
                raise DownloadError(msg) from error
            problem: Exception = error
        except (urllib.error.URLError, HTTPException, TimeoutError, ConnectionError) as error:
            problem = error
        tries = 0 if stream.tell() > furthest else tries + 1
        furthest = max(furthest, stream.tell())
        if tries >= TRIES or url.startswith("file:"):
            reason = getattr(problem, "reason", None) or problem
            received = f"{stream.tell()} bytes came"
            msg = f"could not get {redact(url)}: {reason} ({received}); try again later"
            raise DownloadError(msg) from problem
        time.sleep(min(0.2 * 2**tries, 5.0))


def _append(stream: IO[bytes], url: str, size: int | None) -> None:
    """Append the bytes of one connection, from the end of the stream on."""
    request = urllib.request.Request(url, headers={"User-Agent": "steadfast"})
    if start := stream.tell():
        request.add_header("Range", f"bytes={start}-")
    with urllib.request.urlopen(request, timeout=TIMEOUT) as response:
        if not response.headers.get("Content-Range", "").startswith(f"bytes {start}-"):
            stream.seek(0)  # the server ignores ranges: it sends the file from its begin
            stream.truncate()
        length = response.headers.get("Content-Length")
        end = None if length is None else stream.tell() + int(length)
        while chunk := response.read(1 << 18):
            stream.write(chunk)
            if size is not None and stream.tell() > size:
                msg = f"got more than {size} bytes from {redact(url)}, expected another file"
                raise DownloadError(msg)
    # urllib takes a broken connection for the end of the file.
    if end is not None and stream.tell() < end:
        msg = f"the connection broke after {stream.tell()} of {end} bytes"
        raise ConnectionError(msg)
