"""Serve trained models as a page in the browser and as a JSON API (docs/serve.md).

Class, certificate, words that decide, and attacks as they run. Ctrl-C ends it.
"""

import argparse
import socket
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import FrameType

import uvicorn

from app.cli.run_options import SEVERAL, add_option, command_parser
from app.serve.connections import server_config
from app.serve.live_attacks import AttackPool
from app.serve.live_routes import LiveApp
from app.serve.model_worker import BATCH, ModelWorker
from app.serve.run_facts import RunFacts, read_facts, text_of
from app.serve.serve_limits import ServeLimits
from attacks.composition import Attack
from attacks.recipe_settings import RecipeSettings
from attacks.recipes import build
from attacks.resources.catalogue import Resources, resources_named
from attacks.strategies import TokenDistribution
from attacks.transformations.benign_texts import Addition
from lit_modules.checkpoints.reading import load
from measure.certified_answers import ThreatCertifiers
from measure.predictions import TextPredictor
from run_files.checkpoint_lookup import find_checkpoint
from run_files.devices import torch_device
from run_files.terminal import harmless
from run_files.version import line
from run_files.weights import warn_unfinished
from text import Text
from training import interrupt

DEFAULTS = ServeLimits()
LIMITS = {
    "characters": "characters of a text",
    "rate": "requests per minute and address; 0: no bound",
    "connections_per_address": f"open connections of an address, of {DEFAULTS.connections} in all; "
    "behind a proxy all clients have the same address",
    "attacks": "attacks at the same time",
    "attack_seconds": "time of one attack",
    "queries": "queries of one attack",
}
"""Fields of `ServeLimits` that are options, with their help."""


