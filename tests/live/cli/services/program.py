"""A program that starts itself: no command line."""

from __future__ import annotations

import sys

from memory_service import app

from surestream.cli import serve

if __name__ == "__main__":
    status = serve(app, shutdown_timeout=5)
    print("modules:", *sorted({"click", "rich", "rich_click"} & set(sys.modules)))
    print("timeout:", app.shutdown_timeout)
    sys.exit(status)
