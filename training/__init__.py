"""Training: trainer, callbacks, processes, and what joins a method with a corpus."""
