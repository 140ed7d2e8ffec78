"""Checks of adversarial texts: which of them still mean, for people, what the original meant."""
