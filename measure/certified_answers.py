"""Certify single texts in words, under each threat that a model has certificates for."""

import logging
import re
from collections.abc import Collection, Sequence
from typing import Literal, Self, get_args

from attacks.resources.catalogue import ResourceError, Resources
from attacks.word_sets import find_threat, is_endless
from certify.threats import TextCertificate, TextCertifier, Threat, ThreatName, WorstText
from certify.threats.substitutions import Substitutions
from certify.words.score_certifiers import SynonymCertifier
from lit_modules import TaskModule
from measure.certificate_records import Record, format_changes, record
from measure.corpus_split import words_read
from text import cuts_unsaid

log = logging.getLogger(__name__)

CHANGES: tuple[int | None, ...] = (1, 2, 3, None)
"""Certified numbers of changes; None, any number, only for a threat without a limit."""
SETS: tuple[ThreatName, ...] = ("substitutions", "additions")
"""Threats of which a model has its own: the sets that it is trained against, and added text."""
Worst = Literal["failing", "nearest", "levels"]
NAMED = 4
"""Changed words that a sentence names."""


class ThreatCertifiers:
    """Certifiers of one model, and their records about single texts.

    Args:
        model: a classifier.
        certifiers: threats, each with a certifier of this model.
        ks: numbers of changes, from few to many.
        worst: the worst texts to find. failing: with the fewest changes that are not certified;
            nearest: the same, and for certified texts the one that comes nearest to a change;
            levels: for each number of changes.
        missing: sentences about threats without a certifier.
    """

    def __init__(
        self,
        model: TaskModule,
        certifiers: Sequence[tuple[Threat, TextCertifier]],
        *,
        ks: Sequence[int | None] = CHANGES,
        worst: Worst = "failing",
        missing: Sequence[str] = (),
    ) -> None:
        self.model, self.missing = model, missing
        self._ks, self._worst = ks, worst
        self._certifiers: list[tuple[Threat, TextCertifier]] = []
        for threat, certifier in certifiers:
            self._certifiers.append((threat, certifier))
            if isinstance(certifier, SynonymCertifier):
                self._certifiers += [(part.threat, part) for part in certifier.alone]

    @classmethod
    def of_model(
        cls,
        model: TaskModule,
        lists: str | None = None,
        names: Collection[ThreatName] = get_args(ThreatName),
        resources: str | None = None,
        worst: Worst = "failing",
    ) -> Self:
        """Return the certifiers of a model against the threats of these `names`.

        `lists` is the file of synonyms, without which no certificate is about them. `resources` is
        the folder with the resources of perturbation sets; None: that of the training.

        Raises:
            ValueError: malformed lists, or lists without any word of the model.
            OSError: the lists cannot be read.
        """
        certifiers, missing = [], []
        for name in names:
            if name in model.threats and (spec := _specify(name, model, lists)) is not None:
                # Any k: the certifier is asked for several numbers of changes.
                k = None if is_endless(spec) else 1
                file = lists if name == "synonyms" else None
                words, found = words_read(model), Resources(resources or model.resources)
                try:
                    threat = find_threat(spec, lists=file, k=k, words=words, resources=found)
                except ResourceError as error:
                    missing.append(f"no certificates against {spec}: {error}")
                    log.warning("%s", missing[-1])
                    continue
                try:
                    certifiers.append((threat, model.text_certifier(threat)))
                except ValueError:
                    # These weights or settings have none; `certify --threat` names the reason.
                    continue
        return cls(model, certifiers, worst=worst, missing=missing)

    @property
    def threats(self) -> list[str]:
        """Names of the threats with certificates."""
        return [threat.title for threat, _ in self._certifiers]

    def __call__(self, texts: Sequence[str]) -> list[list[Record]]:
        """Certify texts.

        Returns:
            For each text a record for each threat that applies to it: that of `record` with
            `threat`, `statement` (the certified changes, or a single one), `sentence` and
            `headline`, the same in short for certified replacements of words, else "".
            `worst` has texts of the set that have another prediction, or come nearest to it. Each
            has `k`, `text`, `replaced` (pairs of words), `reads` (what the model reads of it),
            `prediction` and `margin` (of the class of the text; not positive if that changes).
        """
        answers: list[list[Record]] = [[] for _ in texts]
        for threat, certifier in self._certifiers:
            subjects = [(i, threat.subject(text)) for i, text in enumerate(texts)]
            about = [(i, subject) for i, subject in subjects if subject is not None]
            ks = [k for k in self._ks if k is not None or threat.endless]
            texts_of = [subject for _, subject in about]
            certificates, worst = self._certify(certifier, texts_of, ks)
            for (i, _), certificate, found in zip(about, certificates, worst, strict=True):
                answers[i].append(self._record(threat, certificate, ks, found))
        self._measure([record for records in answers for record in records])
        return answers

    def _certify(
        self, certifier: TextCertifier, texts: Sequence[str], ks: Sequence[int | None]
    ) -> tuple[list[TextCertificate], list[list[tuple[int | None, WorstText]]]]:
        """Return certificates, and for each the worst texts with their numbers of changes."""
        if not isinstance(certifier, SynonymCertifier):
            return certifier(texts, ks), [[] for _ in texts]
        certificates = certifier(texts, ks, worst=self._worst == "levels")
        if self._worst == "levels":
            return certificates, [list(zip(ks, c.worst, strict=False)) for c in certificates]
        worst: list[list[tuple[int | None, WorstText]]] = [[] for _ in texts]
        rows: dict[int | None, list[int]] = {}
        for row, (holds, certified) in enumerate((c.holds, c.certified) for c in certificates):
            if not all(holds):
                # All words at once would hide the few that suffice.
                number = ks[holds.index(False)]
                if number is None and certified is not None:
                    number = certified + 1
                rows.setdefault(number, []).append(row)
            elif self._worst == "nearest":
                rows.setdefault(ks[-1], []).append(row)
        # None last: a certifier that does not know the largest number may certify one more.
        for k in (*sorted(k for k in rows if k is not None), None):
            chosen = rows.get(k, [])
            found = certifier([texts[row] for row in chosen], [k], worst=True)
            for row, certificate in zip(chosen, found, strict=True):
                if k in ks or certificate.holds == (False,):
                    worst[row] = [(k, text) for text in certificate.worst]
                else:
                    rows.setdefault(None, []).append(row)
        return certificates, worst

    def _record(
        self,
        threat: Threat,
        certificate: TextCertificate,
        ks: Sequence[int | None],
        worst: Sequence[tuple[int | None, WorstText]],
    ) -> Record:
        tokenizer, names = self.model.require_text()
        front_end = tokenizer.front_end
        certified = certificate.certified
        # Nothing certified: the statement of one change shows what was tried.
        widest = threat.at(1 if certified == 0 else certified)
        verb = (
            "claimed by a formula without proof" if certificate.kind == "unproven" else "certified"
        )
        verdict = f"{'not ' if certified == 0 else ''}{verb}".capitalize()
        if certificate.confidence is not None:
            verdict += f" with confidence {certificate.confidence:g}"
        return {
            # The text is that of the answer.
            **{k: v for k, v in record(certificate, ks, names, None).items() if k != "text"},
            "threat": threat.title,
            "statement": widest.statement,
            "sentence": f"{verdict} {widest.condition}.",
            "headline": "" if certified == 0 else _promise(widest, verdict.lower()),
            "worst": [
                {
                    "k": format_changes(k),
                    "text": text,
                    "replaced": [list(pair) for pair in changes],
                    "reads": front_end(text) if front_end is not None else None,
                }
                for k, (text, changes) in worst
            ],
        }

    def _measure(self, records: Sequence[Record]) -> None:
        """Predict the worst texts from their raw strings; complete the sentences."""
        _, names = self.model.require_text()
        texts = [(worst, line["prediction"]) for line in records for worst in line["worst"]]
        with cuts_unsaid():
            logits = self.model.predict_texts([worst["text"] for worst, _ in texts]).double()
        for (worst, y), row in zip(texts, logits.tolist(), strict=True):
            worst["prediction"] = names[row.index(max(row))]
            worst["margin"] = row[y] - max(row[:y] + row[y + 1 :])
        for line in records:
            if ending := _ending(line):
                line["sentence"] += f" {ending}"


