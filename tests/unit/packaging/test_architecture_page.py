"""The page of the encoders is made from the table that the tests run."""

from docs import architectures


def test_the_page_is_the_table() -> None:
    written = architectures.PAGE.read_text(encoding="utf-8")
    assert written == architectures.render(), "run python -m docs.architectures"


def test_no_encoder_is_there_twice() -> None:
    kinds = [entry.kind for entry in architectures.ARCHITECTURES]
    assert len(set(kinds)) == len(kinds)
    assert {kind for _, kind in architectures.REFUSED} <= set(kinds)
