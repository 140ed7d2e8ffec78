"""Bounds of an ordinary Transformer by linear relaxation, after Shi et al., 2020."""

from certify.bound_propagation.word_balls import WordBalls, WordBallsCertifier, WordRadii

__all__ = ["WordBalls", "WordBallsCertifier", "WordRadii"]