def _ending(line: Record) -> str:
    """Return the sentence about the text that changes the prediction; "" if there is none."""
    # `worst` may be for one change more than certified, a number that `holds` lacks.
    failing = (worst for worst in line["worst"] if not line["holds"].get(worst["k"]))
    if (worst := next(failing, None)) is not None:
        if not worst["replaced"]:
            return f"Without a change it has no margin over {line['witness_class']}."
        changed = worst["prediction"] != line["class"]
        effect = f"changes the prediction to {worst['prediction']}"
        tie = f"leaves no margin over {line['witness_class']}"
        return f"Changing {_name(worst['replaced'])} {effect if changed else tie}."
    if line["witness"] is not None:
        return f"“{line['witness']}” is {line['witness_class']}."
    return "No text is known that changes it." if line["certified"] == "0" else ""


def _promise(threat: Threat, verdict: str) -> str:
    """Return "No synonym of pwws changes this prediction: certified."; "" for other threats."""
    changes = [part.change for part in threat.sets] if isinstance(threat, Substitutions) else []
    kinds = [re.sub("^(a|one) (?!of )", "no ", change) for change in changes]
    if not kinds or not all(kind.startswith("no ") for kind in kinds):
        return ""
    words = "" if threat.k is None else f" in up to {threat.k} word{'s' * (threat.k != 1)}"
    return f"{' and '.join(kinds).capitalize()}{words} changes this prediction: {verdict}."


def _name(pairs: Sequence[Sequence[str]]) -> str:
    """Return changed words in a sentence."""
    named = [f"“{old}” to “{new}”" for old, new in pairs[:NAMED]]
    if len(pairs) > NAMED:
        named.append(f"{len(pairs) - NAMED} other words")
    return " and ".join(part for part in (", ".join(named[:-1]), named[-1]) if part)


def _specify(name: ThreatName, model: TaskModule, lists: str | None) -> str | None:
    """Return a threat as the command line names it; None if the model or the lists lack it."""
    if name == "synonyms" and lists is None:
        return None
    if name == "additions":
        names = (model.addition, None if model.addition != "append" else model.perturbation_sets)
        return ",".join(part for part in names if part) or None
    return model.perturbation_sets if name == "substitutions" else name
