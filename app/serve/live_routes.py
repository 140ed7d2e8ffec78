"""The application: the page, its files, and the JSON API."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Callable, Collection, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import HTMLResponse, JSONResponse, Response, StreamingResponse
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from app.serve import request_fields
from app.serve.api_description import describe_api, render_page
from app.serve.explanations import describe_certificates, describe_radius, explain, mark_changes
from app.serve.http_guard import LOCAL, Guard, refusal
from app.serve.live_attacks import AttackPool, Event, LiveAttack
from app.serve.model_worker import BusyError, ModelWorker
from app.serve.request_fields import Fields, RequestError
from app.serve.serve_limits import ServeLimits
from text import Text

PAGE = Path(__file__).parent / "page"
FILES = {
    "/": ("live_page.html", "text/html"),
    "/live_page.css": ("live_page.css", "text/css"),
    "/live_page.js": ("live_page.js", "text/javascript"),
    "/live_icon.svg": ("live_icon.svg", "image/svg+xml"),
}
"""All files that are served, by their paths: no request can name another file of the disk."""


class LiveApp:
    """The page and the API of some models; `app` is the ASGI application.

    Workers and texts of the corpora go by the names of runs; the pool runs the attacks. `hosts` are
    names of the server besides those of this machine.
    """

    def __init__(
        self,
        workers: Mapping[str, ModelWorker],
        pool: AttackPool,
        limits: ServeLimits,
        *,
        texts: Mapping[str, Sequence[Mapping[str, Any]]] | None = None,
        hosts: Collection[str] = (),
        version: str = "",
    ) -> None:
        self.workers, self.pool, self.limits = workers, pool, limits
        self.texts, self.version = texts or {}, version
        document = describe_api(version, limits)
        # A response is an ASGI application itself: these are read once and never change.
        fixed: dict[str, Response] = {
            path: Response((PAGE / name).read_bytes(), media_type=media)
            for path, (name, media) in FILES.items()
        }
        fixed["/api"] = HTMLResponse(render_page(document))
        fixed["/api/openapi.json"] = JSONResponse(document)
        errors = (HTTPException, RequestError, BusyError, TimeoutError, ClientDisconnect, Exception)
        self.app = Starlette(
            routes=[
                *(Route(path, response, methods=["GET"]) for path, response in fixed.items()),
                Route("/api/runs", self._runs, methods=["GET"]),
                Route("/api/texts", self._texts, methods=["GET"]),
                Route("/api/predict", self._predict, methods=["POST"]),
                Route("/api/words", self._words, methods=["POST"]),
                Route("/api/attack", self._attack, methods=["POST"]),
                Route("/health", self._health, methods=["GET"]),
            ],
            middleware=[Middleware(Guard, hosts=frozenset((*LOCAL, *hosts)), rate=limits.rate)],
            exception_handlers=dict.fromkeys(errors, _respond_to_error),
        )

    async def _health(self, _request: Request) -> Response:
        return JSONResponse({"runs": len(self.workers), "attacks": self.pool.busy})

    async def _runs(self, _request: Request) -> Response:
        runs = [
            {
                "name": name,
                "method": type(worker.model).__name__,
                "classes": worker.classes,
                "pairs": worker.model.pairs,
                "tokens": worker.model.require_text()[0].max_length,
                "no_certificate": worker.answering.no_certificate,
                "threats": worker.answering.words.threats if worker.answering.words else [],
                "texts": len(self.texts.get(name, ())),
            }
            for name, worker in self.workers.items()
        ]
        recipes, limits = list(self.pool.attacks), asdict(self.limits)
        return JSONResponse(
            {"version": self.version, "runs": runs, "recipes": recipes, "limits": limits}
        )

    async def _texts(self, request: Request) -> Response:
        name = request.query_params.get("run", "")
        if name not in self.workers:
            raise RequestError(404, _unknown(name, self.workers))
        return JSONResponse({"texts": list(self.texts.get(name, ()))})

    async def _predict(self, request: Request) -> Response:
        worker, text, _ = await self._read(request, request_fields.QUESTION)
        async with asyncio.timeout(self.limits.seconds):
            answer = await asyncio.wrap_future(worker.answer(text))
        covers = describe_certificates(answer, worker.answering.no_certificate)
        sentences = {"covers": covers, "covers_radius": describe_radius(answer)}
        return JSONResponse({**answer, **mark_changes(answer), **sentences})

    async def _words(self, request: Request) -> Response:
        worker, text, _ = await self._read(request, request_fields.QUESTION)
        async with asyncio.timeout(self.limits.seconds):
            return JSONResponse(await explain(worker, text, words=self.limits.words))

    async def _attack(self, request: Request) -> Response:
        worker, text, fields = await self._read(request, request_fields.ATTACK)
        recipe, queries = fields["recipe"], fields.get("queries", self.limits.queries)
        if recipe not in self.pool.attacks:
            raise RequestError(422, _unknown(recipe, self.pool.attacks))
        if not 1 <= queries <= self.limits.queries:
            msg = f"got queries {queries!s:.20}, expected 1 to {self.limits.queries}"
            raise RequestError(422, msg)
        loop = asyncio.get_running_loop()
        events: asyncio.Queue[Event | None] = asyncio.Queue()

        def send(event: Event | None) -> None:
            # The loop may be closed when the server ends.
            with contextlib.suppress(RuntimeError):
                loop.call_soon_threadsafe(events.put_nowait, event)

        seconds = self.limits.attack_seconds
        live = LiveAttack(worker, text, recipe, queries=queries, seconds=seconds, send=send)
        before = self.pool.start(live)
        if before:
            events.put_nowait({"event": "waiting", "queries": 0, "before": before})
        # 5 seconds more: the attack reports its own timeout first.
        return _Stream(events, lambda: self.pool.stop(live), seconds + 5)

    async def _read(
        self, request: Request, fields: Fields
    ) -> tuple[ModelWorker, Text, dict[str, Any]]:
        media = request.headers.get("content-type", "").partition(";")[0].strip().lower()
        if media != "application/json":
            # A form of another site cannot send JSON unless we allow it (CORS preflight).
            msg = "got another content type, expected Content-Type: application/json"
            raise RequestError(415, msg)
        content = request_fields.parse_fields(await self._read_body(request), fields)
        if content["run"] not in self.workers:
            raise RequestError(404, _unknown(content["run"], self.workers))
        worker = self.workers[content["run"]]
        pairs, characters = worker.model.pairs, self.limits.characters
        text = request_fields.read_text(content, pairs=pairs, characters=characters)
        return worker, text, content

    async def _read_body(self, request: Request) -> bytes:
        """Return the body; stop reading as soon as it is too long."""
        most = self.limits.body
        too_long = RequestError(413, f"got a body of more than {most} bytes, expected fewer")
        length = request.headers.get("content-length", "0")
        # Only 12 digits: int() of a very long string raises.
        if not length.isascii() or not length.isdigit() or int(length[:12]) > most:
            raise too_long
        body = bytearray()
        try:
            async with asyncio.timeout(self.limits.seconds):
                async for part in request.stream():
                    body += part
                    if len(body) > most:
                        raise too_long
        except TimeoutError as error:
            msg = f"the body did not arrive within {self.limits.seconds:g} seconds"
            raise RequestError(408, msg) from error
        return bytes(body)


class _Stream(StreamingResponse):
    """Events as lines of JSON; calls `stop` when the client leaves, or time is over."""

    media_type = "application/x-ndjson"

    def __init__(
        self, events: "asyncio.Queue[Event | None]", stop: Callable[[], None], seconds: float
    ) -> None:
        super().__init__(_lines(events))
        self._stop, self._seconds = stop, seconds

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """See ASGI."""
        # From ASGI 2.4 on, Starlette notices that a client has left only when it sends something.
        scope = {**scope, "asgi": {"version": "3.0", "spec_version": "2.3"}}
        try:
            # The timeout also ends a write to a client that reads nothing.
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self._seconds):
                    await super().__call__(scope, receive, send)
        finally:
            self._stop()


async def _lines(events: "asyncio.Queue[Event | None]") -> AsyncIterator[bytes]:
    while (event := await events.get()) is not None:
        yield json.dumps(event, ensure_ascii=False).encode() + b"\n"


async def _respond_to_error(_request: Request, error: Exception) -> Response:
    match error:
        case RequestError():
            return refusal(error.status, str(error))
        case BusyError():
            return refusal(503, str(error), retry_after=2)
        case TimeoutError():
            return refusal(504, "got no prediction in time; try a shorter text")
        case ClientDisconnect():
            return Response(status_code=400)
        case HTTPException(status_code=status):
            return refusal(status, "no such page" if status == 404 else "not allowed here")
    return refusal(500, "an error of the program; the server's log says which")


def _unknown(name: str, names: Collection[str]) -> str:
    return f"got {name!r:.80}, expected one of {', '.join(names)}"