class _Server(uvicorn.Server):
    """Ends all attacks when it is told to end: else it would wait for their responses."""

    def __init__(self, config: uvicorn.Config, pool: AttackPool) -> None:
        super().__init__(config)
        self._pool = pool

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Handle Ctrl-C and SIGTERM."""
        self._pool.stop_all()
        super().handle_exit(sig, frame)


def run(args: argparse.Namespace) -> int:
    """Run the command, which a signal ends with 130 or 143 as exit status."""
    values = {field: getattr(args, field) for field in LIMITS}
    limits = ServeLimits(**values | {"rate": args.rate or None})
    try:
        with interrupt.handle_signals():
            _serve(args, limits)
    except interrupt.Stopped as stopped:
        name = "Ctrl-C" if stopped.signum == interrupt.SIGNALS[0] else "SIGTERM"
        print(f"stopped by {name}", file=sys.stderr)
        raise
    return 0


def parser() -> argparse.ArgumentParser:
    """Return the parser of the command."""
    parser = command_parser(
        "serve", __doc__, "--runs_dir", "--ckpt_path", "--device", "--resources"
    )
    add_option(parser, "--run", **SEVERAL)
    add_option(parser, "--data_dir", type=Path)
    add = parser.add_argument
    text = "address to listen at (default: 127.0.0.1, this machine only; there is no password)"
    add("--host", default="127.0.0.1", help=text)
    add("--port", type=int, default=8000, help="port to listen at; 0: any")
    text = "another name under which browsers may reach it"
    add("--allow_host", action="append", default=[], metavar="NAME", help=text)
    text = "refuse runs without a threshold (docs/detectors.md)"
    add("--detector", action="store_true", help=text)
    text = "attacks to offer, with commas between them; empty for none (default: deepwordbug, "
    add("--recipes", default="deepwordbug", help=f"{text}which needs no resources)")
    text = "JSON with synonyms: models with certificates for them certify each text"
    add_option(parser, "--lists", help=text)
    for field, text in LIMITS.items():
        option = "--max_characters" if field == "characters" else f"--{field}"
        default = getattr(DEFAULTS, field)
        metavar = option.removeprefix("--").upper()
        add(option, dest=field, metavar=metavar, type=type(default), default=default, help=text)
    return parser


def _serve(args: argparse.Namespace, limits: ServeLimits) -> None:
    # The port comes first: reading the models takes a while, and a used port is an error at once.
    listener = _listen(args.host, args.port)
    pool: AttackPool | None = None
    workers: dict[str, ModelWorker] = {}
    try:
        facts = _load_models(args, limits, workers)
        pool = AttackPool(_build_attacks(args, _examples(workers, facts)), limits)
        hosts = [*args.allow_host, f"[{args.host}]" if ":" in args.host else args.host]
        live = LiveApp(workers, pool, limits, facts=facts, hosts=hosts, version=line())
        host, port = listener.getsockname()[:2]
        # A browser cannot open the address that means "every address of this machine".
        host = {"0.0.0.0": "127.0.0.1", "::": "localhost"}.get(host, host)
        print(harmless(f"{', '.join(workers)}: http://{host}:{port}/"), flush=True)
        _Server(server_config(live.app, limits), pool).run(sockets=[listener])
    finally:
        listener.close()
        # Attacks first: one that waits for its model would block the end of the pool.
        if pool is not None:
            pool.stop_all()
        for worker in workers.values():
            worker.close()
        if pool is not None:
            pool.close()


def _load_models(
    args: argparse.Namespace, limits: ServeLimits, workers: dict[str, ModelWorker]
) -> dict[str, RunFacts]:
    """Load the models into `workers`, whose threads the caller ends; return their facts."""
    names = args.run or [None]  # None: the run of --ckpt_path, if it is of one
    if len(set(names)) < len(names):
        msg = f"got --run {' '.join(names)}, expected each run once"
        raise ValueError(msg)
    if len(names) > 1 and args.ckpt_path is not None:
        msg = "got --ckpt_path and several runs, expected one or the other"
        raise ValueError(msg)
    device, facts = torch_device(args.device), {}
    for run_name in names:
        run, checkpoint = find_checkpoint("serve", Path(args.runs_dir), run_name, args.ckpt_path)
        warn_unfinished(checkpoint)
        name = run.name if run is not None else checkpoint.stem
        model = load(checkpoint).to(device)
        if args.detector and model.detector is None:
            msg = (
                f"got run {name}, which has no threshold, expected a detector: train one with "
                "--detect.positive CLASS, or leave --detector out"
            )
            raise ValueError(msg)
        certifiers = ThreatCertifiers.of_model(
            model, args.lists, resources=args.resources, worst="nearest"
        )
        answering = TextPredictor(model, certifiers)
        workers[name] = ModelWorker(name, answering, waiting=limits.requests)
        # Files of a run are about its own checkpoint, or the one with which a test began it.
        if run is not None and checkpoint in (run.chosen, run.source_checkpoint()):
            characters = limits.characters
            facts[name] = read_facts(run, data_dir=args.data_dir, characters=characters)
    return facts


def _examples(
    workers: Mapping[str, ModelWorker], facts: Mapping[str, RunFacts]
) -> list[tuple[Text, int]]:
    """Return the examples of the page with their classes; none if the models have other classes."""
    if len({tuple(worker.classes) for worker in workers.values()}) > 1:
        return []
    return [
        (text_of(row), label)
        for name, own in facts.items()
        for row in own.texts
        for label, known in enumerate(workers[name].classes)
        if known == row["label"]
    ]


@resources_named("--resources")
def _build_attacks(
    args: argparse.Namespace, examples: Sequence[tuple[Text, int]]
) -> dict[str, Attack]:
    """Build all attacks at the start, so that a missing resource is an error now.

    Some learn harmless words from the examples, texts with their classes.
    """
    names = [name.strip() for name in args.recipes.split(",") if name.strip()]
    if not names:
        return {}
    settings = [
        RecipeSettings(recipe=name, resources=args.resources, batch_size=BATCH) for name in names
    ]
    resources = Resources.of(settings[0], device=torch_device(args.device))
    attacks = [build(recipe, resources).certified(None, None) for recipe in settings]
    if drawing := [a.name for a in attacks if isinstance(a.search, TokenDistribution)]:
        msg = (
            f"got --recipes {drawing[0]}, for which other requests would wait for seconds, "
            f"expected other attacks; `attack --run NAME --attack {drawing[0]}` runs it"
        )
        raise ValueError(msg)
    built = dict(zip(names, attacks, strict=True))
    learning = [name for name in built if isinstance(built[name].transformation, Addition)]
    if learning and len({label for _, label in examples}) < 2:
        msg = (
            f"got --recipes {','.join(learning)} without examples of two classes to learn harmless "
            "words from, expected the corpus of the run (--data_dir DIR), and models of the same "
            "classes"
        )
        raise ValueError(msg)
    return {name: attack.learn(lambda: examples) for name, attack in built.items()}


def _listen(host: str, port: int) -> socket.socket:
    if not 0 <= port < 1 << 16:
        msg = f"got --port {port}, expected 0 to 65535"
        raise ValueError(msg)
    try:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        return socket.create_server((host, port), family=family)
    except OSError as error:
        msg = (
            f"got --host {host} --port {port}, which cannot be listened at ({error.strerror}), "
            "expected an address of this machine and a free port"
        )
        raise OSError(msg) from error
