"""The page of a run: what is known about a model, what attacks it, and what was not measured."""
