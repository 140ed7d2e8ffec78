"""Attacks: perturbations of embeddings now; attacks on text come with their own engine."""

from attacks.pgd import PGD

__all__ = ["PGD"]
