"""Commands that measure; never collected by the test run."""
