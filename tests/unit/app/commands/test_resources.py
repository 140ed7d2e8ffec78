"""`python -m app resources`, against a server on this machine."""

import hashlib
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from app.commands import resources
from app.commands.resources import DownloadError, fetch
from tests.run_command import run_command

main = partial(run_command, "resources")

CONTENT = bytes(range(256)) * 40
SHA256 = hashlib.sha256(CONTENT).hexdigest()


@dataclass
class Server:
    """What it has, how it behaves, and what it was asked for."""

    files: dict[str, bytes] = field(default_factory=dict)
    ranges: bool = True
    break_after: list[int] = field(default_factory=list)
    status: list[int] = field(default_factory=list)
    asked: list[tuple[str, str | None]] = field(default_factory=list)
    url: str = ""


@pytest.fixture
def server() -> Iterator[Server]:
    state = Server()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            wanted = self.headers.get("Range")
            state.asked.append((self.path, wanted))
            if state.status and (code := state.status.pop(0)) != 200:
                self.send_error(code)
                return
            content = state.files.get(self.path.lstrip("/"))
            if content is None:
                self.send_error(404)
                return
            start = 0
            if wanted and state.ranges:
                start = int(wanted.removeprefix("bytes=").removesuffix("-"))
                if start >= len(content):
                    self.send_error(416)
                    return
                self.send_response(206)
                self.send_header("Content-Range", f"bytes {start}-{len(content)}/{len(content)}")
            else:
                self.send_response(200)
            self.send_header("Content-Length", str(len(content) - start))
            self.end_headers()
            end = state.break_after.pop(0) if state.break_after else len(content)
            self.wfile.write(content[start : start + end])

        def log_message(self, format: str, *args: Any) -> None:
            del format, args

    http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=http.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    state.url = f"http://127.0.0.1:{http.server_port}"
    yield state
    http.shutdown()
    http.server_close()
    thread.join()


@pytest.fixture(autouse=True)
def no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("time.sleep", lambda seconds: None)
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)


def test_a_file_is_got_and_named_when_it_is_whole(server: Server, tmp_path: Path) -> None:
    server.files["a"] = CONTENT
    path = fetch(f"{server.url}/a", tmp_path / "new" / "a.bin", sha256=SHA256)
    assert path.read_bytes() == CONTENT
    assert list(path.parent.iterdir()) == [path]
    fetch(f"{server.url}/a", path, sha256=SHA256.upper())
    assert len(server.asked) == 1  # what is there and right is not got again


def test_a_broken_connection_is_taken_up_where_it_broke(server: Server, tmp_path: Path) -> None:
    server.files["a"] = CONTENT
    server.break_after = [1000, 1, 5000]
    path = fetch(f"{server.url}/a", tmp_path / "a", sha256=SHA256)
    assert path.read_bytes() == CONTENT
    assert [wanted for _, wanted in server.asked] == [
        None,
        "bytes=1000-",
        "bytes=1001-",
        "bytes=6001-",
    ]


def test_a_server_without_ranges_sends_it_all_again(server: Server, tmp_path: Path) -> None:
    server.files["a"], server.ranges, server.break_after = CONTENT, False, [1000, 500]
    assert fetch(f"{server.url}/a", tmp_path / "a", sha256=SHA256).read_bytes() == CONTENT


def test_a_file_without_checksum_is_whole(server: Server, tmp_path: Path) -> None:
    server.files["a"], server.break_after = CONTENT, [1000]
    assert fetch(f"{server.url}/a", tmp_path / "a", sha256=None).read_bytes() == CONTENT


def test_another_file_than_expected(server: Server, tmp_path: Path) -> None:
    server.files["a"] = CONTENT[:-1] + b"!"
    (tmp_path / "a").write_bytes(b"what was there")
    with pytest.raises(DownloadError, match=f"expected {SHA256}: it has changed"):
        fetch(f"{server.url}/a", tmp_path / "a", sha256=SHA256)
    assert (tmp_path / "a").read_bytes() == b"what was there"
    assert list(tmp_path.iterdir()) == [tmp_path / "a"]


def test_more_than_expected(server: Server, tmp_path: Path) -> None:
    server.files["a"] = CONTENT
    with pytest.raises(DownloadError, match="got more than 100 bytes"):
        fetch(f"{server.url}/a", tmp_path / "a", sha256=SHA256, size=100)
    assert not list(tmp_path.iterdir())


def test_a_server_that_is_overloaded_is_asked_again(server: Server, tmp_path: Path) -> None:
    server.files["a"], server.status = CONTENT, [503, 502]
    assert fetch(f"{server.url}/a", tmp_path / "a", sha256=SHA256).read_bytes() == CONTENT


def test_a_server_that_has_no_such_file(server: Server, tmp_path: Path) -> None:
    with pytest.raises(DownloadError, match="got status 404 Not Found"):
        fetch(f"{server.url}/a", tmp_path / "a", sha256=SHA256)
    assert len(server.asked) == 1


