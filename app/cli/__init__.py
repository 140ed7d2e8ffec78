"""The command line: parser, entry point and errors."""
