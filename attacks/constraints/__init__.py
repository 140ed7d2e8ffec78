"""Constraints: they judge the candidates of an attack."""

from attacks.constraints.edit_distance import EditDistance
from attacks.constraints.inside_threat import InsideThreat
from attacks.constraints.part_of_speech import PartOfSpeech
from attacks.constraints.word_distance import WordDistance
from attacks.constraints.word_similarity import WordSimilarity
from attacks.constraints.words_changed import WordsChanged
