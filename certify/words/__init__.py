"""Certificates in words, for classifiers that add up scores of words and n-grams.

docs/certificates/words_proof.md proves these bounds.
"""
