"""Trials of versions, memory and disks, torch, GPUs, the program, data, encoders and the hub."""

import fcntl
import os
import platform
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterator
from contextlib import suppress
from datetime import timedelta
from importlib import import_module, metadata
from pathlib import Path
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

from app.doctor.findings import Finding, Status, Trial, judge, masked
from run_files.program_folder import PROGRAM
from run_files.version import line
from text.module_names import real_name
from training.control_groups import control_groups, cores, memory_limit, read_text

# Versions


MALICIOUS = {("lightning", "2.6.2"), ("lightning", "2.6.3")}
"""Uploads that steal credentials (GHSA-w37p-236h-pfx3)."""
AGAIN = "install the locked versions: `make clean`, then `make install`; or build the image anew"


def required(root: Path = PROGRAM) -> tuple[str, list[str]]:
    """Read the bounds of Python and the requirements, of the checkout or the installed package."""
    project = root / "pyproject.toml"
    if project.is_file():
        content = tomllib.loads(project.read_text(encoding="utf-8"))["project"]
        extras = content.get("optional-dependencies", {})
        parts = (extras.get(name, ()) for name in ("train", "serve", "study"))
        more = [line for part in parts for line in part if not line.startswith("steadfast-nlp")]
        return content["requires-python"], [*content["dependencies"], *more]
    python = metadata.metadata("steadfast-nlp")["Requires-Python"]
    return python or "", metadata.requires("steadfast-nlp") or []


def installed(name: str) -> str | None:
    """Return the version of a library without loading it; None if it is not installed."""
    try:
        return metadata.version(name)
    except (ImportError, KeyError, TypeError):  # a half deleted library has no version
        return None


def check_versions(root: Path = PROGRAM) -> Trial:
    """Check the program, Python and the libraries that the project names."""
    yield Finding("program", "FAILED", "cannot read the requirements: ", AGAIN)
    # Not at the top: this library itself may be missing.
    from packaging.requirements import Requirement
    from packaging.specifiers import SpecifierSet

    python, lines = required(root)
    fits = SpecifierSet(python).contains(platform.python_version(), True)
    yield Finding("program", "ok", f"{line()}, in {root}")
    observation = f"{platform.python_version()} ({python} allowed), {sys.executable}"
    yield judge("Python", observation, (not fits, "FAILED", "make PYTHON=python3.12 clean install"))
    versions, wrong = [], []
    for library in map(Requirement, lines):
        # A marker that is false: the library is for another system or Python.
        if library.marker is not None and not library.marker.evaluate():
            continue
        version = installed(library.name)
        versions.append(f"{library.name} {version}")
        if not version or not library.specifier.contains(version, True):
            allowed = library.specifier or "any"
            wrong.append(f"{library.name} {version or 'is not installed'} ({allowed} allowed)")
    wrong += [f"{n} {v} is a malicious upload" for n, v in MALICIOUS if installed(n) == v]
    observation = "; ".join(wrong) or f"{len(versions)} as allowed: {', '.join(versions)}"
    yield judge("libraries", observation, (wrong, "FAILED", AGAIN))


# Memory and disks


RUNS = "runs directory"
LITTLE = 2 * 2**30
# The default of Docker for /dev/shm.
_DOCKER_SHM = 64 * 2**20


def size(count: float) -> str:
    """Write a number of bytes in GiB."""
    return f"{count / 2**30:.1f} GiB"


def of_machine(runs_dir: Path) -> Iterator[Trial]:
    """List the trials of memory and disks."""
    yield memory()
    advice = "make room, make this user the folder's owner, or choose another --runs_dir"
    yield folder(RUNS, runs_dir, "FAILED", advice)
    caches = Path(os.environ.get("XDG_CACHE_HOME") or Path(os.environ.get("HOME", "/"), ".cache"))
    hub = Path(os.environ.get("HF_HOME") or caches / "huggingface")
    advice = "set HF_HOME to a writable folder (in a container: a volume); it holds the cache"
    yield folder("cache of the hub", hub, "warning", advice)
    yield folder("temporary files", None, "FAILED", "set TMPDIR to a writable folder")


