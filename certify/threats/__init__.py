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

`threats` lists the threats of the class. `text_certifier` measures everything that does not depend
on a text, and returns a `TextCertifier`; it raises ValueError where these weights or settings have
no certificate, and where `threat.words` differs from the words of the model. `certify --threat`
needs no more than this.

A certifier certifies `threat.subject(text)`: with lists for each text and position this is the text
of the list file, or None where the file has no such text. Such texts are skipped and counted.

- `Replacements`: words replaced one by one. `ReadWords` lists what a model reads in their place;
  certifiers of all methods take these lists. Two threats are of this kind:
- `Synonyms`: words replaced by those of a list.
- `Substitutions`: words replaced by those of perturbation sets (`WordSet`): recipes, typos. For
  nothing but strings of one canonical form, `SameForm`, any model has a certificate.
- `Characters`: characters inserted, deleted or replaced, in the raw string.
- `WordEditDistance`: words inserted, deleted or replaced.
- `Additions`: text added to the text, whose words may be replaced as well.
- `L2`: embedded tokens moved; not a set of texts, and so without `contains`.
"""

from certify.threats.additions import ADDITIONS, AdditionKind, Additions
from certify.threats.chained_sets import ChainedSets
from certify.threats.character_edits import Characters
from certify.threats.l2_ball import L2
from certify.threats.parsing import THREATS, parse_threat
from certify.threats.replacements import ReadChoices, ReadWords, Replacements
from certify.threats.same_form import SameForm, SameFormCertifier, is_same_form
from certify.threats.stop_words import DeletedStopWords, InsertedStopWords
from certify.threats.substitutions import ListedWords, Substitutions, WordSet
from certify.threats.synonym_lists import Synonyms
from certify.threats.text_certificate import Kind, TextCertificate, TextCertifier, WorstText
from certify.threats.threat import Threat, ThreatName
from certify.threats.typos import Typos
from certify.threats.word_edits import WordEditDistance
