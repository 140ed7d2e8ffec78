"""Trials of torch, the GPUs, the program, data, encoders and the hub."""

import os
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from datetime import timedelta
from importlib import import_module
from pathlib import Path
from urllib.parse import urlsplit

from app.doctor import machine
from app.doctor.findings import Finding, judge, masked
from app.doctor.installation import AGAIN
from app.doctor.trial_process import Trial


def of_torch() -> Iterator[Trial]:
    """List the trials of torch; only the first one where torch cannot be loaded."""
    yield torch_works()
    if torch := sys.modules.get("torch"):
        cards = torch.cuda.device_count() if torch.cuda.is_available() else 0
        yield from (gloo(), gpus(), *map(gpu, range(cards)), *([nccl()] if cards else []))


def of_program(data_dir: Path | None, encoder: Path | None) -> Iterator[Trial]:
    """List the trials of the program, and those of the folders that are given."""
    yield loads("loading", "app.cli.robust_cli")  # which imports the whole program
    yield loads("TensorBoard", "tensorboard.program", "torch.utils.tensorboard")
    yield from [data(data_dir)] if data_dir else []
    yield from [backbone(encoder)] if encoder else []


def loads(name: str, *modules: str) -> Trial:
    """Load modules."""
    yield Finding(name, "FAILED", "", AGAIN)
    yield judge(name, f"{' and '.join(import_module(one).__name__ for one in modules)} work")


def torch_works() -> Trial:
    """Load torch and calculate."""
    yield Finding("torch", "FAILED", "", f"nothing works without torch: {AGAIN}")
    import torch

    _calculate("cpu")
    threads, cores = torch.get_num_threads(), machine.cores(machine.control_groups())
    build = f"CUDA {torch.version.cuda}" if torch.version.cuda else "CPU"
    found = f"{torch.__version__}, built for {build}, {threads} thread(s)"
    yield machine.crowded("torch", found, threads > max(cores, 1), cores)


def _expect(expected: float, number: float) -> None:
    if number != expected:
        msg = f"the calculation gives {number}, expected {expected}"
        raise ArithmeticError(msg)


def _calculate(device: str) -> None:
    import torch

    ones = torch.ones(64, 64, device=device)
    _expect(64**3, float((ones @ ones).sum()))


def _add(backend: str, device: str, world: int) -> None:
    """Let 1 or 2 processes find each other and add their numbers."""
    import torch
    from torch import distributed

    with socket.create_server(("127.0.0.1", 0)) as chosen:
        address = f"tcp://127.0.0.1:{chosen.getsockname()[1]}"
    child = os.fork() if world == 2 else None
    try:
        limit, rank = timedelta(seconds=30), int(child == 0)
        distributed.init_process_group(backend, address, limit, world, rank)
        distributed.all_reduce(number := torch.ones(1, device=device))
        _expect(world, float(number))
        distributed.destroy_process_group()
    finally:
        if child == 0:
            os._exit(0)
        if child:
            os.waitpid(child, 0)


def gloo() -> Trial:
    """Let processes on the CPU work together."""
    advice = "only training in several processes needs it: add the machine's own name to "
    advice += "/etc/hosts, or set GLOO_SOCKET_IFNAME=lo (on one machine)"
    yield Finding("gloo", "warning", "", advice)
    # On other systems a fork is not safe after torch has been loaded.
    _add("gloo", "cpu", world := 2 if sys.platform == "linux" else 1)
    yield judge("gloo", f"{world} process(es) have added their numbers")


def driver() -> list[str]:
    """Return the version of NVIDIA's driver, once for each GPU that it lists."""
    command = ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"]
    try:
        return subprocess.check_output(
            command, text=True, timeout=20, stderr=subprocess.DEVNULL
        ).split()
    except (OSError, subprocess.SubprocessError):
        return []


def gpus() -> Trial:
    """List the GPUs, and say why torch cannot use those that the driver lists."""
    advice = "read `nvidia-smi`; --trainer.accelerator cpu trains without a GPU"
    yield Finding("GPUs", "FAILED", "", advice)
    import torch

    cuda, visible, drivers = torch.version.cuda, os.environ.get("CUDA_VISIBLE_DEVICES"), driver()
    usable = torch.cuda.device_count() if torch.cuda.is_available() else 0
    version, more = (drivers or ["of unknown version"])[0], f"{len(drivers)} in the machine"
    hidden = len(drivers) > usable > 0
    found = f"{usable} usable, CUDA {cuda}, driver {version}" + (f", {more}" if hidden else "")
    if not usable:
        found = "none: training is on the CPU"
    if drivers and not usable:
        reason = "torch gives no reason"
        try:
            torch.cuda.init()  # type: ignore[no-untyped-call] # theirs
        except Exception as error:  # only the reason matters
            reason = str(error)
        found = f"{more} (driver {version}), none that torch can use: {reason}"
    build = "torch is built for the CPU: make clean; make VARIANT=cuda install"
    hides = "CUDA_VISIBLE_DEVICES hides them: unset it"
    newer = f"install a newer driver, for CUDA {cuda}; in a container: the NVIDIA container "
    newer += "toolkit and docker-compose.override.yml, or a restart if the GPUs were there before"
    yield judge(
        "GPUs",
        found,
        (hidden and visible is None, "warning", "read `nvidia-smi` about the others"),
        (hidden, "warning", f"CUDA_VISIBLE_DEVICES={visible} leaves the others out"),
        (usable or not drivers, "ok", ""),
        (not cuda, "warning", build),
        (visible in ("", "-1", "NoDevFiles"), "warning", hides),
        (True, "FAILED", newer),
    )


