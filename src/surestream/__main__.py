"""``python -m surestream``: the command line."""

import sys

from surestream.cli import main

sys.exit(main())
