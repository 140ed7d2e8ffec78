"""Threats: the sets of texts that certificates and attacks speak of.

A threat is a frozen dataclass. It says which texts a text may be changed into: `contains(original,
changed)`. A certificate proves that no text of this set has another prediction; an attack with
`attacks.constraints.InsideThreat` searches in the same set. Both hold the same object, so they
cannot differ in tokenisation, case, lists or the number of changes.

    threat = Synonyms.read("lists.json", k=2)          # or parse_threat("synonyms", ...)
    threat.contains("a good film", "a great film")     # True if `great` is listed for `good`

**A model offers a certificate** for a threat by two members of its class (`TaskModule` has both,
and offers none):

    threats: Sequence[ThreatName] = ("synonyms",)

    def text_certifier(self, threat: Threat) -> TextCertifier: ...

`threats` names what the class can certify; `text_certifier` measures whatever does not depend on a
text, and returns a `TextCertifier`: a callable from texts and numbers of changes to a
`TextCertificate` for each text. It raises ValueError where these weights or settings have none
(`TaskModule.no_certifier` makes the message, which names the methods that have one), and where
`threat.words` is not how the model splits texts. `certify --threat` asks no more than this.

A certifier certifies `threat.subject(text)`, the text that the threat is about: with lists for each
text and position this is the text of the list file. It is None where the lists have no such text;
the text is skipped then, and counted.

- `Synonyms`: words replaced by those of a list.
- `Characters`: characters inserted, deleted or replaced, in the string as it is given.
- `Words`: words inserted, deleted or replaced.
- `L2`: embedded tokens moved; no set of texts, and so without `contains`.
"""

from certify.threats.character_edits import Characters
from certify.threats.l2_ball import L2
from certify.threats.parsing import THREATS, parse_threat
from certify.threats.synonym_lists import Synonyms
from certify.threats.text_certificate import Kind, TextCertificate, TextCertifier
from certify.threats.threat import Threat, ThreatName
from certify.threats.word_edits import Words

__all__ = [
    "L2",
    "THREATS",
    "Characters",
    "Kind",
    "Synonyms",
    "TextCertificate",
    "TextCertifier",
    "Threat",
    "ThreatName",
    "Words",
    "parse_threat",
]
