"""Studies: grids of runs, their tables with intervals and tests, and comparisons of runs."""