def memory() -> Trial:
    """Check how much memory is available, and how much processes can share."""
    yield Finding("memory", "warning", "cannot be read: ")
    yield check_memory(control_groups())
    if (shared := Path("/dev/shm")).exists():  # as on Linux
        yield check_shared_memory(shared)


def check_memory(groups: list[Path], meminfo: Path = Path("/proc/meminfo")) -> Finding:
    """Check how much memory is available."""
    lines = re.findall(r"^Mem(?:Total|Available):\s+(\d+) kB", read_text(meminfo), re.MULTILINE)
    # Pairs (available, total) [bytes] of the machine and of the control group: the smaller counts.
    memories = [(int(lines[1]) * 1024, int(lines[0]) * 1024)] if len(lines) == 2 else []
    if limit := memory_limit(groups):
        memories.append((max(limit[0] - limit[1], 0), limit[0]))
    if not memories:
        return judge("memory", "unknown on this system")
    available, total = min(memories)
    observation = f"{size(available)} of {size(total)} available"
    observation += f" (the control group's limit is {size(limit[0])})" if limit else ""
    advice = "enough for small models; for more, stop other programs or raise the limit"
    return judge("memory", observation, (available < LITTLE, "warning", advice))


def check_shared_memory(path: Path) -> Finding:
    """Check how much memory processes can share."""
    total, _, free = shutil.disk_usage(path)
    advice = "data workers and several GPUs need more: docker run --shm-size 2g (Compose: shm_size)"
    observation = f"{size(total)} in {path}, {size(free)} free"
    little = min(total, free) <= _DOCKER_SHM
    return judge("shared memory", observation, (little, "warning", advice))


def folder(name: str, path: Path | None, status: Status, advice: str) -> Trial:
    """Write a file into a folder (None: that of temporary files), or into its nearest parent.

    `status` and `advice` are for a folder that cannot be written.
    """
    yield Finding(name, status, f"nothing can be written into {path or 'any folder'}: ", advice)
    path, locks = path or Path(tempfile.gettempdir()), False
    existing = next(parent for parent in (path, *path.absolute().parents) if parent.exists())
    with tempfile.NamedTemporaryFile(dir=existing, prefix=".doctor.", buffering=0) as file:
        file.write(b"written by `doctor`")
        os.fsync(file)  # a full disk may not be noticed before
        with suppress(OSError):
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            locks = True
    free, runs = shutil.disk_usage(existing).free, name == RUNS
    full = "make room: a checkpoint with its optimiser is three times as large as the model"
    unlocked = "this file system has no locks: never use one run from two processes"
    yield judge(
        name,
        f"{path} can be written, {size(free)} free",
        (runs and free < LITTLE, "warning", full),
        (runs and not locks, "warning", unlocked),
    )


# Torch and GPUs


def of_torch() -> Iterator[Trial]:
    """List the trials of torch; only the first one if torch cannot be loaded."""
    yield torch_works()
    if torch := sys.modules.get("torch"):
        cards = torch.cuda.device_count() if torch.cuda.is_available() else 0
        yield from (gloo(), gpus(), *map(gpu, range(cards)), *([nccl()] if cards else []))


def of_program(data_dir: Path | None, encoder: Path | None) -> Iterator[Trial]:
    """List the trials of the program, and of these folders."""
    yield loads("loading", real_name("app.cli.robust_cli"))  # which imports the whole program
    yield loads("TensorBoard", "tensorboard.program", "torch.utils.tensorboard")
    yield from [data(data_dir)] if data_dir else []
    yield from [backbone(encoder)] if encoder else []


def loads(name: str, *modules: str) -> Trial:
    """Load modules."""
    yield Finding(name, "FAILED", "", AGAIN)
    yield judge(name, f"{' and '.join(import_module(module).__name__ for module in modules)} work")


