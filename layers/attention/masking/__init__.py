"""Masks of attention units: learnt, drawn or given, and where they enter."""
