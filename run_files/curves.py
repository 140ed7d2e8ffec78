"""Figures over the steps of a run, from its event files."""

from typing import Any

from run_files.run_directory import RunDirectory


def read_curve(run: RunDirectory, name: str) -> dict[str, Any]:
    """Reads a figure that was logged while training.

    Where a run was resumed, what it had logged after that step does not count, as in TensorBoard.

    Args:
        run: the run.
        name: of the figure, for example `train/loss`.

    Returns:
        `steps`, rising, and as many `values`.

    Raises:
        ValueError: the run has logged no such figure.
    """
    from tensorboard.backend.event_processing.event_file_loader import EventFileLoader
    from tensorboard.compat.proto.event_pb2 import SessionLog

    found: dict[int, float] = {}
    # The order of their names is that of their beginning.
    for path in sorted(run.path.glob("events.out.tfevents.*")):
        for event in EventFileLoader(str(path)).Load():
            if event.session_log.status == SessionLog.START:
                found = {step: one for step, one in found.items() if step < event.step}
            for value in event.summary.value:
                if value.tag == name:
                    found[event.step] = value.tensor.float_val[0]
    if not found:
        msg = f"got run {run.path}, which has logged no {name}, expected a run that was trained"
        raise ValueError(msg)
    steps = sorted(found)
    return {"steps": steps, "values": [found[step] for step in steps]}
