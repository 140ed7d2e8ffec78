"""As much of the Hugging Face hub as uploading and loading a model asks for, on loopback."""

import base64
import hashlib
import json
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any

COMMIT = "1" * 40
TOKEN = "hf_loopback"


class Repositories:
    """Uploads: the bodies of requests that made repositories, and files by branch."""

    def __init__(self) -> None:
        self.created: list[dict[str, Any]] = []
        self.branches: dict[str, dict[str, bytes]] = {"main": {}}
        self.objects: dict[str, bytes] = {}

    def post(self, path: str, body: bytes, endpoint: str) -> dict[str, Any]:
        action, _, rest = path.removeprefix("/api/models/owner/name/").partition("/")
        if path == "/api/repos/create":
            self.created.append(json.loads(body))
            return {"url": f"{endpoint}/owner/name"}
        if path == "/api/validate-yaml":
            return {"errors": [], "warnings": []}
        if path == "/owner/name.git/info/lfs/objects/batch":
            objects = json.loads(body)["objects"]
            for part in objects:
                part["actions"] = {"upload": {"href": f"{endpoint}/objects/{part['oid']}"}}
            return {"transfer": "basic", "objects": objects}
        if action == "branch":
            self.branches[rest] = {}
        elif action == "preupload":
            files = json.loads(body)["files"]
            modes = {True: "lfs", False: "regular"}
            return {
                "files": [
                    {
                        "path": file["path"],
                        "uploadMode": modes[file["path"].endswith(".safetensors")],
                        "shouldIgnore": False,
                    }
                    for file in files
                ]
            }
        elif action == "commit":
            for line in map(json.loads, body.splitlines()):
                value = line["value"]
                if line["key"] == "file":
                    self.branches[rest][value["path"]] = base64.b64decode(value["content"])
                elif line["key"] == "lfsFile":
                    self.branches[rest][value["path"]] = self.objects[value["oid"]]
            return {"commitUrl": f"{endpoint}/owner/name/commit/{COMMIT}", "commitOid": COMMIT}
        return {}


@contextmanager
def model_hub() -> Iterator[tuple[str, Repositories]]:
    """Serve the repository owner/name. Gives the endpoint and what was uploaded."""
    repositories = Repositories()

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

        def body(self) -> bytes:
            return self.rfile.read(int(self.headers.get("Content-Length") or 0))

        def do_PUT(self) -> None:
            repositories.objects[self.path.rpartition("/")[2]] = self.body()
            self.answer(200)

        def do_POST(self) -> None:
            body = self.body()
            if self.headers.get("Authorization") != f"Bearer {TOKEN}":
                return self.answer(401, b'{"error": "Invalid username or password."}')
            made = repositories.post(self.path.split("?")[0], body, endpoint)
            return self.answer(200, json.dumps(made).encode(), Content_Type="application/json")

        def do_GET(self) -> None:
            path = self.path.split("?")[0]
            start, _, file = path.partition("/owner/name/resolve/")
            branch, _, name = file.partition("/")
            branch = "main" if branch == COMMIT else branch
            content = repositories.branches.get(branch, {}).get(name)
            if path.startswith("/api/models/owner/name") and "/tree/" not in path:
                return self.answer(200, json.dumps({"id": "owner/name", "sha": COMMIT}).encode())
            if start or content is None:
                return self.answer(404, X_Error_Code="EntryNotFound")
            etag = hashlib.sha256(content).hexdigest()
            return self.answer(200, content, X_Repo_Commit=COMMIT, ETag=f'"{etag}"')

        do_HEAD = do_GET

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    endpoint = f"http://127.0.0.1:{server.server_port}"
    thread = Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield endpoint, repositories
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
