"""A live page of small models, with a client in the same process."""

import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.client import HTTPConnection
from typing import Any

import uvicorn
from starlette.testclient import TestClient

from app.serve.connections import server_config
from app.serve.live_attacks import AttackPool
from app.serve.live_routes import LiveApp
from app.serve.model_worker import ModelWorker
from app.serve.run_facts import RunFacts
from app.serve.serve_limits import ServeLimits
from attacks.recipe_settings import RecipeSettings
from attacks.recipes import build
from measure.certified_answers import ThreatCertifiers
from measure.predictions import TextPredictor
from tests.unit.lit_modules.builders import Build, attached, olsa, plain

TEXT = "not a good film, and it is long"
JSON = {"Content-Type": "application/json"}


def worker(name: str = "olsa", made: Build | None = None, *, pairs: bool = False) -> ModelWorker:
    """A model with random weights, and its thread."""
    model = attached(made or olsa(), pairs=pairs).eval()
    return ModelWorker(name, TextPredictor(model, ThreatCertifiers.of_model(model)))


@contextmanager
def live(limits: ServeLimits | None = None, **settings: Any) -> Iterator[LiveApp]:
    """A certified model `olsa`, one `plain` without certificate, one `pairs`."""
    limits = limits or ServeLimits()
    models = [worker(), worker("plain", plain()), worker("pairs", plain(), pairs=True)]
    pool = AttackPool({"deepwordbug": build(RecipeSettings(recipe="deepwordbug"))}, limits)
    facts = {"olsa": RunFacts(texts=[{"text": TEXT, "label": "bad"}])}
    try:
        yield LiveApp({one.name: one for one in models}, pool, limits, facts=facts, **settings)
    finally:
        pool.close()
        for one in models:
            one.close()


@contextmanager
def client(limits: ServeLimits | None = None, **settings: Any) -> Iterator[TestClient]:
    """A client of the application, without a network."""
    with live(limits, **settings) as made, TestClient(made.app, "http://127.0.0.1") as found:
        yield found


@contextmanager
def listening(made: LiveApp) -> Iterator[HTTPConnection]:
    """The application behind a real port, and a connection to it."""
    server = uvicorn.Server(server_config(made.app, made.limits))
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    while not server.started:
        assert thread.is_alive()
        time.sleep(0.01)
    port = server.servers[0].sockets[0].getsockname()[1]
    connection = HTTPConnection("127.0.0.1", port)
    try:
        yield connection
    finally:
        connection.close()
        server.should_exit = True
        thread.join()


def events(content: str) -> list[dict[str, Any]]:
    """The lines of a stream."""
    return [json.loads(line) for line in content.splitlines()]
