"""The application: the page, its files, and the JSON API."""

import asyncio
import contextlib
import functools
import json
import math
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import asdict
from pathlib import Path
from typing import Any, TypeVar

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import HTMLResponse, JSONResponse, Response
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from app.predict.answers import Answer
from app.serve.api_description import document, page
from app.serve.http_guard import LOCAL, Guard, refusal
from app.serve.live_attacks import AttackPool, Event, LiveAttack
from app.serve.model_worker import BATCH, BusyError, ModelWorker
from app.serve.request_fields import ASKED, ATTACKED, Field, RequestError, parsed, text_of
from app.serve.serve_limits import ServeLimits
from attacks.document import Document
from text import Text

PAGE = Path(__file__).parent / "page"
FILES = {
    "/": ("live_page.html", "text/html"),
    "/live_page.css": ("live_page.css", "text/css"),
    "/live_page.js": ("live_page.js", "text/javascript"),
    "/live_icon.svg": ("live_icon.svg", "image/svg+xml"),
}
"""All files that are served, by their paths: nothing else of the disk can be asked for."""
Found = TypeVar("Found")


class LiveApp:
    """The page and the API of some models.

    Args:
        workers: the models, by the names of their runs.
        pool: runs the attacks.
        limits: see `ServeLimits`.
        texts: of the corpora, by run.
        hosts: names under which the server may be reached, beside those of this machine.
        version: of the program.

    Attributes:
        app: the ASGI application.
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
        self.texts = texts or {}
        self.version = version
        self._document = document(version, limits)
        self._api_page = page(self._document)
        self.app = Starlette(
            routes=[
                *(Route(path, _file(name, media)) for path, (name, media) in FILES.items()),
                Route("/api", self._api, methods=["GET"]),
                Route("/api/openapi.json", self._openapi, methods=["GET"]),
                Route("/api/runs", self._runs, methods=["GET"]),
                Route("/api/texts", self._corpus, methods=["GET"]),
                Route("/api/predict", _answering(self._predict), methods=["POST"]),
                Route("/api/words", _answering(self._words), methods=["POST"]),
                Route("/api/attack", _answering(self._attack), methods=["POST"]),
                Route("/health", self._health, methods=["GET"]),
            ],
            middleware=[
                Middleware(Guard, hosts=frozenset((*LOCAL, *hosts)), rate=limits.rate),
            ],
            exception_handlers={HTTPException: _http_error, Exception: _broken},
        )

    # What is read

    async def _api(self, _request: Request) -> Response:
        return HTMLResponse(self._api_page)

    async def _openapi(self, _request: Request) -> Response:
        return JSONResponse(self._document)

    async def _health(self, _request: Request) -> Response:
        return JSONResponse({"runs": len(self.workers), "attacks": self.pool.busy})

    async def _runs(self, _request: Request) -> Response:
        return JSONResponse(
            {
                "version": self.version,
                "runs": [self._about(worker) for worker in self.workers.values()],
                "recipes": list(self.pool.attacks),
                "limits": asdict(self.limits),
            }
        )

    def _about(self, worker: ModelWorker) -> dict[str, Any]:
        return {
            "name": worker.name,
            "method": type(worker.model).__name__,
            "classes": worker.classes,
            "pairs": worker.model.pairs,
            "tokens": worker.model.require_text()[0].max_length,
            "no_certificate": worker.answering.no_certificate,
            "threats": worker.answering.words.threats if worker.answering.words else [],
            "texts": len(self.texts.get(worker.name, ())),
        }

    async def _corpus(self, request: Request) -> Response:
        name = request.query_params.get("run", "")
        if name not in self.workers:
            return refusal(404, _unknown(name, self.workers))
        return JSONResponse({"texts": list(self.texts.get(name, ()))})

    # What is asked

    async def _predict(self, request: Request) -> Response:
        worker, text, _ = await self._asked(request, ASKED)
        answer = await self._in_time(worker.answer(text))
        return JSONResponse({**answer, "covers": covers(answer, worker.answering.no_certificate)})

    async def _words(self, request: Request) -> Response:
        worker, text, _ = await self._asked(request, ASKED)
        async with asyncio.timeout(self.limits.seconds):
            found = await explained(worker, text, words=self.limits.words)
        return JSONResponse(found)

    async def _attack(self, request: Request) -> Response:
        worker, text, given = await self._asked(request, ATTACKED)
        recipe, queries = given["recipe"], given.get("queries", self.limits.queries)
        if recipe not in self.pool.attacks:
            raise RequestError(422, _unknown(recipe, self.pool.attacks))
        if not 1 <= queries <= self.limits.queries:
            msg = f"got queries {queries!s:.20}, expected 1 to {self.limits.queries}"
            raise RequestError(422, msg)
        loop = asyncio.get_running_loop()
        events: asyncio.Queue[Event | None] = asyncio.Queue()

        def send(event: Event | None) -> None:
            # The loop may be gone when the server ends.
            with contextlib.suppress(RuntimeError):
                loop.call_soon_threadsafe(events.put_nowait, event)

        seconds = self.limits.attack_seconds
        live = LiveAttack(worker, text, recipe, queries=queries, seconds=seconds, send=send)
        before = self.pool.start(live)
        if before:
            events.put_nowait({"event": "waiting", "queries": 0, "before": before})
        return _Stream(events, functools.partial(self.pool.stop, live), seconds + 5)

    async def _asked(
        self, request: Request, fields: Mapping[str, Field]
    ) -> tuple[ModelWorker, Text, dict[str, Any]]:
        media = request.headers.get("content-type", "").partition(";")[0].strip().lower()
        if media != "application/json":
            # Also what makes a browser ask us before another site may send it.
            msg = "got another content type, expected Content-Type: application/json"
            raise RequestError(415, msg)
        given = parsed(await self._body(request), fields)
        if given["run"] not in self.workers:
            raise RequestError(404, _unknown(given["run"], self.workers))
        worker = self.workers[given["run"]]
        text = text_of(given, pairs=worker.model.pairs, characters=self.limits.characters)
        return worker, text, given

    async def _body(self, request: Request) -> bytes:
        """Returns the body; reads no more of it than may be sent."""
        most = self.limits.body
        too_long = RequestError(413, f"got a body of more than {most} bytes, expected fewer")
        length = request.headers.get("content-length", "0")
        if not length.isascii() or not length.isdigit() or int(length[:12]) > most:
            raise too_long
        parts: list[bytes] = []
        try:
            async with asyncio.timeout(self.limits.seconds):
                async for part in request.stream():
                    parts.append(part)
                    if sum(map(len, parts)) > most:
                        raise too_long
        except TimeoutError as error:
            msg = f"got no whole body in {self.limits.seconds:g} seconds"
            raise RequestError(408, msg) from error
        return b"".join(parts)

    async def _in_time(self, future: "Future[Found]") -> Found:
        async with asyncio.timeout(self.limits.seconds):
            return await asyncio.wrap_future(future)


async def explained(worker: ModelWorker, text: Text, *, words: int) -> dict[str, Any]:
    """Returns how much each word decides.

    Args:
        worker: the model.
        text: the text.
        words: the most that are deleted; the first ones.

    Returns:
        `prediction`; for each text its parts in their order (`text`, `word`, `gradient`,
        `deletion`; see `app/serve/api_description.py`); `tried`, the number of deleted words.
    """
    document = Document.of(text)
    row = (await asyncio.wrap_future(worker.logits([text])))[0]
    chosen = int(row.argmax())
    gradients: list[float] = []
    if len(document):
        (gradients,) = await asyncio.wrap_future(worker.weights([document]))
    # What is not read has no gradient, and is not worth a question.
    tried = [i for i, weight in enumerate(gradients) if math.isfinite(weight)][:words]
    falls: dict[int, float] = {}
    for start in range(0, len(tried), BATCH):
        chunk = tried[start : start + BATCH]
        rows = await asyncio.wrap_future(worker.logits([document.delete(i).text for i in chunk]))
        falls |= {
            i: _lead(row, chosen) - _lead(one, chosen) for i, one in zip(chunk, rows, strict=True)
        }
    return {
        "prediction": worker.classes[chosen],
        "texts": [
            list(_parts(document, column, gradients, falls))
            for column in range(len(document.columns))
        ],
        "tried": len(tried),
    }


def _parts(
    document: Document, column: int, gradients: Sequence[float], falls: Mapping[int, float]
) -> "list[dict[str, Any]]":
    text, end, found = document.columns[column], 0, []
    for index, (where, first, last) in enumerate(document.spans):
        if where != column:
            continue
        if first > end:
            found.append({"text": text[end:first], "word": False})
        weight = gradients[index]
        found.append(
            {
                "text": text[first:last],
                "word": True,
                "gradient": weight if math.isfinite(weight) else None,
                "deletion": falls.get(index),
            }
        )
        end = last
    if end < len(text):
        found.append({"text": text[end:], "word": False})
    return found


def _lead(row: Any, chosen: int) -> float:
    """Returns how far a class is ahead of the best other one, in logits."""
    return float(row[chosen] - max(value for i, value in enumerate(row) if i != chosen))


def covers(answer: Answer, reason: str | None) -> str:
    """Return in sentences what is proved about an answer, in words first.

    Args:
        answer: see `Answering`.
        reason: why there is no radius; None if there is one.
    """
    sentences = [_in_words(record, answer["prediction"]) for record in answer["certificates"]]
    radius = answer["radius"]
    if radius is None and not sentences:
        return f"Nothing is proved about this prediction: {reason}."
    if radius is not None and radius <= 0:
        sentences.append("Nothing is proved about its vectors: the certified radius is 0.")
    elif radius is not None:
        # Never more than what is proved.
        shown = math.floor(radius * 1000) / 1000
        sentences.append(
            f"Proved: as long as the vectors of all tokens together move by less than {shown:.3f}, "
            f"the prediction stays {answer['prediction']}. This is about vectors; another word may "
            "move them further, and the prediction may still be wrong."
        )
    return " ".join(sentences)


def _in_words(record: Mapping[str, Any], prediction: str) -> str:
    """Return a certificate in words as a sentence."""
    if record["certified"] != "0":
        return f"Proved: the prediction stays {prediction} if {record['statement']}."
    if record["witness"] is None:
        return f"Not proved: that it stays {prediction} if {record['statement']}."
    return (
        f"It does not stay {prediction} if {record['statement']}: {record['witness']!r} is "
        f"{record['witness_class']}."
    )


class _Stream(Response):
    """Events as lines of JSON; ends what makes them when the client leaves, or time is over."""

    media_type = "application/x-ndjson"

    def __init__(
        self, events: "asyncio.Queue[Event | None]", stop: Callable[[], None], seconds: float
    ) -> None:
        super().__init__()
        del self.headers["content-length"]
        self._events, self._stop, self._seconds = events, stop, seconds

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """See ASGI."""
        del scope
        writing = asyncio.ensure_future(self._write(send))
        leaving = asyncio.ensure_future(_left(receive))
        both = {writing, leaving}
        try:
            # Also for a client that reads nothing: then a write takes for ever.
            await asyncio.wait(both, timeout=self._seconds, return_when=asyncio.FIRST_COMPLETED)
        finally:
            self._stop()
            for task in both:
                task.cancel()
            await asyncio.gather(*both, return_exceptions=True)

    async def _write(self, send: Send) -> None:
        head = {"type": "http.response.start", "status": 200, "headers": self.raw_headers}
        await send(head)
        while (event := await self._events.get()) is not None:
            line = json.dumps(event, ensure_ascii=False).encode() + b"\n"
            await send({"type": "http.response.body", "body": line, "more_body": True})
        await send({"type": "http.response.body", "body": b"", "more_body": False})


async def _left(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


def _answering(
    handler: Callable[[Request], Awaitable[Response]],
) -> Callable[[Request], Awaitable[Response]]:
    """Turns errors of requests into answers."""

    async def answer(request: Request) -> Response:
        try:
            return await handler(request)
        except RequestError as error:
            return refusal(error.status, str(error))
        except BusyError as error:
            found = refusal(503, str(error))
            found.headers["Retry-After"] = "2"
            return found
        except TimeoutError:
            return refusal(504, "got no answer in time; try a shorter text")
        except ClientDisconnect:
            return Response(status_code=400)

    return answer


def _file(name: str, media: str) -> Callable[[Request], Awaitable[Response]]:
    content = (PAGE / name).read_bytes()

    async def answer(_request: Request) -> Response:
        return Response(content, media_type=media)

    return answer


async def _http_error(_request: Request, error: Exception) -> Response:
    status = error.status_code if isinstance(error, HTTPException) else 500
    return refusal(status, "no such page" if status == 404 else "not allowed here")


async def _broken(_request: Request, _error: Exception) -> Response:
    return refusal(500, "an error of the program; the server's log says which")


def _unknown(name: str, known: Collection[str]) -> str:
    return f"got {name!r:.80}, expected one of {', '.join(known)}"
