"""Tests of `attacks.digests`."""

import hashlib

import pytest

from attacks.digests import LENGTH, digest


@pytest.mark.parametrize("sizes", [(), (0, 0), (3, 65_536, 2), (200_000,), (40_000,) * 5])
def test_digest_frames_each_content_by_its_length(sizes: tuple[int, ...]) -> None:
    parts = [bytes([i]) * size for i, size in enumerate(sizes)]
    framed = b"".join(b"%d %b" % (len(part), part) for part in parts)
    assert digest(parts) == hashlib.sha256(framed).hexdigest()[:LENGTH]


def test_digest_of_texts_keeps_them_apart() -> None:
    assert digest(["ab", "c"]) != digest(["a", "bc"])
    assert digest(["ä\ud800"]) == digest(["ä\ud800".encode("utf-8", "surrogatepass")])
