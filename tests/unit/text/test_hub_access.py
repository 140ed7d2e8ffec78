import socket

import pytest

from text import hub_reachable


@pytest.fixture(autouse=True)
def no_proxies(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)


def test_a_listening_endpoint_is_reachable(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        monkeypatch.setenv("HF_ENDPOINT", f"http://127.0.0.1:{port}")
        assert hub_reachable()
        # Through a proxy it is the proxy that must listen.
        monkeypatch.setenv("HF_ENDPOINT", "http://hub.invalid")
        assert not hub_reachable()
        monkeypatch.setenv("http_proxy", f"127.0.0.1:{port}")
        assert hub_reachable()
    monkeypatch.setenv("http_proxy", "")
    monkeypatch.setenv("HF_ENDPOINT", f"http://127.0.0.1:{port}")
    assert not hub_reachable()
