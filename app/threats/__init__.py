"""Certificates in words: the commands `certify --threat` and `certify export`."""
