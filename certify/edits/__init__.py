"""Certificates by how far an edit of a character can move the logits."""

from certify.edits.levenshtein_certifier import EDIT_BOUNDS, EditBound, LevenshteinCertifier
