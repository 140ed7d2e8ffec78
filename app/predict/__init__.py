"""Answers to texts of the command line, of a file or of standard input."""
