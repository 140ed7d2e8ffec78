"""`python -m app`, the same as the installed `steadfast`."""

import sys

from app.cli.main import entry

if __name__ == "__main__":
    sys.exit(entry())
