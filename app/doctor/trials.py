"""Trials of torch, the GPUs, the program, data, encoders and the hub."""

import os
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from datetime import timedelta
from importlib import metadata
from pathlib import Path
from urllib.parse import urlsplit

from app.doctor import machine
from app.doctor.findings import Finding, judge, masked
from app.doctor.installation import AGAIN
from app.doctor.trial_process import Trial


def of_torch() -> Iterator[Trial]:
    """List the trials of torch; nothing else needs to be tried where it cannot be loaded."""
    yield torch_works()
    if "torch" in sys.modules:
        yield gloo()
        yield gpus()
        import torch

        if torch.cuda.is_available():
            yield from map(gpu, range(torch.cuda.device_count()))
            yield nccl()


def of_program(data_dir: Path | None, encoder: Path | None) -> Iterator[Trial]:
    """List the trials of the program, those of a folder if it is given."""
    yield loading()
    yield tensorboard()
    if data_dir:
        yield data(data_dir)
    if encoder:
        yield backbone(encoder)


def torch_works() -> Trial:
    """Load torch and calculate."""
    advice = f"torch cannot be used, and nothing works without it: {AGAIN}"
    yield Finding("torch", "FAILED", "", advice)
    import torch

    _calculate("cpu")
    threads, cores = torch.get_num_threads(), machine.cores(machine.control_groups())
    build = f"CUDA {torch.version.cuda}" if torch.version.cuda else "CPU"
    found = f"{torch.__version__}, built for {build}, {threads} thread(s)"
    advice = f"more threads than processors wait for each other: OMP_NUM_THREADS={cores:.0f}"
    yield judge("torch", found, (threads > max(cores, 1), "warning", advice))


def _calculate(device: str) -> None:
    import torch

    ones = torch.ones(64, 64, device=device)
    if (number := float((ones @ ones).sum())) != 64**3:
        msg = f"a product of matrices gives {number}, expected {64**3}"
        raise ArithmeticError(msg)


def _add(backend: str, device: str, port: int = 0, rank: int = 0, world: int = 1) -> None:
    """Let processes add their numbers."""
    import torch
    from torch import distributed
    from torch.distributed import TCPStore  # type: ignore[attr-defined] # no __all__

    limit = timedelta(seconds=30)
    store = TCPStore("127.0.0.1", port, world, rank == 0, limit)
    distributed.init_process_group(backend, store=store, rank=rank, world_size=world, timeout=limit)
    number = torch.ones(1, device=device) * (rank + 1)
    distributed.all_reduce(number)
    if float(number) != sum(range(1, world + 1)):
        msg = f"the sum of {world} processes is {float(number)}"
        raise ArithmeticError(msg)
    distributed.destroy_process_group()


def gloo() -> Trial:
    """Let two processes find each other and add two numbers."""
    advice = (
        "only training on several processes needs it: let the machine's own name be known (in "
        "/etc/hosts), or name the interface: GLOO_SOCKET_IFNAME=lo on one machine"
    )
    yield Finding("gloo", "warning", "", advice)
    with socket.create_server(("127.0.0.1", 0)) as chosen:
        port = chosen.getsockname()[1]
    # Elsewhere a fork after torch has been loaded is not safe: one process, which meets itself.
    child = os.fork() if sys.platform == "linux" else None
    world = 1 if child is None else 2
    try:
        _add("gloo", "cpu", port, int(child == 0), world)
    finally:
        if child == 0:
            os._exit(0)
        if child:
            os.waitpid(child, 0)
    yield judge("gloo", f"{world} process(es) have added their numbers")


def driver() -> list[str]:
    """Return the version of NVIDIA's driver, once for each GPU that it lists."""
    command = ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=20, check=True)
    except (OSError, subprocess.SubprocessError):
        return []
    return done.stdout.split()


