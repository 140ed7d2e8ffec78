"""The page of a run: its figures, its certificates against attacks, and missing measurements."""
