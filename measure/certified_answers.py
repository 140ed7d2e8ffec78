"""Certify single texts in words, under each threat that a model has certificates for."""

import logging
from collections.abc import Collection
from typing import Any, get_args

from attacks.resources.catalogue import ResourceError, Resources
from attacks.word_sets import find_threat, is_endless
from certify.threats import TextCertificate, TextCertifier, Threat, ThreatName
from lit_modules import TaskModule
from measure.corpus_split import words_read

log = logging.getLogger(__name__)

CHANGES: tuple[int | None, ...] = (1, 2, None)
"""Certified numbers of changes; None, any number, only for a threat without a limit."""


class ThreatCertifiers:
    """The certifiers of one model, for all threats.

    Args:
        model: a classifier.
        lists: file of synonyms; None: no certificates about synonyms.
        names: kinds of threats.

    Raises:
        ValueError: malformed lists, or lists without any word of the model.
        OSError: the lists cannot be read.
    """

    def __init__(
        self,
        model: TaskModule,
        lists: str | None = None,
        names: Collection[ThreatName] = get_args(ThreatName),
    ) -> None:
        self.model = model
        self._certifiers: list[tuple[Threat, TextCertifier]] = []
        for name in names:
            if name in model.threats and (spec := _specify(name, model, lists)) is not None:
                # Any k: the certifier is asked for several numbers of changes.
                k = None if is_endless(spec) else 1
                file = lists if name == "synonyms" else None
                words = words_read(model)
                try:
                    resources = Resources(model.resources)
                    threat = find_threat(spec, lists=file, k=k, words=words, resources=resources)
                except ResourceError as error:
                    log.warning("no certificates against %s: %s", spec, error)
                    continue
                try:
                    self._certifiers.append((threat, model.text_certifier(threat)))
                except ValueError:
                    # These weights or settings have none; `certify --threat` names the reason.
                    continue

    @property
    def threats(self) -> list[str]:
        """Names of the threats with certificates."""
        return [threat.title for threat, _ in self._certifiers]

    def __call__(self, text: str) -> list[dict[str, Any]]:
        """Certify a text.

        Returns:
            A record for each threat: `threat`, `certified` (the largest number of changes, or
            `all`), `statement` (the certified changes, or a single one, in a sentence), `kind`
            (`exact` or `lower bound`), `witness` (a text with another prediction, or None) and
            `witness_class`. Threats that do not apply to the text have none.
        """
        records = []
        for threat, certifier in self._certifiers:
            subject = threat.subject(text)
            if subject is not None:
                ks = CHANGES if threat.endless else CHANGES[:-1]
                (certificate,) = certifier([subject], ks)
                records.append(self._record(threat, certificate))
        return records

    def _record(self, threat: Threat, certificate: TextCertificate) -> dict[str, Any]:
        _, names = self.model.require_text()
        certified, other = certificate.certified, certificate.witness_prediction
        return {
            "threat": threat.title,
            "certified": "all" if certified is None else str(certified),
            # Nothing certified: the statement of one change shows what was tried.
            "statement": threat.at(1 if certified == 0 else certified).statement,
            "kind": certificate.kind,
            "witness": certificate.witness,
            "witness_class": None if other is None else names[other],
        }


def _specify(name: ThreatName, model: TaskModule, lists: str | None) -> str | None:
    """Return a threat as the command line names it; None if the model or the lists lack it."""
    if name == "synonyms" and lists is None:
        return None
    return model.perturbation_sets if name == "substitutions" else name
