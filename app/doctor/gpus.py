"""The GPUs, and whether this torch can use them."""

from collections.abc import Mapping
from typing import Any

from app.doctor.installation import step
from app.doctor.machine import GIB, size
from app.doctor.report import Check

Driver = tuple[str, list[str]]
_LITTLE = 2 * GIB


def check_gpus(facts: Mapping[str, dict[str, Any]], driver: Driver | None) -> list[Check]:
    """What the GPUs are and whether they work.

    Args:
        facts: what the probe of torch has found.
        driver: version of NVIDIA's driver and the names of the GPUs that it lists, if any.
    """
    torch, found = step(facts, "torch"), step(facts, "cuda")
    if "error" in torch:  # said already
        return []
    if "error" in found:
        advice = "see what `nvidia-smi` says; --trainer.accelerator cpu trains without"
        return [Check("GPUs", "FAILED", str(found["error"]), advice)]
    if not found["available"]:
        return [_without(torch, found, driver)]
    devices = found["devices"]
    checks = [_device(index, device) for index, device in enumerate(devices)]
    version = driver[0] if driver else "of unknown version"
    text = f"{len(devices)} usable, CUDA {torch['cuda']}, driver {version}"
    if driver and len(driver[1]) > len(devices):
        visible = found.get("visible")
        text += f", {len(driver[1])} in the machine"
        advice = (
            f"CUDA_VISIBLE_DEVICES={visible} leaves the others out"
            if visible is not None
            else "see what `nvidia-smi` says of the others"
        )
        checks.insert(0, Check("GPUs", "warning", text, advice))
    else:
        checks.insert(0, Check("GPUs", "ok", text))
    return [*checks, _nccl(facts, len(devices))]


def _without(torch: Mapping[str, Any], found: Mapping[str, Any], driver: Driver | None) -> Check:
    visible = found.get("visible")
    if driver is None:
        return Check("GPUs", "ok", "none: training is on the CPU")
    text = f"{len(driver[1])} in the machine (driver {driver[0]}), none that torch can use"
    if not torch["cuda"]:
        advice = "this torch is built for the CPU: make clean; make VARIANT=cuda install"
        return Check("GPUs", "warning", text, advice)
    if visible is not None and visible.strip() in ("", "-1", "NoDevFiles"):
        advice = "CUDA_VISIBLE_DEVICES hides them: unset it, unless that is meant"
        return Check("GPUs", "warning", f"{text} (CUDA_VISIBLE_DEVICES={visible!r})", advice)
    reason = found.get("reason") or "torch gives no reason"
    advice = (
        f"a newer driver for CUDA {torch['cuda']}; in containers, the NVIDIA container toolkit and "
        "`docker compose up` with docker-compose.override.yml, or start the container anew where "
        "the GPUs were there before"
    )
    return Check("GPUs", "FAILED", f"{text}: {reason}", advice)


def _device(index: int, device: Mapping[str, Any]) -> Check:
    name, text = f"GPU {index}", f"{device['name']}, compute capability {device['capability']}"
    if device["error"]:
        advice = (
            "this card does not work with this torch: leave it out (CUDA_VISIBLE_DEVICES), restart "
            "the machine if `nvidia-smi` shows errors, or install a torch for cards of this kind"
        )
        return Check(name, "FAILED", f"{text}: {device['error']}", advice)
    text += f", {size(device['free'])} of {size(device['total'])} free"
    if device["free"] < min(_LITTLE, device["total"] / 2):
        advice = "another program uses it (`nvidia-smi` lists them)"
        return Check(name, "warning", text, advice)
    return Check(name, "ok", text)


def _nccl(facts: Mapping[str, dict[str, Any]], count: int) -> Check:
    found = step(facts, "nccl")
    if "error" in found:
        advice = "several GPUs need it: NCCL_DEBUG=INFO shows more, --trainer.devices 1 avoids it"
        return Check("NCCL", "FAILED" if count > 1 else "warning", str(found["error"]), advice)
    return Check("NCCL", "ok", f"{found['version']}, a group on the first GPU works")