def gpus() -> Trial:
    """List the GPUs, and say why torch cannot use those that the driver lists."""
    advice = "see what `nvidia-smi` says; --trainer.accelerator cpu trains without"
    yield Finding("GPUs", "FAILED", "", advice)
    import torch

    cuda, visible, drivers = torch.version.cuda, os.environ.get("CUDA_VISIBLE_DEVICES"), driver()
    version, more = (drivers or ["of unknown version"])[0], f"{len(drivers)} in the machine"
    if torch.cuda.is_available():
        hidden = len(drivers) > (count := torch.cuda.device_count())
        found = f"{count} usable, CUDA {cuda}, driver {version}" + (f", {more}" if hidden else "")
        others = "see what `nvidia-smi` says of the others"
        if visible is not None:
            others = f"CUDA_VISIBLE_DEVICES={visible} leaves the others out"
        yield judge("GPUs", found, (hidden, "warning", others))
        return
    if not drivers:
        yield judge("GPUs", "none: training is on the CPU")
        return
    reason = "torch gives no reason"
    try:
        torch.cuda.init()  # type: ignore[no-untyped-call] # theirs
    except Exception as error:  # the reason is all that is wanted
        reason = str(error)
    build = "this torch is built for the CPU: make clean; make VARIANT=cuda install"
    unset = "CUDA_VISIBLE_DEVICES hides them: unset it, unless that is meant"
    newer = (
        f"a newer driver for CUDA {cuda}; in containers, the NVIDIA container toolkit and `docker "
        "compose up` with docker-compose.override.yml, or start the container anew where the GPUs "
        "were there before"
    )
    yield judge(
        "GPUs",
        f"{more} (driver {version}), none that torch can use: {reason}",
        (not cuda, "warning", build),
        (visible in ("", "-1", "NoDevFiles"), "warning", unset),
        (True, "FAILED", newer),
    )


def gpu(index: int) -> Trial:
    """Calculate on a GPU."""
    import torch

    major, minor = torch.cuda.get_device_capability(index)
    card = f"{torch.cuda.get_device_name(index)}, compute capability {major}.{minor}"
    advice = (
        "this card does not work with this torch: leave it out (CUDA_VISIBLE_DEVICES), restart the "
        "machine if `nvidia-smi` shows errors, or install a torch for cards of this kind"
    )
    yield Finding(f"GPU {index}", "FAILED", f"{card}: ", advice)
    free, total = torch.cuda.mem_get_info(index)
    _calculate(f"cuda:{index}")
    found = f"{card}, {machine.size(free)} of {machine.size(total)} free"
    used = "another program uses it (`nvidia-smi` lists them)"
    yield judge(f"GPU {index}", found, (free < min(machine.LITTLE, total / 2), "warning", used))


def nccl() -> Trial:
    """Make a group on the first GPU by NCCL, without which several GPUs cannot work together."""
    import torch

    advice = "several GPUs need it: NCCL_DEBUG=INFO shows more, --trainer.devices 1 avoids it"
    yield Finding("NCCL", "FAILED" if torch.cuda.device_count() > 1 else "warning", "", advice)
    _add("nccl", "cuda:0")
    version = ".".join(map(str, torch.cuda.nccl.version()))  # type: ignore[no-untyped-call] # theirs
    yield judge("NCCL", f"{version}, a group on the first GPU works")


def loading() -> Trial:
    """Load all of the program."""
    yield Finding("loading", "FAILED", "", AGAIN)
    import app.cli.robust_cli  # noqa: F401 (everything stands behind it)

    yield judge("loading", "all of the program can be loaded")


def tensorboard() -> Trial:
    """Load what writes event files, and what `tensorboard` reads them with."""
    yield Finding("TensorBoard", "FAILED", "", AGAIN)
    import tensorboard.program  # noqa: F401
    from torch.utils.tensorboard import SummaryWriter  # noqa: F401

    yield judge("TensorBoard", f"{metadata.version('tensorboard')} can be loaded")


