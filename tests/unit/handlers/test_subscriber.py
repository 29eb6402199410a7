"""The decorator and the manual form: what becomes a subscriber, and what is refused."""

from __future__ import annotations

import functools
import inspect
from pathlib import Path
from typing import Any

import pytest

from surestream.errors import DeclarationTypeError, Site
from surestream.outcome import Outcome, ack
from surestream.subscriber import Subscriber, site_of, subscriber
from tests.unit.handlers.stand_ins import Shelf

HERE = str(Path(__file__).relative_to(Path.cwd()))


@subscriber(Shelf())
async def process_refund(refund: int, processor: str) -> Outcome:
    """Refund it."""
    return ack()


def line_of(text: str) -> int:
    lines = Path(__file__).read_text(encoding="utf-8").splitlines()
    return lines.index(text) + 1


class ProcessRefund:
    async def __call__(self, refund: int) -> Outcome:
        return ack()

    def handle(self, refund: int) -> Outcome:
        return ack()


async def plain(refund: int, factor: int = 1) -> Outcome:
    return ack()


async def test_called_by_hand_it_is_the_handler() -> None:
    assert await process_refund(1, "bank") == ack()
    assert process_refund.__name__ == "process_refund"
    assert process_refund.__doc__ == "Refund it."
    assert list(inspect.signature(process_refund).parameters) == ["refund", "processor"]


def test_it_holds_source_handler_and_where_the_handler_is_written() -> None:
    assert process_refund.source == Shelf()
    assert inspect.iscoroutinefunction(process_refund.handler)
    line = line_of("async def process_refund(refund: int, processor: str) -> Outcome:") - 1
    assert process_refund.site == Site("process_refund", HERE, line)
    assert repr(process_refund) == "<subscriber process_refund of Shelf(key='refunds')>"


@pytest.mark.parametrize(
    ("handler", "name", "text"),
    [
        (plain, "plain", "async def plain(refund: int, factor: int = 1) -> Outcome:"),
        (
            functools.partial(plain, factor=2),
            "plain",
            "async def plain(refund: int, factor: int = 1) -> Outcome:",
        ),
        (ProcessRefund(), "ProcessRefund", "    async def __call__(self, refund: int) -> Outcome:"),
        (
            ProcessRefund().handle,
            "ProcessRefund.handle",
            "    def handle(self, refund: int) -> Outcome:",
        ),
        (
            functools.partial(functools.partial(ProcessRefund())),
            "ProcessRefund",
            "    async def __call__(self, refund: int) -> Outcome:",
        ),
    ],
)
def test_every_callable_has_a_name_and_a_place(handler: Any, name: str, text: str) -> None:
    assert Subscriber(Shelf(), handler).site == Site(name, HERE, line_of(text))


def test_a_handler_inside_a_function_is_called_by_its_own_name() -> None:
    async def inner(refund: int) -> None: ...

    class Inner:
        async def __call__(self, refund: int) -> None: ...

    assert site_of(inner).handler == "inner"
    assert site_of(Inner()).handler == "Inner"


def test_a_wrapped_handler_is_where_it_is_written() -> None:
    @functools.wraps(plain)
    async def wrapper(*args: Any, **kwargs: Any) -> Any: ...

    assert site_of(wrapper) == site_of(plain)


def test_what_is_not_written_in_python_has_a_name_only() -> None:
    assert site_of(print) == Site("print", "<not Python>", 0)


def test_a_file_elsewhere_keeps_its_whole_path() -> None:
    assert Path(site_of(inspect.getfile).file).is_absolute()


def test_the_manual_form_takes_the_handler_of_a_subscriber() -> None:
    again = Subscriber(Shelf("refunds.priority"), process_refund)
    assert again.handler is process_refund.handler
    assert again.source == Shelf("refunds.priority")


def test_a_static_method_may_be_decorated_inside_its_class() -> None:
    class Handlers:
        @subscriber(Shelf())
        @staticmethod
        async def static(refund: int) -> None: ...

    assert inspect.iscoroutinefunction(Handlers.static.handler)
    assert Handlers.static.site.handler == "Handlers.static"


@pytest.mark.rule("7.1")
def test_a_second_decorator_is_refused() -> None:
    with pytest.raises(DeclarationTypeError) as caught:
        subscriber(Shelf("other"))(process_refund)
    assert str(caught.value).splitlines() == [
        "refused: a second @subscriber on process_refund",
        f"  where: {process_refund.site}",
        "  why:   it reads Shelf(key='refunds') already, and would read only one of them",
        "  write: Subscriber(Shelf(key='other'), process_refund), included beside it",
    ]


@pytest.mark.rule("7.1")
def test_a_decorator_without_a_source_is_refused() -> None:
    with pytest.raises(DeclarationTypeError) as caught:
        subscriber(plain)  # type: ignore[type-var]
    assert str(caught.value).splitlines() == [
        "refused: @subscriber on plain",
        f"  where: {site_of(plain)}",
        "  why:   it does not say what the handler reads",
        '  write: @subscriber(RedisStream("refunds", group="refunds"))',
    ]


@pytest.mark.rule("7.1")
@pytest.mark.parametrize(
    ("source", "why"),
    [
        ("refunds", "a name alone does not say which broker and structure it is"),
        (Shelf, "this is the class of a source: call it"),
        (None, "a subscriber reads a source"),
    ],
)
def test_what_is_no_source_is_refused(source: Any, why: str) -> None:
    with pytest.raises(DeclarationTypeError, match=why):
        subscriber(source)
    with pytest.raises(DeclarationTypeError, match=why) as caught:
        Subscriber(source, plain)
    assert str(site_of(plain)) in str(caught.value)


@pytest.mark.rule("7.1")
@pytest.mark.parametrize(
    ("handler", "why"),
    [
        (None, "a handler is called, and NoneType cannot be"),
        ("process_refund", "a handler is called, and str cannot be"),
        (ProcessRefund, r"it is a class.*(?s:.)*write: Subscriber\(source, ProcessRefund\(\)\)"),
        (classmethod(plain), "the method is not bound yet"),
    ],
)
def test_what_is_no_handler_is_refused(handler: Any, why: str) -> None:
    with pytest.raises(DeclarationTypeError, match=why):
        Subscriber(Shelf(), handler)
