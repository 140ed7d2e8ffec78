"""`python -m app`, the same as the installed `steadfast`."""

import sys

from app.main import entry

if __name__ == "__main__":
    sys.exit(entry())
