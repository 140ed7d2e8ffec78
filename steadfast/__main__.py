"""`python -m steadfast`, the same as the command `steadfast`."""

import sys

from steadfast import entry

if __name__ == "__main__":
    sys.exit(entry())
