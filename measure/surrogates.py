"""Load the surrogate of an attack: a model that ranks words without queries to the victim."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from attacks.victims.kinds import Victim
from measure.named_victims import named_victim


class Surrogates(NamedTuple):
    """The models that may rank the words for an attack.

    Attributes:
        classes: classes of the victim.
        runs_dir: folder of all runs.
        device: device of the model.
        batch_size: texts per forward pass.
    """

    classes: Sequence[str]
    runs_dir: Path
    device: Any
    batch_size: int

    def load(self, name: str) -> Victim:
        """Return the model of a name: a run, or `hf:FOLDER_OR_ID`.

        Raises:
            ValueError: another kind of name, or a model of other classes.
            OSError: the run is not found.
        """
        kind, colon, _ = name.partition(":")
        if colon and kind not in ("run", "hf"):
            msg = f"got surrogate {name}, expected a run or hf:FOLDER: --attack.surrogate NAME"
            raise ValueError(msg)
        named = named_victim(
            name if colon else f"run:{name}",
            runs_dir=self.runs_dir,
            device=self.device,
            batch_size=self.batch_size,
        )
        if named.classes != list(self.classes):
            msg = (
                f"got surrogate {name} of the classes {', '.join(named.classes)}, expected those "
                f"of the victim, in their order: {', '.join(self.classes)}"
            )
            raise ValueError(msg)
        return named.victim
