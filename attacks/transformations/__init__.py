"""Transformations: vector neighbours, synonyms, words of a language model, misspellings."""

from attacks.transformations.benign_texts import AddWord, Surround
from attacks.transformations.characters import (
    DeleteCharacter,
    Homoglyphs,
    InsertCharacter,
    InsertSpace,
    SubstituteCharacter,
    SwapCharacters,
)
from attacks.transformations.composite import Actions, Composite, Stages
from attacks.transformations.deletion import DeleteWord
from attacks.transformations.inflections import Inflect
from attacks.transformations.invariant import Contract, Expand, OtherName, OtherNumber, OtherPlace
from attacks.transformations.keys import NeighbourKey
from attacks.transformations.near_words import EmbeddingSwap
from attacks.transformations.noise import RandomNoise
from attacks.transformations.single_edits import SingleEdits
from attacks.transformations.synonyms import WordNetSwap
from attacks.transformations.unseen import InsertInvisible, Reorder, SwapTwins, TypeAndDelete
from attacks.transformations.witnesses import Witnesses
from attacks.transformations.word_swap import NoReplacements
