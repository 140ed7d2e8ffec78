"""The reason that an exception gives, as part of a message of one line."""


def describe_error(error: BaseException) -> str:
    """Return the message of an exception in one line; its kind if it has no message."""
    return " ".join(str(error).split()) or type(error).__name__
