"""Victims of text attacks, and how they are queried."""
