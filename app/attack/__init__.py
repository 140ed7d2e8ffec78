"""Attacks on the texts of a split: settings, records, figures and pages."""
