"""The classes of corpora that ask of two texts whether they mean the same."""

PARAPHRASES: tuple[tuple[str, ...], ...] = (
    ("different", "duplicate"),
    ("different", "paraphrase"),
    ("not_equivalent", "equivalent"),
)
"""As QQP, PAWS-QQP and MRPC call them; a model that is trained on one can be tested on another."""
