"""Metrics over the steps of a run, from its event files."""

from typing import Any

from run_files.run_directory import RunDirectory


def read_curve(run: RunDirectory, name: str) -> dict[str, Any]:
    """Return `steps` and `values` of a logged metric, such as `train/loss`, in rising order.

    Raises:
        ValueError: the run has not logged this metric.
    """
    from tensorboard.backend.event_processing.event_file_loader import EventFileLoader
    from tensorboard.compat.proto.event_pb2 import SessionLog

    values_by_step: dict[int, float] = {}
    # Names begin with a time stamp: sorted by name is sorted by time.
    for path in sorted(run.path.glob("events.out.tfevents.*")):
        for event in EventFileLoader(str(path)).Load():
            if event.session_log.status == SessionLog.START:
                # A resumed run repeats the steps after its checkpoint; TensorBoard drops them too.
                values_by_step = {
                    step: value for step, value in values_by_step.items() if step < event.step
                }
            for value in event.summary.value:
                if value.tag == name:
                    values_by_step[event.step] = value.tensor.float_val[0]
    if not values_by_step:
        msg = f"got run {run.path}, which has logged no {name}, expected a run that was trained"
        raise ValueError(msg)
    steps = sorted(values_by_step)
    return {"steps": steps, "values": [values_by_step[step] for step in steps]}