@pytest.mark.parametrize("ranges", [True, False])
def test_a_server_that_gives_up(server: Server, tmp_path: Path, ranges: bool) -> None:
    server.files["a"], server.ranges = CONTENT, ranges
    server.break_after = [500] + ([0] if ranges else [500]) * 10
    with pytest.raises(DownloadError, match=r"broke after 500 of 10240 bytes .* try again later"):
        fetch(f"{server.url}/a", tmp_path / "a", sha256=SHA256)
    assert not list(tmp_path.iterdir())


def test_no_server_at_all(tmp_path: Path) -> None:
    with pytest.raises(DownloadError, match=r"could not get http://127\.0\.0\.1:9/a"):
        fetch("http://127.0.0.1:9/a", tmp_path / "a", sha256=SHA256)


def test_only_what_nobody_can_listen_to(tmp_path: Path) -> None:
    for url in ("http://example.org/a", "ftp://example.org/a", "http://127.0.0.1.example.org/a"):
        with pytest.raises(DownloadError, match="expected https://"):
            fetch(url, tmp_path / "a", sha256=SHA256)


def test_a_file_of_this_machine(tmp_path: Path) -> None:
    (tmp_path / "from").write_bytes(CONTENT)
    path = fetch((tmp_path / "from").as_uri(), tmp_path / "to", sha256=SHA256)
    assert path.read_bytes() == CONTENT


def test_no_place_to_write(server: Server, tmp_path: Path) -> None:
    server.files["a"] = CONTENT
    (tmp_path / "file").write_text("")
    with pytest.raises(OSError, match="could not write"):
        fetch(f"{server.url}/a", tmp_path / "file" / "a", sha256=SHA256)


# The command


@pytest.fixture
def sources(monkeypatch: pytest.MonkeyPatch) -> None:
    known = resources.Download(
        description="one", url="https://x", path="sub/one", sha256=SHA256, size=len(CONTENT)
    )
    unknown = resources.Download(description="two", url="https://x", path="two")
    monkeypatch.setattr(resources, "SOURCES", {"one": known, "two": unknown})
    monkeypatch.setattr(resources, "USUAL", ("one",))


@pytest.mark.usefixtures("sources")
def test_the_command(server: Server, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    server.files["sub/one"] = CONTENT
    assert main(["--output", str(tmp_path), "--from", server.url]) == 0
    assert (tmp_path / "sub" / "one").read_bytes() == CONTENT
    assert f"one: {tmp_path / 'sub' / 'one'}" in capsys.readouterr().out
    assert main(["--list", "--output", str(tmp_path)]) == 0
    listed = capsys.readouterr().out.splitlines()
    assert listed[0].split()[:2] == ["one", "there"]
    assert listed[1].split()[:2] == ["two", "-"]


@pytest.mark.usefixtures("sources")
def test_a_file_without_known_checksum(
    server: Server, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    server.files["two"] = CONTENT
    given = ["two", "--output", str(tmp_path), "--from", server.url]
    assert main(given) == 1
    assert "error: two: got no checksum, and none is known" in capsys.readouterr().err
    assert main([*given, "--sha256", "0" * 64]) == 1
    assert main([*given, "--sha256", SHA256]) == 0
    (tmp_path / "two").unlink()
    assert main([*given, "--unchecked"]) == 0
    assert (tmp_path / "two").read_bytes() == CONTENT


@pytest.mark.usefixtures("sources")
def test_a_failure_leaves_the_others_alone(
    server: Server, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    server.files["sub/one"] = CONTENT
    assert main(["two", "one", "--output", str(tmp_path), "--from", server.url]) == 1
    assert (tmp_path / "sub" / "one").is_file()
    assert len(capsys.readouterr().err.splitlines()) == 2


@pytest.mark.usefixtures("sources")
@pytest.mark.parametrize("argv", [["three"], ["one", "two", "--sha256", SHA256], ["--sha256", "x"]])
def test_a_wrong_command(argv: list[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        main(argv)


def test_without_the_hub(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("text.hub_access.hub_reachable", lambda: False)
    assert main(["masked-lm", "--output", str(tmp_path)]) == 1
    assert "error: masked-lm: the hub cannot be reached" in capsys.readouterr().err


def test_what_is_known_is_pinned() -> None:
    for name in resources.USUAL:
        source = resources.SOURCES[name]
        assert source.url
        assert source.url.startswith("https://")
        assert source.sha256 is not None
        assert len(source.sha256) == 64
        assert not {"main", "master", "gh-pages"} & set(source.url.split("/"))


def test_help_names_the_commands_that_make_resources(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        resources.parser().parse_args(["--help"])
    text = capsys.readouterr().out.replace("-\n", "-")  # wrapped at a hyphen
    for name in ("counter-fit", "encode-words", "paraphrases"):
        assert name in text
