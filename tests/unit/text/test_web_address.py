"""Addresses are written down without their secrets."""

import pytest

from text.web_address import hide, redact, secrets

KEY = "s3cr3t-k3y/A+B"
ADDRESSES = [
    f"https://host/path?api_key={KEY}",
    f"https://host/path?version=2&token={KEY}&x=",
    f"https://host/path?{KEY}",
    f"https://host/path?a=1;Sig={KEY}#top",
    f"https://host/path#access_token={KEY}",
    "https://user:s3cr3t-k3y@host:8080/@cf/path",
    f"http:https://host?code={KEY}",
]


@pytest.mark.parametrize("address", ADDRESSES)
def test_no_secret_is_left(address: str) -> None:
    written = redact(address)
    assert "s3cr3t" not in written
    assert "host" in written
    assert redact(address) == written
    other = address.replace("s3cr3t", "0th3rs")
    assert redact(other) != written
    assert any("s3cr3t-k3y" in secret for secret in secrets(address))


def test_what_is_no_secret_stays() -> None:
    for address in ("https://host/a@b/path", "http:https://host?model=m&api-version=1", "hf:x/y"):
        assert redact(address) == address
        assert secrets(address) == set()
    assert redact("https://host?version=2&key=k").startswith("https://host?version=2&key=***")
    assert secrets("https://host?key=a%2Fb") == {"a%2Fb", "a/b"}


def test_secrets_are_hidden_in_part_as_well() -> None:
    hidden = hide("the key abcdefghij, abcdefgh... and abcde: denied", {"abcdefghij"})
    assert hidden == "the key ***, ***... and abcde: denied"
    assert hide("key abcd!", {"abcd"}) == "key ***!"
    assert hide("1 of 1", {"1"}) == "1 of 1"
