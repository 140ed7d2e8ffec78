"""The base of errors that list several problems; importing it costs nothing."""


class MultiLineError(ValueError):
    """An error whose message has one line for each problem."""

    def lines(self) -> str:
        """Return the message for a terminal, without surplus white space in its lines."""
        return "\n".join(" ".join(line.split()) for line in str(self).splitlines())
