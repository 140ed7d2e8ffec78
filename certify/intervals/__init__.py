"""Certificates by intervals: every candidate of a word lies in the hull of all of them."""

from certify.intervals.hull_certifier import HullCertifier, HullModel

__all__ = ["HullCertifier", "HullModel"]
