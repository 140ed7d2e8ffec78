"""Tests if the Hugging Face hub can be reached.

Its client repeats every failed request for half a minute or more. A run without network should
instead read the local cache at once, and name the missing files.
"""

import os
import socket
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

from huggingface_hub import constants


def hub_reachable() -> bool:
    """Return True if the address to which requests to the hub go first accepts connections.

    Honours `HF_ENDPOINT`, `HF_HUB_OFFLINE` and the proxy variables; sends nothing, and waits three
    seconds at most.
    """
    if constants.HF_HUB_OFFLINE:
        return False
    target = urlsplit(os.environ.get("HF_ENDPOINT") or constants.ENDPOINT)
    # Behind a proxy, requests connect to the proxy first.
    proxy = getproxies().get(target.scheme)
    if proxy and not proxy_bypass(target.hostname or ""):
        target = urlsplit(proxy if "://" in proxy else f"http://{proxy}")
    port = target.port or (443 if target.scheme == "https" else 80)
    try:
        with socket.create_connection((target.hostname or "", port), timeout=3.0):
            return True
    except OSError:
        return False
