"""The bounds of the live page, for one request, one client and all of them."""

from dataclasses import dataclass

from text import check_range


@dataclass(frozen=True, kw_only=True)
class ServeLimits:
    """The bounds of the server."""

    characters: int = 5_000  # of a text; of a pair for each of the two
    texts: int = 32  # of a request; each counts for `rate`, which therefore bounds them, too
    # Bytes of a request: enough for a pair of such texts with each character as \uXXXX.
    body: int = 1 << 16
    rate: int | None = 600  # requests to the API per minute and address; None: no bound
    seconds: float = 30.0  # for a prediction, and for a request to arrive
    requests: int = 256  # that wait for one model; more are refused
    words: int = 200  # that are deleted for an explanation; the first ones of a text
    attacks: int = 2  # that run at the same time
    waiting_attacks: int = 8  # more are refused
    attack_seconds: float = 120.0  # for an attack, its waiting included
    queries: int = 2_000  # of one attack
    connections: int = 512  # open at the same time; a new one closes the oldest idle one
    connections_per_address: int = 256
    head_seconds: float = 15.0  # for an idle connection until the head of a request has arrived

    def __post_init__(self) -> None:
        """Raise ValueError for a number out of its range."""
        counts = ("characters", "texts", "body", "rate", "requests", "words", "attacks", "queries")
        # 2: one connection may be busy for long, another has to be free.
        bounds = ("connections", "connections_per_address")
        for least, names in ((1, counts), (2, bounds), (0, ("waiting_attacks",))):
            check_range({name: getattr(self, name) for name in names}, least=least)
        seconds = ("seconds", "attack_seconds", "head_seconds")
        check_range({name: getattr(self, name) for name in seconds}, above=0)
        # More would be refused however long a client waits.
        object.__setattr__(self, "texts", min(self.texts, self.rate or self.texts))

    @property
    def response_seconds(self) -> float:
        """Seconds from the head of a request to the end of its response, also of an attack."""
        return 2 * self.seconds + self.attack_seconds
