"""Attention maps of a trained model, with and without its adversary."""
