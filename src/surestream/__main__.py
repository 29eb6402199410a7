"""``python -m surestream``: the command line."""

import sys

from surestream.cli import main

if __name__ == "__main__":
    sys.exit(main())
