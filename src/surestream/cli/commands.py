"""The commands, their options and their help."""

from __future__ import annotations

import sys
from typing import Final

import click
from rich_click import RichGroup, RichHelpConfiguration

import surestream as package
from surestream.cli.importing import close_to
from surestream.cli.logs import LEVELS
from surestream.cli.running import run_target

__all__ = ["surestream"]

HELP: Final = RichHelpConfiguration(text_markup="rich", show_arguments=False, max_width=100)

RUN_HELP: Final = """\
Run the service APP of MODULE until SIGINT or SIGTERM.

MODULE is a module as Python imports it, looked for in the working directory first. APP is the \
name of the App in it, or with --factory of a function that returns one.

Examples:

\b
  [bold]surestream run service:app[/]
  [bold]surestream run examples.refunds.service:app --log-level debug[/]
  [bold]surestream run service:create_app --factory[/]

The first signal stops gracefully: nothing new is taken, handlers under way finish, delays are \
handed over. A second one ends the process at once.

Exit status:

\b
  [bold]0[/]    stopped because it was asked to, also before it was up
  [bold]1[/]    a broker could not be reached, or the service failed
  [bold]2[/]    wrong use: no app there, or a declaration was refused
  [bold]130[/]  a second SIGINT ended it at once (143: a second SIGTERM)
"""


def _level(context: click.Context, option: click.Parameter, value: str | None) -> str | None:
    """The name of a log level, in any case."""
    level = None if value is None else value.lower()
    if level is None or level in LEVELS:
        return level
    near = close_to(level, LEVELS)
    hint = f" Did you mean {near!r}?" if near else ""
    raise click.BadParameter(f"{value!r} is no level; levels are {', '.join(LEVELS)}.{hint}")


@click.group(
    cls=RichGroup,
    context_settings={"help_option_names": ["-h", "--help"], "rich_help_config": HELP},
)
@click.version_option(package.__version__, "--version", message="surestream %(version)s")
def surestream() -> None:
    """Typed asynchronous messaging: what fails is retried, delayed or dead-lettered, never lost."""


@surestream.command(help=RUN_HELP)
@click.argument("target", metavar="MODULE:APP")
@click.option("--factory", is_flag=True, help="APP is a function that returns the App.")
@click.option(
    "--log-level",
    callback=_level,
    metavar="LEVEL",
    help=f"From which level on to log: {', '.join(LEVELS)} (info unless given).",
)
@click.option(
    "--shutdown-timeout",
    type=float,
    metavar="SECONDS",
    help="How long a graceful stop may take, instead of the App's own shutdown_timeout.",
)
def run(target: str, factory: bool, log_level: str | None, shutdown_timeout: float | None) -> None:
    """Run a service."""
    sys.exit(
        run_target(target, factory=factory, log_level=log_level, shutdown_timeout=shutdown_timeout)
    )


@surestream.command()
def version() -> None:
    """Show the version."""
    click.echo(f"surestream {package.__version__}")
