"""The pytest plugin: the ``surestream`` fixture, ``--surestream-live``, time lines of failures.

pytest loads it in every project that has SureStream installed, so what a fixture needs is
imported when one is asked for. pytest-asyncio and anyio know different kinds of async fixture;
this one is a plain one, and what it gives is entered by the test.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Generator
from contextlib import AbstractAsyncContextManager, ExitStack, asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Protocol

import pytest

from surestream.declaration import UNSET, Unset

if TYPE_CHECKING:
    from surestream.app import App
    from surestream.testing.addresses import Live
    from surestream.testing.app import TestApp
    from surestream.testing.redis_servers import RedisServers

__all__ = ["OPTION", "SECTION", "Surestream", "surestream"]

OPTION: Final = "--surestream-live"
SECTION: Final = "surestream time line"


class Surestream(Protocol):
    """What the fixture gives: ``async with surestream(app, state=…) as tb``, parameters as those
    of :class:`~surestream.testing.TestApp`."""

    def __call__(
        self,
        app: App,
        *,
        state: object | Unset = UNSET,
        live: Live = False,
        patience: float | None = None,
    ) -> AbstractAsyncContextManager[TestApp]: ...


@dataclass
class _Shown:
    """A ``TestApp`` of a test, and whether a failure shows its time line already."""

    tb: TestApp
    told: bool = False
    stories: set[str] = field(default_factory=set[str])

    def story(self) -> str:
        """Its time line, as an assertion of the ``TestApp`` shows it."""
        from surestream.testing.asking import SHOWN
        from surestream.testing.timeline import timeline

        story = timeline(self.tb.events(), last=SHOWN)
        self.stories.add(story)
        return story

    def look(self, error: BaseException) -> None:
        """Note whether ``error`` or a note of it shows the time line, of now or of before."""
        self.story()
        text = "\n".join([str(error), *getattr(error, "__notes__", ())])
        self.told = self.told or any(story in text for story in self.stories)


_SHOWN: Final = pytest.StashKey[list[_Shown]]()
_SERVERS: Final[pytest.StashKey[RedisServers]] = pytest.StashKey()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option."""
    parser.getgroup("surestream").addoption(
        OPTION,
        action="store_true",
        dest="surestream_live",
        help="run the tests that use the surestream fixture on Redis servers started for them",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Find the server before the first test. Raises ``UsageError`` where there is none."""
    if not config.getoption("surestream_live"):
        return
    from surestream.errors import MissingExtra

    try:
        from surestream.testing.redis_servers import RedisServers, ServerMissing
    except MissingExtra as missing:
        raise pytest.UsageError(f"{OPTION}: {missing}") from None
    try:
        config.stash[_SERVERS] = RedisServers()
    except ServerMissing as missing:
        raise pytest.UsageError(f"{OPTION}: {missing}") from None


def pytest_unconfigure(config: pytest.Config) -> None:
    """End the servers."""
    servers = config.stash.get(_SERVERS, None)
    if servers is not None:
        servers.close()


@pytest.fixture
def surestream(request: pytest.FixtureRequest) -> Surestream:
    """Run an app in the test: ``async with surestream(app, state=…) as tb``.

    ``tb`` is a ``TestApp``: in process under a paused clock, or with ``--surestream-live`` on
    empty Redis servers that the plugin starts. A test that fails shows its time line. For
    pytest-asyncio (either mode) and for anyio on asyncio.
    """
    from surestream.testing.app import TestApp

    servers = request.config.stash.get(_SERVERS, None)
    item: pytest.Item = request.node
    shown_here = item.stash.setdefault(_SHOWN, [])

    @asynccontextmanager
    async def run(
        app: App,
        *,
        state: object | Unset = UNSET,
        live: Live = False,
        patience: float | None = None,
    ) -> AsyncGenerator[TestApp]:
        with ExitStack() as leases:
            if servers is not None and live is not True:
                live = servers.lease(app, live or {}, leases)
            tb = TestApp(app, state=state, live=live, patience=patience)
            shown = _Shown(tb)
            shown_here.append(shown)
            try:
                async with tb:
                    try:
                        yield tb
                    except BaseException:
                        # What is added to the error is the story of now, before the stop.
                        shown.story()
                        raise
            except BaseException as error:
                shown.look(error)
                raise

    return run


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Add the time lines that a failure does not show yet."""
    report = yield
    if report.failed and call.excinfo is not None:
        for shown in item.stash.get(_SHOWN, None) or ():
            shown.look(call.excinfo.value)
            if not shown.told:
                shown.told = True
                report.sections.append((SECTION, shown.story()))
    return report
