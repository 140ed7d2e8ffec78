"""The bounds of the live page: what one request, one client and all of them may take."""

from dataclasses import dataclass

from text import check_range


@dataclass(frozen=True, kw_only=True)
class ServeLimits:
    """The bounds of the server.

    Attributes:
        characters: of a text; of a pair for each of the two.
        body: bytes of a request.
        rate: requests to the API per minute and address; null for no bound.
        seconds: for an answer, and for a request to arrive.
        requests: that wait for one model; more are refused.
        words: that are deleted one by one for an explanation; the first ones of a text.
        attacks: that run at the same time.
        waiting_attacks: that wait for their turn; more are refused.
        attack_seconds: for an attack, its waiting included.
        queries: of one attack.
        connections: open at the same time; the oldest idle one makes way for a new one.
        connections_per_address: the same for the connections of one address.
        head_seconds: for an idle connection until the head of a request has arrived.
    """

    characters: int = 5_000
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
        """Raises ValueError for a number out of its range."""
        counted = ("characters", "body", "rate", "requests", "words", "attacks", "queries")
        check_range({name: getattr(self, name) for name in counted}, least=1)
        bounds = ("connections", "connections_per_address")
        check_range({name: getattr(self, name) for name in bounds}, least=2)
        check_range({"waiting_attacks": self.waiting_attacks}, least=0)
        for name in ("seconds", "attack_seconds", "head_seconds"):
            check_range({name: getattr(self, name)}, above=0)

    @property
    def response_seconds(self) -> float:
        """Seconds from the head of a request to the end of its response, of an attack included."""
        return 2 * self.seconds + self.attack_seconds