def data(folder: Path) -> Trial:
    """List the corpora of a data directory, and read the first row of each split."""
    yield Finding("data directory", "FAILED", f"{folder}: ", "see docs/data.md")
    from datamodules import CORPORA, DataError, Reviews, TextDataModule
    from datamodules.user_files import UserFiles

    others = {path.name for path in folder.iterdir() if path.is_dir()}
    texts, broken, fetched, absent = [], [], [], []
    for kind in CORPORA.values():
        # Text of one's own and built-in text have no folder there.
        if not issubclass(kind, TextDataModule) or issubclass(kind, UserFiles | Reviews):
            continue
        if kind.corpus not in others:
            continue
        others.remove(kind.corpus)
        corpus, good, missing = kind(data_dir=str(folder)), [], []
        for split in kind.hub_splits:
            try:
                problem = corpus.look(split)
            except (DataError, OSError) as error:
                problem = str(error)
            if problem is None:
                good.append(split)
            elif problem != "absent":
                broken.append(f"{kind.corpus}/{split}: {problem}")
            elif split != "validation" or kind.holdout == 0:  # else it is a part of `train`
                missing.append(f"{kind.corpus}/{split}")
        texts.append(f"{kind.corpus} ({', '.join(good) or 'nothing usable'})")
        if kind.hub_id is not None:
            fetched += missing
        elif missing:
            origin = f" ({kind.origin})" if kind.origin else ""
            absent.append(f"{', '.join(missing)} cannot be fetched: add the files{origin}")
    if fetched:
        names = ", ".join(fetched)
        absent.insert(0, f"{names} will be fetched from the hub: add the files to avoid it")
    found = f"{folder}: {', '.join(texts)}" if texts else f"{folder} holds no corpus of ours"
    found += f"; not used: {', '.join(sorted(others)[:8])}" if others else ""
    found += ", ..." if len(others) > 8 else ""
    layout = "expected DIR/<corpus>/<split>.<jsonl|tsv|csv|parquet>[.gz], as in docs/data.md"
    correct = "correct or remove these files; docs/data.md says what is expected"
    yield judge(
        "data directory",
        "; ".join([found, *broken]),
        (not texts, "warning", layout),
        (broken, "FAILED", correct),
        (absent, "warning", "; ".join(absent)),
    )


def backbone(folder: Path) -> Trial:
    """Load a pretrained encoder and its tokenizer, and encode a text with both."""
    advice = "expected a folder with config.json, model.safetensors and tokenizer.json"
    yield Finding("backbone", "FAILED", f"{folder}: ", advice)
    import torch

    from layers.frozen_backbone import FrozenBackbone
    from text import collate
    from text.pretrained_tokenizer import PretrainedTokenizer

    encoder = FrozenBackbone(str(folder.absolute()))
    tokenizer = PretrainedTokenizer.from_pretrained(str(folder.absolute()), max_length=32)
    encoder.check_fits(tokenizer.vocab_size, tokenizer.max_length)
    batch = collate(tokenizer.encode(["does it work?"]), pad_id=tokenizer.pad_id, pairs=False)
    if not bool(torch.isfinite(encoder(batch.input_ids, batch.mask)).all()):
        msg = "its vectors are not finite"
        raise ArithmeticError(msg)
    layers = encoder.config.get("num_hidden_layers")
    found = f"{encoder.config['model_type']}, {layers} layers, width {encoder.width}"
    yield judge("backbone", f"{found}, {tokenizer.vocab_size} ids, from {folder}")


def hub(seconds: float = 4.0) -> Trial:
    """Ask the hub once, as its client would; it is not needed where corpora are files."""
    advice = (
        "give corpora as files (--data.data_dir, docs/data.md) and encoders as folders, or run "
        "once where the hub can be reached, so that the local cache (HF_HOME) keeps them"
    )
    yield Finding("hub", "warning", "", advice)
    from huggingface_hub import constants

    if constants.HF_HUB_OFFLINE:
        names = ("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE", "HF_DATASETS_OFFLINE")
        switches = ", ".join(f"{name}={os.environ[name]}" for name in names if os.getenv(name))
        yield judge("hub", f"switched off by {switches}: only the local cache is used")
        return
    target = urlsplit(constants.ENDPOINT)
    where = f"{target.scheme}://{target.hostname}{f':{target.port}' if target.port else ''}"
    request, problem = urllib.request.Request(f"{where}{target.path}", method="HEAD"), ""
    try:
        urllib.request.build_opener().open(request, timeout=seconds).close()
    except urllib.error.HTTPError as error:
        # What the hub says of its front page is no matter. Not so a gateway or a proxy.
        problem = f"status {error.code}" if error.code >= 500 or error.code == 407 else ""
    except OSError as error:
        problem = f"cannot be reached ({getattr(error, 'reason', None) or error})"
    proxy = urllib.request.getproxies().get(target.scheme)
    if proxy and not urllib.request.proxy_bypass(target.hostname or ""):
        where += f" through {masked(proxy)}"
    found = f"{where}: {problem}" if problem else f"{where} answers"
    yield judge("hub", found, (problem, "warning", advice))