def torch_works() -> Trial:
    """Load torch and multiply matrices."""
    yield Finding("torch", "FAILED", "", f"nothing works without torch: {AGAIN}")
    # After the first finding: an import that fails, or ends the process, is reported with it.
    import torch

    _calculate("cpu")
    threads, usable = torch.get_num_threads(), cores()
    text = f"{torch.__version__}, {threads} thread(s) on {usable:g} of {os.cpu_count()} processors"
    advice = f"more threads than processors are slow: set OMP_NUM_THREADS={max(int(usable), 1)}"
    yield judge("torch", text, (threads > max(usable, 1), "warning", advice))


def _calculate(device: str) -> None:
    import torch

    ones = torch.ones(64, 64, device=device)
    if (number := float((ones @ ones).sum())) != 64**3:
        msg = f"the calculation gives {number}, expected {64**3}"
        raise ArithmeticError(msg)


def gloo() -> Trial:
    """Let processes on the CPU work together."""
    advice = "only training in several processes needs it: add the machine's own name to "
    advice += "/etc/hosts, or set GLOO_SOCKET_IFNAME=lo (on one machine)"
    # On other systems a fork is not safe after torch has been loaded.
    world = 2 if sys.platform == "linux" else 1
    return _together(Finding("gloo", "warning", "", advice), "cpu", world)


def nccl() -> Trial:
    """Make a group on the first GPU by NCCL, which several GPUs need to work together."""
    import torch

    advice = "several GPUs need it: NCCL_DEBUG=INFO shows more, --trainer.devices 1 avoids it"
    status: Status = "FAILED" if torch.cuda.device_count() > 1 else "warning"
    return _together(Finding("NCCL", status, "", advice), "cuda:0", 1)


def _together(failure: Finding, device: str, world: int) -> Trial:
    """Let 1 or 2 processes find each other and add their numbers."""
    yield failure
    import torch

    with socket.create_server(("127.0.0.1", 0)) as free_port:
        address = f"tcp://127.0.0.1:{free_port.getsockname()[1]}"
    # The child does the same as rank 1, and ends in `finally`.
    child = os.fork() if world == 2 else None
    try:
        limit, rank = timedelta(seconds=30), int(child == 0)
        torch.distributed.init_process_group(failure.name.lower(), address, limit, world, rank)
        torch.distributed.all_reduce(number := torch.ones(1, device=device))
        torch.distributed.destroy_process_group()
    finally:
        if child == 0:
            os._exit(0)
        if child:
            os.waitpid(child, 0)
    yield judge(failure.name, f"{number.item():g} process(es) have added their numbers")


def driver() -> list[str]:
    """Return the version of NVIDIA's driver, once for each GPU that it lists."""
    command = ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"]
    with suppress(OSError, subprocess.SubprocessError):
        process = subprocess.run(command, capture_output=True, check=True, text=True, timeout=20)
        return process.stdout.split()
    return []


def gpus() -> Trial:
    """List the GPUs, with the reason if torch cannot use all that the driver lists."""
    import torch

    cuda, visible, drivers = torch.version.cuda, os.environ.get("CUDA_VISIBLE_DEVICES"), driver()
    usable = torch.cuda.device_count() if torch.cuda.is_available() else 0
    version, listed = (drivers or ["of unknown version"])[0], len(drivers)
    newer = f"install a newer driver, for CUDA {cuda}; in a container: the NVIDIA container "
    newer += "toolkit and docker-compose.override.yml, or a restart if the GPUs were there before"
    text = f"{usable} usable, CUDA {cuda}, driver {version}"
    text += f", {listed} in the machine" if listed > usable else ""
    yield Finding("GPUs", "FAILED", f"{text}: ", newer)
    if listed > usable == 0 and cuda and visible not in ("", "-1", "NoDevFiles"):
        # Raises: its message is the reason.
        torch.cuda.init()  # type: ignore[no-untyped-call] # torch has no type here
    build = "torch is built for the CPU: make clean; make VARIANT=cuda install"
    hides = f"CUDA_VISIBLE_DEVICES={visible} hides GPUs: unset it to use all of them"
    yield judge(
        "GPUs",
        text if usable or listed else "none: training is on the CPU",
        (listed > usable == 0 and not cuda, "warning", build),
        (listed > usable and visible is not None, "warning", hides),
        (listed > usable, "warning", "read `nvidia-smi` about the others"),
    )


