"""What is tried out in processes of its own, since a broken library may take its process along.

`python -m app.doctor.probes torch` and `... program [--data_dir DIR] [--backbone FOLDER]` print one
JSON object a line, as soon as it is known: what is missing at the end is where the process died.
"""

import json
import os
import socket
import sys
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

Facts = dict[str, Any]


def report(step: str, find: Callable[[], Facts]) -> None:
    """Print what a step finds, or why it does not."""
    try:
        facts = find()
    except Exception as error:  # whatever it is, it is what was to be found out
        reason = " ".join(str(error).split()) or "no reason given"
        facts = {"error": f"{type(error).__name__}: {reason[:500]}"}
    print(json.dumps({"step": step, **facts}), flush=True)


# torch


def torch_facts() -> Facts:
    """That torch can be loaded and calculates."""
    import torch

    product = float((torch.ones(8, 8) @ torch.ones(8, 8)).sum())
    if product != 512:
        msg = f"a product of matrices gives {product}, expected 512"
        raise ArithmeticError(msg)
    return {
        "version": str(torch.__version__),
        "cuda": torch.version.cuda,
        "threads": torch.get_num_threads(),
        "distributed": torch.distributed.is_available(),
    }


def gloo_facts() -> Facts:
    """That two processes find each other and add two numbers."""
    from torch import distributed, ones

    with socket.socket() as chosen:
        chosen.bind(("127.0.0.1", 0))
        address = f"tcp://127.0.0.1:{chosen.getsockname()[1]}"
    # Elsewhere a fork after torch has been loaded is not safe: one process, which meets itself.
    child = os.fork() if sys.platform == "linux" else None
    rank, world = int(child == 0), 1 if child is None else 2
    try:
        distributed.init_process_group(
            "gloo",
            init_method=address,
            rank=rank,
            world_size=world,
            timeout=timedelta(seconds=30),
        )
        number = ones(1) * (rank + 1)
        distributed.all_reduce(number)
        distributed.destroy_process_group()
    finally:
        if child == 0:
            os._exit(0)
        if child:
            os.waitpid(child, 0)
    if float(number) != sum(range(1, world + 1)):
        msg = f"the sum of {world} processes is {float(number)}"
        raise ArithmeticError(msg)
    return {"processes": world}


def cuda_facts() -> Facts:
    """The GPUs, each tried out."""
    import torch

    facts: Facts = {
        "available": torch.cuda.is_available(),
        "visible": os.environ.get("CUDA_VISIBLE_DEVICES"),
        "devices": [],
    }
    if not facts["available"]:
        if torch.version.cuda is not None:
            try:
                torch.cuda.init()  # type: ignore[no-untyped-call] # theirs
            except Exception as error:  # the reason is all that is wanted
                facts["reason"] = " ".join(str(error).split())
        return facts
    for index in range(torch.cuda.device_count()):
        major, minor = torch.cuda.get_device_capability(index)
        device: Facts = {
            "name": torch.cuda.get_device_name(index),
            "capability": f"{major}.{minor}",
            "error": None,
        }
        try:
            device["free"], device["total"] = torch.cuda.mem_get_info(index)
            ones = torch.ones(64, 64, device=f"cuda:{index}")
            if float((ones @ ones).sum()) != 64**3:
                device["error"] = "it calculates wrongly"
        except Exception as error:  # a card that fell off its bus, or kernels for other cards
            device["error"] = " ".join(str(error).split())[:300]
        facts["devices"].append(device)
    return facts


def nccl_facts() -> Facts:
    """That NCCL, which connects GPUs, can be loaded and makes a group."""
    import torch
    from torch import distributed

    if not torch.cuda.is_available():
        return {"used": False}
    with socket.socket() as chosen:
        chosen.bind(("127.0.0.1", 0))
        address = f"tcp://127.0.0.1:{chosen.getsockname()[1]}"
    distributed.init_process_group(
        "nccl", init_method=address, rank=0, world_size=1, timeout=timedelta(seconds=30)
    )
    number = torch.ones(1, device="cuda:0")
    distributed.all_reduce(number)
    torch.cuda.synchronize()
    distributed.destroy_process_group()
    version: Any = torch.cuda.nccl.version()  # type: ignore[no-untyped-call] # theirs
    return {"used": True, "version": ".".join(map(str, version))}


