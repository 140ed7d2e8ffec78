"""Choose the device that a command line names."""

import torch


def torch_device(name: str) -> torch.device:
    """Return the device; `auto` is the GPU of this machine, else the CPU.

    Raises:
        ValueError: this machine does not have the device.
    """
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(name)
        # A valid name may still be a device that this machine lacks.
        torch.empty(0, device=device)
    # Which error torch raises depends on how it was built.
    except (AssertionError, RuntimeError) as error:
        msg = f"got --device {name}, which cannot be used, expected auto, cpu, cuda or cuda:N"
        raise ValueError(msg) from error
    return device
