"""The application: the page, its files, and the JSON API."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Callable, Collection, Coroutine, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute
from fastapi.telemetry import TelemetryConfig
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.responses import HTMLResponse, JSONResponse, Response, StreamingResponse
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from app.serve import api_fields
from app.serve.api_fields import (
    ERRORS,
    RUN,
    AttackReply,
    AttackRequest,
    BatchReply,
    ErrorReply,
    PredictionReply,
    Question,
    Questions,
    RequestError,
    WordsReply,
)
from app.serve.explanations import complete_answer, explain
from app.serve.http_guard import LOCAL, RETRY, Guard, RateLimit, refusal
from app.serve.live_attacks import AttackPool, Event, LiveAttack
from app.serve.model_worker import BATCH, BusyError, ModelWorker
from app.serve.request_metrics import MEDIA_TYPE, MetricsMiddleware, RequestMetrics, Samples
from app.serve.run_facts import RunFacts, text_of
from app.serve.serve_limits import ServeLimits
from measure.verdict import RunVerdict
from text import Text

PAGE = Path(__file__).parent / "page"
FILES = {
    "/": ("live_page.html", "text/html"),
    "/live_page.css": ("live_page.css", "text/css"),
    "/live_page.js": ("live_page.js", "text/javascript"),
    "/live_icon.svg": ("live_icon.svg", "image/svg+xml"),
}
"""All files that are served, by their paths: no request can name another file of the disk."""
_API: dict[str, tuple[str, Any]] = {
    "/api/runs": ("The models, what is stored about them, the attacks and the limits.", None),
    "/api/texts": (
        "Texts of the corpus of a run with their outcomes, if the corpus is there.",
        None,
    ),
    "/api/predict": (
        "The class of a text or of each of several, with margin and certificates.",
        PredictionReply | BatchReply,
    ),
    "/api/words": ("How much each word decides, by gradient and by deletion.", WordsReply),
    "/api/attack": (
        "An attack as it runs: a JSON object per line. It ends when its client leaves.",
        AttackReply,
    ),
}
"""Summary and reply of each path of the JSON API; None for one that takes GET."""
_COUNTS = (
    ("texts_total", "texts", "texts classified"),
    ("batches_total", "batches", "batches computed"),
    ("waiting", "waiting", "requests that wait"),
)
"""Metrics of each model: name, attribute of `ModelWorker`, and help."""
# FastAPI would hand the texts of requests to whatever collects telemetry in this environment.
_NO_TELEMETRY = TelemetryConfig(
    tracing=False, metrics=False, logs=False, operation_spans=False, auto_configure=False
)


class LiveApp:
    """The page and the API of some models; `app` is the ASGI application.

    Workers and facts go by the names of runs; the pool runs the attacks. `hosts` are names of the
    server besides those of this machine.
    """

    def __init__(
        self,
        workers: Mapping[str, ModelWorker],
        pool: AttackPool,
        limits: ServeLimits,
        *,
        facts: Mapping[str, RunFacts] | None = None,
        hosts: Collection[str] = (),
        version: str = "unknown",
    ) -> None:
        self.workers, self.pool, self.limits = workers, pool, limits
        self.facts, self.version = facts or {}, version
        self._samples: dict[str, asyncio.Task[list[dict[str, Any]]]] = {}
        self._rate = RateLimit(limits.rate)
        # A response is an ASGI application itself: these are read once and never change.
        fixed = {
            path: Response((PAGE / name).read_bytes(), media_type=media)
            for path, (name, media) in FILES.items()
        }
        state = {"/health": self._health, "/ready": self._ready, "/metrics": self._metrics}
        pages = fixed | state
        self.metrics = RequestMetrics([*pages, "/api", "/api/openapi.json", *_API])
        errors = RequestValidationError, HTTPException, BusyError, TimeoutError, ClientDisconnect
        api = FastAPI(
            title="Steadfast",
            version=version,
            description=(
                "Predictions, explanations and attacks of trained text classifiers. At most "
                f"{limits.characters} characters of a text, {limits.texts} texts of a request and "
                f"{limits.queries} queries of an attack."
            ),
            openapi_url="/api/openapi.json",
            docs_url=None,
            redoc_url=None,
            telemetry=_NO_TELEMETRY,
            routes=[Route(path, page, methods=["GET"]) for path, page in pages.items()],
            exception_handlers=dict.fromkeys((*errors, Exception), _respond_to_error),
            responses={
                status: {"model": ErrorReply, "description": text}
                for status, text in ERRORS.items()
            },
        )
        api.state.limits = limits
        api.router.route_class = _BoundedRoute
        self._add_api(api)
        # Around FastAPI, whose own middleware does not see its response to an unexpected error.
        guard = Guard(api, hosts=frozenset((*LOCAL, *hosts)), rate=self._rate)
        self.app: ASGIApp = MetricsMiddleware(guard, self.metrics)

    def _add_api(self, api: FastAPI) -> None:
        """Add the paths of the JSON API, and the page that describes them."""
        for path, (summary, reply) in _API.items():
            respond = getattr(self, path.replace("/api/", "_"))
            methods = ["GET" if reply is None else "POST"]
            api.add_api_route(path, respond, summary=summary, methods=methods, response_model=reply)
        document = api.openapi()
        # FastAPI describes the lines of a stream only for its own generators.
        responses = document["paths"]["/api/attack"]["post"]["responses"]
        content = responses["200"]["content"]
        content[_Stream.media_type] = content.pop("application/json")
        page = HTMLResponse(api_fields.render_page(document))
        api.router.routes.append(Route("/api", page, methods=["GET"]))

    async def _health(self, _request: Request) -> Response:
        return JSONResponse({"runs": len(self.workers), "attacks": self.pool.busy})

    async def _ready(self, _request: Request) -> Response:
        busy = [name for name, worker in self.workers.items() if not worker.ready]
        if busy:
            return refusal(503, f"{', '.join(busy)}: not ready for a request", {"Retry-After": "2"})
        return JSONResponse({"runs": len(self.workers)})

    async def _metrics(self, _request: Request) -> Response:
        families: dict[str, tuple[str, Samples]] = {
            f"steadfast_{name}": (
                text,
                [({"run": run}, getattr(worker, field)) for run, worker in self.workers.items()],
            )
            for name, field, text in _COUNTS
        }
        families["steadfast_attacks"] = ("attacks that run or wait", [({}, self.pool.busy)])
        decisions = [
            ({"run": run, "detected": detected}, count)
            for run, worker in self.workers.items()
            if worker.model.detector is not None
            for detected, count in worker.decisions.items()
        ]
        if decisions:
            families["steadfast_decisions_total"] = ("decisions of detectors", decisions)
        return Response(self.metrics.render(families), media_type=MEDIA_TYPE)

    async def _runs(self) -> Response:
        runs = [
            {
                "name": name,
                "method": type(worker.model).__name__,
                "classes": worker.classes,
                "pairs": worker.model.pairs,
                "tokens": worker.model.require_text()[0].max_length,
                "no_certificate": worker.answering.no_certificate,
                "threats": worker.answering.words.threats if worker.answering.words else [],
                "detector": asdict(worker.model.detector) if worker.model.detector else None,
                "corpus": facts.corpus,
                "verdict": _describe_verdict(facts.verdict),
                "slices": list(facts.slices),
                "texts": len(facts.texts) + len(facts.flips),
            }
            for name, worker in self.workers.items()
            for facts in [self.facts.get(name, RunFacts())]
        ]
        recipes, limits = list(self.pool.attacks), asdict(self.limits)
        return JSONResponse(
            {"version": self.version, "runs": runs, "recipes": recipes, "limits": limits}
        )

    async def _texts(self, run: Annotated[str | None, RUN] = None) -> Response:
        worker = self._find_worker(run)
        facts = self.facts.get(worker.name, RunFacts())
        if worker.name not in self._samples:
            self._samples[worker.name] = asyncio.create_task(_predict_samples(worker, facts.texts))
        task = self._samples[worker.name]
        if task.done() and task.exception() is not None:
            del self._samples[worker.name]
        # Shielded: the texts are for all clients, and this one may leave.
        async with asyncio.timeout(self.limits.seconds):
            samples = await asyncio.shield(task)
        return JSONResponse({"texts": samples, "flips": list(facts.flips)})

    async def _predict(self, question: Questions, request: Request) -> Response:
        several = question.texts is not None
        if several == (question.text is not None):
            given = "text and texts" if several else "no text"
            raise RequestError(422, f"got {given}, expected one of text and texts")
        # A second text of the other kind would be ignored.
        if several and question.text_pair is not None:
            raise RequestError(422, "got text_pair with texts, expected text_pairs")
        if not several and question.text_pairs is not None:
            raise RequestError(422, "got text_pairs with text, expected text_pair")
        if several:
            first, second = question.texts or [], question.text_pairs
        else:
            first = [question.text or ""]
            second = None if question.text_pair is None else [question.text_pair]
        worker, texts = self._check(question.run, first, second)
        # The guard has counted one.
        if not self._rate.take(request.scope, len(texts) - 1):
            raise RequestError(429, self._rate.message, RETRY)
        async with asyncio.timeout(self.limits.seconds):
            answers = await asyncio.wrap_future(worker.answer(texts))
        reason = worker.answering.no_certificate
        predictions = [complete_answer(answer, reason) for answer in answers]
        return JSONResponse({"predictions": predictions} if several else predictions[0])

    async def _words(self, question: Question) -> Response:
        worker, text = self._check_one(question)
        async with asyncio.timeout(self.limits.seconds):
            return JSONResponse(await explain(worker, text, words=self.limits.words))

    async def _attack(self, question: AttackRequest) -> Response:
        worker, text = self._check_one(question)
        recipe, queries = question.recipe, question.queries
        queries = self.limits.queries if queries is None else queries
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

    def _check_one(self, question: Question) -> tuple[ModelWorker, Text]:
        second = None if question.text_pair is None else [question.text_pair]
        worker, (text,) = self._check(question.run, [question.text], second)
        return worker, text

    def _check(
        self, run: str | None, first: Sequence[str], second: Sequence[str] | None
    ) -> tuple[ModelWorker, list[Text]]:
        worker = self._find_worker(run)
        pairs = worker.model.pairs
        return worker, api_fields.read_texts(first, second, pairs=pairs, limits=self.limits)

    def _find_worker(self, run: str | None) -> ModelWorker:
        if run is None and len(self.workers) > 1:
            raise RequestError(422, f"got no run, expected one of {', '.join(self.workers)}")
        name = next(iter(self.workers), "") if run is None else run
        if name not in self.workers:
            raise RequestError(404, _unknown(name, self.workers))
        return self.workers[name]


async def _predict_samples(
    worker: ModelWorker, texts: Sequence[Mapping[str, Any]]
) -> list[dict[str, Any]]:
    """Return texts of a corpus with their `prediction`."""
    samples: list[dict[str, Any]] = []
    for start in range(0, len(texts), BATCH):
        chunk = texts[start : start + BATCH]
        # Not their certificates: those of 100 texts take half a minute on a slow core.
        logits = await asyncio.wrap_future(worker.logits([text_of(sample) for sample in chunk]))
        classes = [worker.classes[label] for label in logits.argmax(axis=1).tolist()]
        samples += [{**s, "prediction": c} for s, c in zip(chunk, classes, strict=True)]
    return samples


class _BoundedRequest(Request):
    """A request whose body is JSON of bounded size, time and depth."""

    _body: bytes  # also Starlette's own name for it: `stream` repeats it

    async def body(self) -> bytes:
        """Return the body; stop reading as soon as it is too long."""
        if hasattr(self, "_body"):
            return self._body
        media = self.headers.get("content-type", "").partition(";")[0].strip().lower()
        if media != "application/json":
            # A form of another site cannot send JSON unless we allow it (CORS preflight).
            msg = "got another content type, expected Content-Type: application/json"
            raise RequestError(415, msg)
        limits: ServeLimits = self.app.state.limits
        too_long = RequestError(413, f"got a body of more than {limits.body} bytes, expected fewer")
        length = self.headers.get("content-length", "0")
        # Only 12 digits: int() of a very long string raises.
        if not length.isascii() or not length.isdigit() or int(length[:12]) > limits.body:
            raise too_long
        body = bytearray()
        try:
            async with asyncio.timeout(limits.seconds):
                async for part in self.stream():
                    body += part
                    if len(body) > limits.body:
                        raise too_long
        except TimeoutError as error:
            msg = f"the body did not arrive within {limits.seconds:g} seconds"
            raise RequestError(408, msg) from error
        self._body = bytes(body)
        return self._body

    async def json(self) -> Any:
        """Return the JSON of the body."""
        return api_fields.parse_body(await self.body())


class _BoundedRoute(APIRoute):
    """A route of the API, which reads `_BoundedRequest`."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """See FastAPI."""
        respond = super().get_route_handler()

        async def respond_bounded(request: Request) -> Response:
            return await respond(_BoundedRequest(request.scope, request.receive))

        return respond_bounded


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


async def _respond_to_error(request: Request, error: Exception) -> Response:
    if isinstance(error, RequestValidationError):
        fields = request.scope["route"].body_field.field_info.annotation.model_fields
        error = api_fields.describe_error(error, fields)
    match error:
        case RequestError():
            return refusal(error.status_code, error.detail, error.headers)
        case BusyError():
            return refusal(503, str(error), {"Retry-After": "2"})
        case TimeoutError():
            return refusal(504, "got no prediction in time; try a shorter text")
        case ClientDisconnect():
            return Response(status_code=400)
        case HTTPException(status_code=status):
            return refusal(status, "no such page" if status == 404 else "not allowed here")
    return refusal(500, "an error of the program; the server's log says which")


def _describe_verdict(verdict: RunVerdict | None) -> dict[str, Any] | None:
    if verdict is None:
        return None
    figures = [{**asdict(figure), "text": figure.text} for figure in verdict.figures]
    return {**asdict(verdict), "figures": figures, "collapsed": verdict.collapsed}


def _unknown(name: str, names: Collection[str]) -> str:
    return f"got {name!r:.80}, expected one of {', '.join(names)}"
