"""Masks of attention units, learnt or drawn, and attention that applies them."""
