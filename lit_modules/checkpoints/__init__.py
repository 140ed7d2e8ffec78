"""Checkpoints: sealed, checked and read."""
