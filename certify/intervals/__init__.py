"""Certificates by intervals: the hull of all candidates of a word contains each of them."""

from certify.intervals.hull_certifier import HullCertifier, HullModel
