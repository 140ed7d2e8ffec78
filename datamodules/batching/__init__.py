"""Batches: encoding, order, and loaders that a resumed run repeats."""