# The program


def program_facts() -> Facts:
    """That all of the program can be loaded."""
    import app.cli

    return {"commands": sorted(app.cli.RobustCLI.subcommands())}


def tensorboard_facts() -> Facts:
    """That event files can be written and read."""
    from importlib.metadata import version

    import tensorboard.program  # noqa: F401 (what `tensorboard` itself loads)
    from torch.utils.tensorboard import SummaryWriter  # noqa: F401 (what writes the files)

    return {"version": version("tensorboard")}


def data_facts(folder: Path) -> Facts:
    """Which splits of which corpora a data directory holds, and whether they can be read."""
    from datamodules import CORPORA, DataError, Reviews, TextDataModule
    from datamodules.user_files import UserFiles

    if not folder.is_dir():
        msg = f"{folder} is no folder, expected one with a folder for each corpus"
        raise FileNotFoundError(msg)
    corpora: Facts = {}
    origins: dict[str, str | None] = {}
    for kind in CORPORA.values():
        # The others have no folder of their own there.
        if not issubclass(kind, TextDataModule) or issubclass(kind, UserFiles | Reviews):
            continue
        if not (folder / kind.corpus).is_dir():
            continue
        corpus = kind(data_dir=str(folder))
        splits: dict[str, str | None] = {}
        for split in kind.hub_splits:
            try:
                problem = corpus.look(split)
            except (DataError, OSError) as error:
                problem = str(error)
            if split != "validation" or problem != "absent" or kind.holdout == 0:
                splits[split] = problem
        corpora[kind.corpus] = splits
        if kind.hub_id is None:
            origins[kind.corpus] = kind.origin
    others = [p.name for p in sorted(folder.iterdir()) if p.is_dir() and p.name not in corpora]
    return {"corpora": corpora, "not_on_hub": origins, "others": others}


def backbone_facts(folder: Path) -> Facts:
    """That a pretrained encoder and its tokenizer can be loaded and go together."""
    if not folder.is_dir():
        msg = f"{folder} is no folder"
        raise FileNotFoundError(msg)
    import torch

    from layers.frozen_backbone import FrozenBackbone
    from text import collate
    from text.pretrained import PretrainedTokenizer

    encoder = FrozenBackbone(str(folder))
    tokenizer = PretrainedTokenizer.from_pretrained(str(folder), max_length=32)
    encoder.check_fits(tokenizer.vocab_size, tokenizer.max_length)
    batch = collate(tokenizer.encode(["does it work?"]), pad_id=tokenizer.pad_id, pairs=False)
    vectors = encoder(batch.input_ids, batch.mask)
    if not bool(torch.isfinite(vectors).all()):
        msg = "its vectors are not finite"
        raise ArithmeticError(msg)
    config = encoder.config
    return {
        "model": config["model_type"],
        "layers": config.get("num_hidden_layers"),
        "width": encoder.width,
        "ids": tokenizer.vocab_size,
    }


def main(arguments: list[str]) -> None:
    """Run the probes of one kind."""
    kind, *options = arguments
    given = dict(zip(options[::2], options[1::2], strict=True))
    if kind == "torch":
        report("torch", torch_facts)
        report("gloo", gloo_facts)
        report("cuda", cuda_facts)
        report("nccl", nccl_facts)
        return
    report("program", program_facts)
    report("tensorboard", tensorboard_facts)
    if "--data_dir" in given:
        report("data", lambda: data_facts(Path(given["--data_dir"])))
    if "--backbone" in given:
        report("backbone", lambda: backbone_facts(Path(given["--backbone"])))


if __name__ == "__main__":
    main(sys.argv[1:])
