"""Gives a replacement the case of the replaced word."""


def in_case_of(word: str, model: str) -> str:
    """Return a word in the case of another: lower, UPPER or Capitalised; else unchanged.

    A single capital ("I", "A") has no case.
    """
    if model.islower():
        return word.lower()
    # "I" and "A" may be ordinary words at the start of a sentence.
    if len(model) > 1:
        if model.isupper():
            return word.upper()
        if model[0].isupper() and model[1:].islower():
            return word.capitalize()
    return word
