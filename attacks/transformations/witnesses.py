"""The texts that a certificate in words names where it does not hold."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Self

from attacks.composition import Job
from attacks.document import Candidate
from certify.threats import TextCertifier, Threat

_DOUBLED = (1, 2, 4, 8, 16, None)
"""Numbers of changes of a threat without a limit: the witness has about as few as possible."""


@dataclass(frozen=True, kw_only=True)
class Witnesses:
    """Proposes the witness of the least number of changes that is not certified.

    Attributes:
        certifier: of the victim; None until it is known.
        ks: numbers of changes that it is asked about.
    """

    certifier: TextCertifier | None = None
    ks: Sequence[int | None] = (1,)

    def about(self) -> dict[str, Any]:
        """Return the settings; the certifier is that of the victim."""
        return {"ks": list(self.ks)}

    def certified(
        self, certifier: Callable[[Threat], TextCertifier] | None, threat: Threat | None
    ) -> Self:
        """Return this with a certifier; see `attacks.composition.Attack.certified`."""
        if self.certifier is not None:
            return self
        if certifier is None or threat is None:
            lacks = "threat" if threat is None else "certificate in words of the model"
            msg = (
                f"got no {lacks} for witness, expected a run with a certificate, and "
                "--attack.threat.kind characters (or words, synonyms, pwws, ...)"
            )
            raise ValueError(msg)
        ks = _DOUBLED if threat.k is None else tuple(range(1, threat.k + 1))
        return type(self)(certifier=certifier(threat), ks=ks)

    def propose(self, jobs: Sequence[Job]) -> list[list[Candidate]]:
        """See `Transformation`; a ValueError for pairs of texts, or without a certifier."""
        if self.certifier is None or any(len(job.current.columns) > 1 for job in jobs):
            msg = "got pairs of texts, or no certifier, for witness, expected texts of a run"
            raise ValueError(msg)
        certificates = self.certifier([job.current.columns[0] for job in jobs], self.ks)
        return [
            []
            if certificate.witness is None
            else [Candidate(job.current, 0, "", (certificate.witness,), width=len(job.current))]
            for job, certificate in zip(jobs, certificates, strict=True)
        ]
