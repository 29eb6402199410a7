"""The commands, their options and their help."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Final, NoReturn

import click
from rich_click import RichGroup, RichHelpConfiguration

import surestream as package
from surestream.cli import help as texts
from surestream.cli.levels import LEVELS
from surestream.cli.suggestions import close_to

__all__ = ["surestream"]

HELP: Final = RichHelpConfiguration(text_markup="rich", show_arguments=False, max_width=100)
MEANT: Final = {
    "start": "run",
    "serve": "run",
    "worker": "run",
    "dev": "run --reload",
    "send": "publish",
    "pub": "publish",
    "emit": "publish",
    "help": "--help",
}
"""What other tools call it."""


class Commands(RichGroup):
    """The group; for what is no command it says what was meant."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        name = args[0]
        if self.get_command(ctx, name) is None and not name.startswith("-"):
            raise click.UsageError(f"There is no command {name!r}.{self._hint(args)}", ctx)
        return super().resolve_command(ctx, args)

    def _hint(self, args: list[str]) -> str:
        name = args[0]
        meant = MEANT.get(name.lower()) or close_to(name.lower(), self.commands)
        if meant is None and ":" in name:
            # The target first: `surestream service:app run`.
            command = args[1] if len(args) > 1 and args[1] in self.commands else "run"
            meant = f"{command} {name}"
        if meant is None:
            return f" Commands are {', '.join(self.commands)}."
        return f" Did you mean `surestream {meant}`?"


def _level(context: click.Context, option: click.Parameter, value: str | None) -> str | None:
    """The name of a log level, in any case."""
    level = None if value is None else value.lower()
    if level is None or level in LEVELS:
        return level
    near = close_to(level, LEVELS)
    hint = f" Did you mean {near!r}?" if near else ""
    raise click.BadParameter(f"{value!r} is no level; levels are {', '.join(LEVELS)}.{hint}")


@click.group(
    cls=Commands,
    help=texts.ALL,
    context_settings={"help_option_names": ["-h", "--help"], "rich_help_config": HELP},
)
@click.version_option(package.__version__, "--version", message="surestream %(version)s")
def surestream() -> None:
    """What there is to do."""


@surestream.command(help=texts.RUN, short_help="Run a service until it is told to stop.")
@click.argument("target", metavar="MODULE:APP")
@click.option("--factory", is_flag=True, help="APP is a function that returns the App.")
@click.option(
    "--workers",
    type=click.IntRange(min=1),
    default=1,
    metavar="N",
    help="Processes that share the work; one that dies is started again (1 unless given).",
)
@click.option(
    "--reload",
    is_flag=True,
    help="Start anew when a Python file below the working directory changes.",
)
@click.option(
    "--reload-dir",
    "folders",
    type=click.Path(path_type=Path),
    multiple=True,
    metavar="DIR",
    help="Look for changes below DIR instead; may be repeated, implies --reload.",
)
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
def run(
    target: str,
    factory: bool,
    workers: int,
    reload: bool,
    folders: tuple[Path, ...],
    log_level: str | None,
    shutdown_timeout: float | None,
) -> NoReturn:
    """Run a service."""
    # Here and not above: whoever only wants help need not wait for it.
    from surestream.cli.launch import Launch

    launch = Launch(
        target=target,
        factory=factory,
        log_level=log_level,
        shutdown_timeout=shutdown_timeout,
        workers=workers,
    )
    if reload or folders:
        if workers > 1:
            raise click.UsageError(
                "--reload is for one process, and --workers for several: leave one of them out."
            )
        from surestream.cli.supervising import run_reloading

        sys.exit(run_reloading(launch, folders or (Path.cwd(),)))
    if workers > 1:
        from surestream.cli.supervising import run_workers

        sys.exit(run_workers(launch))
    from surestream.cli.running import run_service

    sys.exit(run_service(launch))


@surestream.command(help=texts.PUBLISH, short_help="Publish one message on the app's broker.")
@click.argument("target", metavar="MODULE:APP")
@click.argument("address")
@click.argument("text", metavar="JSON")
@click.option(
    "-H", "--header", "headers", multiple=True, metavar="NAME=VALUE", help="May be repeated."
)
@click.option(
    "--broker",
    metavar="N",
    help="Which broker of the App: its number, or a part of its name or URL.",
)
@click.option("--factory", is_flag=True, help="APP is a function that returns the App.")
@click.option("--raw", is_flag=True, help="Publish the text as it is, JSON or not.")
@click.option(
    "--timeout",
    type=float,
    default=10.0,
    metavar="SECONDS",
    help="How long to wait for the broker (10 unless given).",
)
def publish(
    target: str,
    address: str,
    text: str,
    headers: tuple[str, ...],
    broker: str | None,
    factory: bool,
    raw: bool,
    timeout: float,
) -> NoReturn:
    """Publish one message."""
    from surestream.cli.publishing import Letter, publish_once

    letter = Letter(
        target=target,
        address=address,
        text=text,
        headers=headers,
        broker=broker,
        factory=factory,
        raw=raw,
        timeout=timeout,
    )
    sys.exit(publish_once(letter))


@surestream.command(help=texts.VERSION)
def version() -> None:
    """Show the version."""
    click.echo(f"surestream {package.__version__}")
