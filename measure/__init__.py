"""Measurements of trained models: tests, certificates, attacks, diagnoses; one file for each."""