def gpu(index: int) -> Trial:
    """Calculate on a GPU."""
    import torch

    name, (major, minor) = f"GPU {index}", torch.cuda.get_device_capability(index)
    card = f"{torch.cuda.get_device_name(index)}, compute capability {major}.{minor}"
    advice = "this torch cannot use this card: leave it out (CUDA_VISIBLE_DEVICES), restart the "
    advice += "machine if `nvidia-smi` shows errors, or install a torch for this card"
    yield Finding(name, "FAILED", f"{card}: ", advice)
    free, total = torch.cuda.mem_get_info(index)
    _calculate(f"cuda:{index}")
    found = f"{card}, {machine.size(free)} of {machine.size(total)} free"
    used = "another program uses it (`nvidia-smi` lists them)"
    yield judge(name, found, (free < min(machine.LITTLE, total / 2), "warning", used))


def nccl() -> Trial:
    """Make a group on the first GPU by NCCL, without which several GPUs cannot work together."""
    import torch

    advice = "several GPUs need it: NCCL_DEBUG=INFO shows more, --trainer.devices 1 avoids it"
    yield Finding("NCCL", "FAILED" if torch.cuda.device_count() > 1 else "warning", "", advice)
    _add("nccl", "cuda:0", 1)
    version = ".".join(map(str, torch.cuda.nccl.version()))  # type: ignore[no-untyped-call] # theirs
    yield judge("NCCL", f"{version}, a group on the first GPU works")


def data(folder: Path) -> Trial:
    """List the corpora of a data directory, and read the first row of each split."""
    yield Finding("data directory", "FAILED", f"{folder}: ", "see docs/data.md")
    from datamodules import CORPORA, DataError, Reviews, TextDataModule
    from datamodules.user_files import UserFiles

    others = {path.name for path in folder.iterdir() if path.is_dir()}
    texts, broken, fetched, absent = [], [], [], []
    for kind in CORPORA.values():
        # A user's own files and built-in text have no folder there.
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
    more = ", ..." if len(others) > 8 else ""
    found += f"; not used: {', '.join(sorted(others)[:8])}{more}" if others else ""
    layout = "expected DIR/<corpus>/<split>.<jsonl|tsv|csv|parquet>[.gz], as in docs/data.md"
    yield judge(
        "data directory",
        "; ".join([found, *broken]),
        (not texts, "warning", layout),
        (broken, "FAILED", "correct or remove these files, as in docs/data.md"),
        (absent, "warning", "; ".join(absent)),
    )


def backbone(folder: Path) -> Trial:
    """Load a pretrained encoder and its tokenizer, and encode a text with both."""
    advice = "expected a folder with config.json, model.safetensors and tokenizer.json"
    yield Finding("backbone", "FAILED", f"{folder}: ", advice)
    from layers.frozen_backbone import FrozenBackbone, FrozenEncoder
    from text import collate
    from text.pretrained_tokenizer import PretrainedTokenizer

    encoder = FrozenBackbone(FrozenEncoder(pretrained=str(folder.absolute())))
    tokenizer = PretrainedTokenizer.from_pretrained(str(folder.absolute()), max_length=32)
    encoder.check_fits(tokenizer.vocab_size, tokenizer.max_length)
    batch = collate(tokenizer.encode(["does it work?"]), pad_id=tokenizer.pad_id, pairs=False)
    if not bool(encoder(batch.input_ids, batch.mask).isfinite().all()):
        msg = "its vectors are not finite"
        raise ArithmeticError(msg)
    layers = encoder.config.get("num_hidden_layers")
    found = f"{encoder.config['model_type']}, {layers} layers, width {encoder.width}"
    yield judge("backbone", f"{found}, {tokenizer.vocab_size} ids, from {folder}")


def hub(seconds: float = 4.0) -> Trial:
    """Ask the hub once, as its client would; corpora in files do not need it."""
    advice = "give corpora as files (--data.data_dir, docs/data.md) and encoders as folders, or "
    advice += "run once where the hub can be reached, so that the local cache (HF_HOME) keeps them"
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
        # An error of the hub's front page does not matter; one of a gateway or a proxy does.
        problem = f": status {error.code}" if error.code >= 500 or error.code == 407 else ""
    except OSError as error:
        problem = f": cannot be reached ({getattr(error, 'reason', None) or error})"
    proxy = urllib.request.getproxies().get(target.scheme)
    if proxy and not urllib.request.proxy_bypass(target.hostname or ""):
        where += f" through {masked(proxy)}"
    yield judge("hub", f"{where}{problem or ' answers'}", (problem, "warning", advice))
