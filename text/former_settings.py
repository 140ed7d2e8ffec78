"""Names that settings had in earlier versions, in the runs and checkpoints that have them."""

from collections.abc import Mapping
from typing import Any


def renewed(settings: Any) -> Any:
    """Return settings of any version by today's names; nested ones, too.

    `objective.gamma_schedule` and `robustness.ramp` are `schedule` groups now.
    """
    if isinstance(settings, list):
        return [renewed(value) for value in settings]
    if not isinstance(settings, Mapping):
        return settings
    values = {name: renewed(value) for name, value in settings.items()}
    if "gamma_schedule" in values:
        shape = values.pop("gamma_schedule")
        # The hinge had no schedule, whatever the setting was.
        values["schedule"] = _schedule("constant" if values.get("loss") == "hinge" else shape, 1.0)
    if "kappa" in values and "ramp" in values:
        values["schedule"] = _schedule("linear", values.pop("ramp"))
    return values


def _schedule(shape: str, ramp: float) -> dict[str, Any]:
    return {"shape": shape, "ramp": ramp, "jumps": 4}
