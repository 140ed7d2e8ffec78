"""Run directories: results, records, versions, and how a run is resumed."""
