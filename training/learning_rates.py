"""Logs the curves of the learning rate."""

from typing import Any

from pytorch_lightning.callbacks import LearningRateMonitor
from typing_extensions import override

from lit_modules.shared.weight_decay import SPLIT_FROM


class LearningRates(LearningRateMonitor):
    """Logs learning rates; groups that differ only in their weight decay share a curve."""

    @override
    def _add_suffix(
        self,
        name: str,
        param_groups: list[dict[str, Any]],
        param_group_index: int,
        use_names: bool = True,
    ) -> str:
        # Split groups come last, so that the numbers of all other groups do not change.
        unsplit = [group for group in param_groups if SPLIT_FROM not in group]
        number = param_groups[param_group_index].get(SPLIT_FROM, param_group_index)
        return super()._add_suffix(name, unsplit, number, use_names)
