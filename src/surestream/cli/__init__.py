"""The command line: ``surestream run MODULE:APP`` and what it is made of.

:func:`serve` is the same as a function, for a program that starts itself::

    if __name__ == "__main__":
        sys.exit(serve(app))
"""

from collections.abc import Sequence

from surestream.cli.serving import serve

__all__ = ["main", "serve"]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line with ``arguments`` (those of the process unless given).

    Returns the exit status, or raises ``SystemExit`` with it.
    """
    # Here and not above: whoever only wants serve() needs no terminal library.
    from surestream.cli.commands import surestream

    surestream.main(args=arguments, prog_name="surestream")
    return 0
