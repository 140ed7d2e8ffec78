"""The application: command line, trainer, run directory and reports."""
