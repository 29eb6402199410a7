"""The texts of ``--help``; at most 76 characters in a line that is not to be broken."""

from __future__ import annotations

from typing import Final

__all__ = ["ALL", "PUBLISH", "RUN", "VERSION"]

ALL: Final = """\
Typed asynchronous messaging: what fails is retried, delayed or dead-lettered, never lost.

To begin with:

\b
  [bold]surestream run service:app[/]                            start a service
  [bold]surestream run service:app --reload[/]                   while writing it
  [bold]surestream publish service:app refunds '{"id": 1}'[/]    give it a message

MODULE:APP is a module as Python imports it, looked for in the working directory first, and the \
name of the App in it. Each command has a [bold]--help[/] of its own.
"""

RUN: Final = """\
Run the service APP of MODULE until SIGINT or SIGTERM.

MODULE is a module as Python imports it, looked for in the working directory first. APP is the \
name of the App in it, or with --factory of a function that returns one.

Examples:

\b
  [bold]surestream run service:app[/]
  [bold]surestream run service:create_app --factory[/]
  [bold]surestream run examples.refunds.service:app --log-level debug[/]
  [bold]surestream run service:app --workers 4[/]    four processes, one group
  [bold]surestream run service:app --reload[/]       for development

The first signal stops gracefully: nothing new is taken, handlers under way finish, delays are \
handed over. A second one ends the process at once.

With --workers the first process starts alone, so that what is wrong is told once; then the \
others. One that ends is started again, after a growing pause where it lived for less than 10 s. \
Refused for what processes cannot share: a MemoryBroker, a consumer name of your own.

With --reload the old process stops gracefully before a new one starts. A file that cannot be \
imported is told, and the next change waited for. It needs: pip install 'surestream\\[reload]'

Exit status:

\b
  [bold]0[/]    stopped because it was asked to, also before it was up
  [bold]1[/]    a broker was not reached, the service failed, or a stop hung
  [bold]2[/]    wrong use: no app there, or a declaration was refused
  [bold]130[/]  a second SIGINT ended it at once (143: a second SIGTERM)
\b
  Of several workers the worst; 128 + n for one that signal n killed.
"""

PUBLISH: Final = """\
Publish one message to ADDRESS, on the broker of the service APP of MODULE.

JSON is checked and travels as it was typed; - reads it from standard input. No handler runs \
here, and no lifespan. Where what reads the address has another codec, that one writes it.

Examples:

\b
  [bold]surestream publish service:app refunds '{"id": 1, "card": "busy"}'[/]
  [bold]surestream publish service:app refunds - < refund.json[/]
  [bold]surestream publish service:app refunds '{}' -H tenant=acme -H trace=17[/]
  [bold]surestream publish service:app notes 'no JSON at all' --raw[/]

An address that nothing in the App reads may be another service's: it is published, with a \
warning where its name is nearly one of the App's. An App of several brokers needs --broker, \
unless only one of them has the address.

Exit status:

\b
  [bold]0[/]    the broker has confirmed it
  [bold]1[/]    a broker was not reached, refused it, or did not confirm it
  [bold]2[/]    wrong use: no app there, no JSON, no address to publish to
  [bold]130[/]  interrupted
"""

VERSION: Final = """\
Show the version.
"""
