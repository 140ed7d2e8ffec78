"""`python -m app serve`: trained models as a page in the browser, and as a JSON API."""

import argparse
import logging
import socket
import sys
from collections.abc import Sequence
from pathlib import Path
from types import FrameType
from typing import NoReturn

import uvicorn

from app.cli.run_options import run_parser
from app.cli.terminal import harmless
from app.predict.answers import Answering
from app.predict.word_certificates import WordCertificates
from app.processes.devices import torch_device
from app.runs.resume import evaluated
from app.runs.version import line
from app.runs.weights import unfinished
from app.serve.connections import server_config
from app.serve.corpus_texts import corpus_texts
from app.serve.live_attacks import AttackPool
from app.serve.live_routes import LiveApp
from app.serve.model_worker import BATCH, ModelWorker
from app.serve.serve_limits import ServeLimits
from app.training import interrupt
from attacks.composition import Attack
from attacks.recipe_settings import RecipeSettings
from attacks.recipes import build
from attacks.resources.catalogue import Resources, resources_named
from lit_modules.checkpoints.reading import load

log = logging.getLogger(__name__)

TEXTS = 100
"""Texts of the corpus that the page offers."""
DEFAULTS = ServeLimits()


class _Server(uvicorn.Server):
    """Ends all attacks when it is told to end, so that it need not wait for them.

    Args:
        config: of uvicorn.
        pool: the attacks.
    """

    def __init__(self, config: uvicorn.Config, pool: AttackPool) -> None:
        super().__init__(config)
        self._pool = pool

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Handles Ctrl-C and SIGTERM."""
        self._pool.stop_all()
        super().handle_exit(sig, frame)


def main(argv: Sequence[str]) -> int:
    """Runs `serve`; see `Command.place`.

    Returns:
        Nothing: the command ends by a signal, with 130 or 143 as exit status.

    Raises:
        ValueError: no run, two of one name, a model that gives no classes, or a wrong setting.
        OSError: no such run, or an address that cannot be used.
        ResourceError: what an attack needs is missing.
    """
    args = parser().parse_args(argv)
    limits = ServeLimits(
        characters=args.max_characters,
        rate=args.rate or None,
        connections_per_address=args.connections_per_address,
        attacks=args.attacks,
        attack_seconds=args.attack_seconds,
        queries=args.queries,
    )
    try:
        with interrupt.handled():
            _serve(args, limits)
    except interrupt.Stopped as stopped:
        what = "Ctrl-C" if stopped.signum == interrupt.SIGNALS[0] else "SIGTERM"
        print(f"stopped by {what}", file=sys.stderr)
        raise
    return 0


def parser() -> argparse.ArgumentParser:
    """Returns the parser of the command."""
    made = run_parser(
        "serve",
        "Serves trained models as a page in the browser and as a JSON API (docs/serve.md): class, "
        "certificate, words that decide, and attacks as they run. Ctrl-C ends it.",
        several=True,
    )
    add = made.add_argument
    add(
        "--host",
        default="127.0.0.1",
        help="address to listen at (default: 127.0.0.1, this machine only; nobody is asked for a "
        "password)",
    )
    add("--port", type=int, default=8000, help="port to listen at; 0: any (default: 8000)")
    add(
        "--allow_host",
        action="append",
        default=[],
        metavar="NAME",
        help="another name under which browsers may reach it",
    )
    add(
        "--recipes",
        default="deepwordbug",
        help="attacks to offer, with commas between them; empty for none (default: deepwordbug, "
        "which needs no resources)",
    )
    add("--resources", metavar="DIR", help="folder with what attacks need (docs/attacks.md)")
    add(
        "--lists",
        metavar="FILE",
        help="JSON with synonyms: models with certificates for them certify each text",
    )
    add(
        "--data_dir",
        type=Path,
        metavar="DIR",
        help="data directory with the corpus, for texts to choose from (default: the run's)",
    )
    add(
        "--max_characters",
        type=int,
        default=DEFAULTS.characters,
        help=f"of a text (default: {DEFAULTS.characters})",
    )
    add(
        "--rate",
        type=int,
        default=DEFAULTS.rate,
        help=f"requests per minute and address; 0: no bound (default: {DEFAULTS.rate})",
    )
    add(
        "--connections_per_address",
        type=int,
        default=DEFAULTS.connections_per_address,
        help="open connections of an address; behind a proxy all have the same one (default: "
        f"{DEFAULTS.connections_per_address}, of {DEFAULTS.connections} in all)",
    )
    add(
        "--attacks",
        type=int,
        default=DEFAULTS.attacks,
        help=f"attacks at the same time (default: {DEFAULTS.attacks})",
    )
    add(
        "--attack_seconds",
        type=float,
        default=DEFAULTS.attack_seconds,
        help=f"time of one attack (default: {DEFAULTS.attack_seconds:g})",
    )
    add(
        "--queries",
        type=int,
        default=DEFAULTS.queries,
        help=f"texts that one attack may ask about (default: {DEFAULTS.queries})",
    )
    return made


def _serve(args: argparse.Namespace, limits: ServeLimits) -> None:
    # Before the models are read, which takes a while.
    listener = _listener(args.host, args.port)
    pool: AttackPool | None = None
    workers: dict[str, ModelWorker] = {}
    try:
        texts = _models(args, limits, workers)
        pool = AttackPool(_attacks(args), limits)
        hosts = [*args.allow_host, f"[{args.host}]" if ":" in args.host else args.host]
        live = LiveApp(workers, pool, limits, texts=texts, hosts=hosts, version=line())
        host, port = listener.getsockname()[:2]
        shown = {"0.0.0.0": "127.0.0.1", "::": "localhost"}.get(host, host)
        print(harmless(f"{', '.join(workers)}: http://{shown}:{port}/"), flush=True)
        config = server_config(live.app, limits)
        _Server(config, pool).run(sockets=[listener])
    finally:
        listener.close()
        if pool is not None:
            pool.stop_all()
        for worker in workers.values():
            worker.close()
        if pool is not None:
            pool.close()


def _models(
    args: argparse.Namespace, limits: ServeLimits, workers: dict[str, ModelWorker]
) -> dict[str, list[dict[str, object]]]:
    """Reads the models into `workers`; returns texts of their corpora."""
    names = args.run or [None]
    if len(set(names)) < len(names):
        _wrong(f"got --run {' '.join(names)}, expected each run once")
    if len(names) > 1 and args.ckpt_path is not None:
        _wrong("got --ckpt_path and several runs, expected one or the other")
    device, texts = torch_device(args.device), {}
    for given in names:
        run, checkpoint = evaluated("serve", Path(args.runs_dir), given, args.ckpt_path)
        if (said := unfinished(checkpoint)) is not None:
            log.warning("%s", said)
        name = run.name if run is not None else checkpoint.stem
        model = load(checkpoint).to(device)
        words = WordCertificates(model, args.lists)
        workers[name] = ModelWorker(name, Answering(model, words), waiting=limits.requests)
        if run is not None:
            texts[name] = corpus_texts(
                run, data_dir=args.data_dir, count=TEXTS, characters=limits.characters
            )
    return texts


@resources_named("--resources")
def _attacks(args: argparse.Namespace) -> dict[str, Attack]:
    """Builds all attacks before anybody asks, so that what is missing is said now."""
    names = [name.strip() for name in args.recipes.split(",") if name.strip()]
    settings = [
        RecipeSettings(recipe=name, resources=args.resources, batch_size=BATCH) for name in names
    ]
    if not settings:
        return {}
    resources = Resources.of(settings[0], device=torch_device(args.device))
    return {one.recipe: build(one, resources) for one in settings}


def _listener(host: str, port: int) -> socket.socket:
    if not 0 <= port < 1 << 16:
        _wrong(f"got --port {port}, expected 0 to 65535")
    try:
        return socket.create_server(
            (host, port), family=socket.AF_INET6 if ":" in host else socket.AF_INET
        )
    except OSError as error:
        msg = (
            f"got --host {host} --port {port}, which cannot be listened at ({error.strerror}), "
            "expected an address of this machine and a free port"
        )
        raise OSError(msg) from error


def _wrong(message: str) -> NoReturn:
    raise ValueError(message)
