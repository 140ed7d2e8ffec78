"""Transformations: vector neighbours, synonyms, words of a language model, misspellings."""

from attacks.transformations.characters import (
    DeleteCharacter,
    Homoglyphs,
    InsertCharacter,
    InsertSpace,
    SubstituteCharacter,
    SwapCharacters,
)
from attacks.transformations.composite import Composite
from attacks.transformations.near_words import EmbeddingSwap
from attacks.transformations.synonyms import WordNetSwap

__all__ = [
    "Composite",
    "DeleteCharacter",
    "EmbeddingSwap",
    "Homoglyphs",
    "InsertCharacter",
    "InsertSpace",
    "SubstituteCharacter",
    "SwapCharacters",
    "WordNetSwap",
]
