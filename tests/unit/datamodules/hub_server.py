"""As much of the Hugging Face hub as loading a data set asks for, on the loopback interface."""

import hashlib
import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

COMMIT = "1" * 40
ROOT = Path(__file__).parents[3]


def load(program: str, endpoint: str, home: Path, jobs: Sequence[object]) -> tuple[Any, str]:
    """Run a program that prints the result of each job as JSON; return results and its log.

    It has a process of its own: `datasets` reads its endpoint and its cache folder on import.
    """
    kept = {k: v for k, v in os.environ.items() if not k.lower().endswith("_proxy")}
    for name in ("HF_HUB_OFFLINE", "HF_DATASETS_OFFLINE", "HF_DATASETS_CACHE", "HF_HUB_CACHE"):
        kept.pop(name, None)
    done = subprocess.run(
        [sys.executable, "-c", program, json.dumps(jobs)],
        env={**kept, "HF_ENDPOINT": endpoint, "HF_HOME": str(home), "PYTHONPATH": str(ROOT)},
        cwd=home,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "Retry" not in done.stderr
    return json.loads(done.stdout), done.stderr


@contextmanager
def hub(repositories: Mapping[str, Mapping[str, bytes]]) -> Iterator[tuple[str, list[str]]]:
    """Serve data sets: name to path to content. Gives the endpoint and the requests so far."""
    requests: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *arguments: object) -> None:
            pass

        def answer(self, status: int, body: bytes = b"{}", **headers: str) -> None:
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            for name, value in headers.items():
                self.send_header(name.replace("_", "-"), value)
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(body)

        def do_GET(self) -> None:
            self.rfile.read(int(self.headers.get("Content-Length") or 0))
            requests.append(f"{self.command} {self.path}")
            path = self.path.split("?")[0].removeprefix("/api").removeprefix("/datasets/")
            name = next((name for name in repositories if path.startswith(name)), None)
            if name is None:
                return self.answer(404, X_Error_Code="RepoNotFound")
            files = repositories[name]
            kind, *rest = [part for part in path.removeprefix(name).split("/") if part] or ["info"]
            if kind in {"info", "revision"}:
                return self.answer(200, json.dumps({"id": name, "sha": COMMIT}).encode())
            if kind == "tree":
                return self.answer(200, json.dumps(tree(files, "/".join(rest[1:]))).encode())
            content = files.get("/".join(rest[1:]))
            if kind != "resolve" or content is None:
                return self.answer(404, X_Error_Code="EntryNotFound")
            return self.answer(200, content, X_Repo_Commit=COMMIT, ETag=f'"{digest(content)}"')

        do_HEAD = do_GET

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", requests
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def digest(content: bytes) -> str:
    return hashlib.sha1(content, usedforsecurity=False).hexdigest()


def tree(files: Mapping[str, bytes], folder: str) -> list[dict[str, object]]:
    """One level of a repository."""
    prefix = f"{folder}/" if folder else ""
    below = {path.removeprefix(prefix): c for path, c in files.items() if path.startswith(prefix)}
    folders = {path.split("/")[0] for path in below if "/" in path}
    return [
        {"type": "directory", "path": prefix + path, "size": 0, "oid": digest(b"")}
        for path in sorted(folders)
    ] + [
        {"type": "file", "path": prefix + path, "size": len(c), "oid": digest(c)}
        for path, c in below.items()
        if "/" not in path
    ]
