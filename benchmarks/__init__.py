"""Commands that measure; never collected by the test run."""

import app  # noqa: F401 (before torch is loaded: how OpenMP waits)
