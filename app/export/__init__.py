"""Trained models as folders for others."""
