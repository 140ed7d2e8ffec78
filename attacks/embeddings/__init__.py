"""Attacks in the embedding space: PGD and FGSM."""
