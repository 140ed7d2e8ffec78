"""The trainer, its callbacks, and what a stage of a run does."""
