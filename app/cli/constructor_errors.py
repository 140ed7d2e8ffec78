"""Errors of constructors, out of what jsonargparse wraps them in."""

_UNION = "Does not validate against any of the Union subtypes"
"""jsonargparse puts this and all settings around the error of a constructor, once per nesting."""


def unwrap_constructor_error(error: Exception) -> Exception:
    """Return the error that a constructor has raised; others as they are."""
    while isinstance(error.__cause__, Exception) and str(error).startswith(_UNION):
        error = error.__cause__
    return error
