"""Bounds of networks with attention by linear relaxation, after Shi et al., 2020.

`WordBallsCertifier` moves words within balls; `RelaxedCertifier` replaces them by listed ones.
"""

from certify.bound_propagation.relaxed_certifier import RelaxedCertifier, RelaxedModel
from certify.bound_propagation.replaced_words import ReplacedWords
from certify.bound_propagation.word_balls import WordBalls, WordBallsCertifier, WordRadii
