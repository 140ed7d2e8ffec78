"""The case of a word, given to the one that replaces it."""


def in_case_of(word: str, model: str) -> str:
    """A word in the case of another: lower, UPPER or Capitalised; as it is beside any other.

    A single capital ("I", "A") says nothing about case.
    """
    if model.islower():
        return word.lower()
    if len(model) > 1:
        if model.isupper():
            return word.upper()
        if model[0].isupper() and model[1:].islower():
            return word.capitalize()
    return word