def gpu(index: int) -> Trial:
    """Multiply matrices on a GPU."""
    import torch

    name, (major, minor) = f"GPU {index}", torch.cuda.get_device_capability(index)
    card = f"{torch.cuda.get_device_name(index)}, compute capability {major}.{minor}"
    advice = "this torch cannot use this card: leave it out (CUDA_VISIBLE_DEVICES), restart the "
    advice += "machine if `nvidia-smi` shows errors, or install a torch for this card"
    yield Finding(name, "FAILED", f"{card}: ", advice)
    free, total = torch.cuda.mem_get_info(index)
    _calculate(f"cuda:{index}")
    text = f"{card}, {size(free)} of {size(total)} free"
    used = "another program uses it (`nvidia-smi` lists them)"
    yield judge(name, text, (free < min(LITTLE, total / 2), "warning", used))


def data(folder: Path) -> Trial:
    """List the corpora of a data directory, and read the first row of each split."""
    yield Finding("data directory", "FAILED", f"{folder}: ", "see docs/data.md")
    from datamodules import CORPORA, TextDataModule

    labelled = [kind for kind in CORPORA.values() if issubclass(kind, TextDataModule)]
    # Built-in texts and your own files have neither origin nor a folder there.
    kinds = {kind.corpus: kind for kind in labelled if kind.hub_id or kind.origin}
    names = {path.name for path in folder.iterdir() if path.is_dir()}
    corpora, unused = sorted(names & set(kinds)), sorted(names - set(kinds))
    text = f"{folder} holds {', '.join(corpora) or 'no corpus of ours'}"
    more = ", ..." if len(unused) > 8 else ""
    text += f"; not used: {', '.join(unused[:8])}{more}" if unused else ""
    layout = "expected DIR/<corpus>/<split>.<jsonl|tsv|csv|parquet>[.gz], as in docs/data.md"
    yield judge("data directory", text, (not corpora, "warning", layout))
    for kind in (kinds[name] for name in corpora):
        problems = kind(data_dir=str(folder)).look()
        absent = f"add the absent files ({kind.origin})"
        if kind.hub_id is not None:
            absent = "absent files will be downloaded from the hub: add them to avoid it"
        yield judge(
            f"corpus {kind.corpus}",
            "; ".join(f"{split}: {problem or 'ok'}" for split, problem in problems.items()),
            (set(problems.values()) - {None, "absent"}, "FAILED", "correct or remove the files"),
            ("absent" in problems.values(), "warning", absent),
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
    finite = bool(encoder(batch.input_ids, batch.mask).isfinite().all())
    text = f"{encoder.config['model_type']}, width {encoder.width}, from {folder}"
    yield judge("backbone", text, (not finite, "FAILED", "its vectors are not finite"))


def hub(seconds: float = 4.0) -> Trial:
    """Send one request to the hub, as its client would; corpora in files do not need it."""
    from huggingface_hub import constants, get_session

    advice = "give corpora as files (--data.data_dir, docs/data.md) and encoders as folders, or "
    advice += "run once where the hub can be reached, so that the local cache (HF_HOME) keeps them"
    hub = urlsplit(constants.ENDPOINT)
    address = f"{hub.scheme}://{hub.netloc.rpartition('@')[2]}"
    proxy = None if proxy_bypass(hub.hostname or "") else getproxies().get(hub.scheme)
    address += f" through {masked(proxy)}" if proxy else ""
    yield Finding("hub", "warning", f"{address} cannot be reached: ", advice)
    if constants.HF_HUB_OFFLINE:
        yield judge("hub", "switched off by HF_HUB_OFFLINE: only the local cache is used")
        return
    status = get_session().head(constants.ENDPOINT, timeout=seconds).status_code
    # An error of the hub's front page does not matter; one of a gateway or a proxy does.
    problem = status >= 500 or status == 407
    yield judge("hub", f"{address} answers with status {status}", (problem, "warning", advice))
