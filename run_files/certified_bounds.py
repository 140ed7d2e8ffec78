"""The bounds of `certify --bound`: the names of their stages, files and figures."""

from dataclasses import dataclass
from typing import Literal

CertifyStage = Literal[
    "certify", "certify_paper", "certify_kim", "certify_local", "certify_propagation"
]


@dataclass(frozen=True)
class BoundFigures:
    """The figures of one bound."""

    bound: str  # value of `--bound`
    stage: CertifyStage  # name in `results.json`, and of the metrics
    file: str  # in the run directory, with a certificate per text
    by: str = ""  # suffix of the name of a figure
    proven: bool = True  # False without a theorem: the figures are never called certified
    lipschitz: bool = True  # True for a radius around the full text, by a Lipschitz constant

    @property
    def certified(self) -> str:
        """The prefix of the name of a figure, with a space."""
        return "certified " if self.proven else ""


_LOCAL = " by the local bound"
_KIM = " by Kim et al."
_WORDS = " of single words, by bound propagation"
_PRINTED = " by the paper's formula (no guarantee)"
BOUNDS = (
    BoundFigures("sound", "certify", "certificates.jsonl"),
    BoundFigures("local", "certify_local", "certificates_local.jsonl", _LOCAL),
    BoundFigures("kim", "certify_kim", "certificates_kim.jsonl", _KIM),
    BoundFigures(
        "propagation",
        "certify_propagation",
        "certificates_propagation.jsonl",
        _WORDS,
        lipschitz=False,
    ),
    BoundFigures("paper", "certify_paper", "printed_paper.jsonl", _PRINTED, proven=False),
)
"""In the order of tables: if a run has several, the first one counts."""
STAGE_OF = {bound.bound: bound.stage for bound in BOUNDS}
FILE_OF = {bound.stage: bound.file for bound in BOUNDS}
