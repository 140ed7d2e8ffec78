"""The seed of the run."""

import os


def run_seed() -> int:
    """Return the seed that Lightning's `seed_everything` was given last, else 0."""
    return int(os.environ.get("PL_GLOBAL_SEED", "0"))
