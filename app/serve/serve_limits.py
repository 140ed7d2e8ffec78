"""The bounds of the live page, for one request, one client and all of them."""

from dataclasses import dataclass

from text import check_range


@dataclass(frozen=True, kw_only=True)
class ServeLimits:
    """The bounds of the server.

    Attributes:
        characters: of a text; of a pair for each of the two.
        texts: of a request; each counts for `rate`, which therefore bounds them, too.
        body: bytes of a request.
        rate: requests to the API per minute and address; null: no bound.
        seconds: for a prediction, and for a request to arrive.
        requests: requests that wait for one model; more are refused.
        words: words that are deleted for an explanation; the first ones of a text.
        attacks: attacks that run at the same time.
        waiting_attacks: attacks that wait for their turn; more are refused.
        attack_seconds: for an attack, its waiting included.
        queries: of one attack.
        connections: open at the same time; a new one closes the oldest idle one.
        connections_per_address: the same for the connections of one address.
        head_seconds: for an idle connection until the head of a request has arrived.
    """

    characters: int = 5_000
    texts: int = 32
    # Enough for a pair of such texts with each character as \uXXXX.
    body: int = 1 << 16
    rate: int | None = 600
    seconds: float = 30.0
    requests: int = 256
    words: int = 200
    attacks: int = 2
    waiting_attacks: int = 8
    attack_seconds: float = 120.0
    queries: int = 2_000
    connections: int = 512
    connections_per_address: int = 256
    head_seconds: float = 15.0

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
