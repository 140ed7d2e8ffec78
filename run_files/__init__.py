"""The files of a run: directory, ledger, records, results."""
