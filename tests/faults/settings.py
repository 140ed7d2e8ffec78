"""Small trainings in which everything matters that a resume could get wrong."""

QUIET = [
    "--trainer.accelerator=cpu",
    "--trainer.enable_progress_bar=false",
    "--trainer.enable_model_summary=false",
]
# Dropout, so that random numbers matter; momentum in the optimiser is AdamW's.
TRANSFORMER = [
    "--model=TextClassifier",
    "--model.width=16",
    "--model.heads=2",
    "--model.depth=1",
    "--model.dropout=0.3",
]
OLSA = ["--model=OLSA", "--model.width=8", "--model.heads=2", "--model.dropout=0.3"]
METHODS = {"TextClassifier": TRANSFORMER, "OLSA": OLSA}
# 13 batches an epoch: the last is smaller, and alone in its window when gradients are accumulated.
REVIEWS = ["--data=Reviews", "--data.limit_train=50"]
BATCHES = 13
SHORT = [
    *QUIET,
    "--trainer.limit_val_batches=2",
    "--trainer.limit_test_batches=1",
    "--trainer.log_every_n_steps=1",
]
TINY = [*TRANSFORMER, *REVIEWS, "--data.batch_size=4", *SHORT]
ATTACK = ["--pgd_steps=2"]
ALWAYS = "--checkpoint_every_n_minutes=0"
"""A checkpoint after each batch."""
