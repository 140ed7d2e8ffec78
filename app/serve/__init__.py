"""The live page: trained models in a browser, and the same as a JSON API."""
