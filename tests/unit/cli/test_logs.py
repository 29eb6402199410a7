"""The lines that ``surestream run`` logs."""

from __future__ import annotations

import contextlib
import io
import logging
import re
from collections.abc import Iterator

import pytest

from surestream.cli.logs import LineFormatter, set_up_logging, wants_color

STAMP = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}[+-]\d\d:\d\d"


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@contextlib.contextmanager
def fresh_root() -> Iterator[logging.Logger]:
    """The root logger as in a fresh process. No fixture: pytest adds its own handlers later."""
    root = logging.getLogger()
    ours = logging.getLogger("surestream")
    before = root.handlers[:], root.level, ours.level
    root.handlers[:] = []
    try:
        yield root
    finally:
        root.handlers[:] = before[0]
        root.setLevel(before[1])
        ours.setLevel(before[2])


def record(message: str, *parts: object, level: int = logging.INFO) -> logging.LogRecord:
    return logging.LogRecord("surestream", level, "file.py", 1, message, parts, None)


def failed(error: Exception) -> logging.LogRecord:
    try:
        raise error
    except Exception as raised:
        made = record("it failed", level=logging.ERROR)
        made.exc_info = (type(raised), raised, raised.__traceback__)
        return made


class TestLine:
    def test_is_time_level_logger_and_message(self) -> None:
        line = LineFormatter().format(record("refund %s is done", 17))

        assert re.fullmatch(rf"{STAMP} INFO     surestream: refund 17 is done", line)

    @pytest.mark.case("SE-03")
    def test_stays_one_line_whatever_the_message_says(self) -> None:
        line = LineFormatter().format(record("%s", "a\n2026-01-01 CRITICAL x\x1b[2J"))

        assert line.endswith(r"surestream: a\n2026-01-01 CRITICAL x\x1b[2J")
        assert line.isprintable()

    @pytest.mark.case("SE-03")
    def test_is_cut_when_it_is_too_long(self) -> None:
        line = LineFormatter().format(record("%s", "x" * 1_000_000))

        assert line.endswith("xxx… (1,000,000 characters)")
        assert len(line) < 8_100

    @pytest.mark.case("SE-02")
    def test_leaves_the_credentials_of_urls_out(self) -> None:
        line = LineFormatter().format(record("lost %s", "redis://user:pa%2Fss@host/0"))

        assert line.endswith("lost redis://…@host/0")

    def test_has_colors_only_when_told(self) -> None:
        plain = LineFormatter().format(record("hello"))
        colored = LineFormatter(color=True).format(record("hello", level=logging.ERROR))

        assert "\x1b" not in plain
        assert "\x1b[31mERROR" in colored
        assert colored.endswith(": hello")


class TestTraceback:
    def test_follows_its_line_indented(self) -> None:
        first, *others = LineFormatter().format(failed(ValueError("bad"))).split("\n")

        assert first.endswith("ERROR    surestream: it failed")
        assert others[0] == "    Traceback (most recent call last):"
        assert others[-1] == "    ValueError: bad"
        assert all(line.startswith("    ") for line in others)

    @pytest.mark.case("SE-03")
    def test_cannot_pass_for_a_record(self) -> None:
        forged = ValueError("\n2026-01-01T00:00:00.000+00:00 CRITICAL root: \x1b[31mforged")

        lines = LineFormatter().format(failed(forged)).split("\n")

        assert all(line.startswith("    ") for line in lines[1:])
        assert all(line.isprintable() for line in lines)

    @pytest.mark.case("SE-02")
    def test_leaves_the_credentials_of_urls_out(self) -> None:
        text = LineFormatter().format(failed(ValueError("redis://user:pa%2Fss@host refused")))

        assert "ValueError: redis://…@host refused" in text
        assert "pa%2Fss" not in text

    @pytest.mark.case("SE-03")
    def test_is_cut_when_it_is_too_long(self) -> None:
        lines = LineFormatter().format(failed(ValueError("x\n" * 5_000))).split("\n")

        assert len(lines) == 202
        assert re.fullmatch(r"    … 4,?\d+ lines left out", lines[1])

    def test_of_another_formatter_and_a_stack_are_kept(self) -> None:
        made = record("x")
        made.exc_text = "Traceback: earlier"
        made.stack_info = "Stack: here"

        assert LineFormatter().format(made).split("\n")[1:] == [
            "    Traceback: earlier",
            "    Stack: here",
        ]


class TestSetUp:
    def test_writes_what_has_the_level(self) -> None:
        stream = io.StringIO()

        with fresh_root():
            set_up_logging("warning", stream)
            logging.getLogger("surestream.dispatch").info("quiet")
            logging.getLogger("users.own").warning("loud")

        assert [line[30:] for line in stream.getvalue().splitlines()] == [
            "WARNING  users.own: loud"
        ]

    def test_is_at_info_unless_told(self) -> None:
        with fresh_root() as root:
            set_up_logging(None, io.StringIO())

            assert root.level == logging.INFO

    def test_leaves_what_the_users_program_has_set_up(self) -> None:
        own = logging.NullHandler()
        with fresh_root() as root:
            root.addHandler(own)
            root.setLevel(logging.ERROR)

            set_up_logging(None, io.StringIO())

            assert root.handlers == [own]
            assert root.level == logging.ERROR
            assert logging.getLogger("surestream").level == logging.NOTSET

    def test_level_that_was_asked_for_then_holds_for_ours(self) -> None:
        with fresh_root() as root:
            root.addHandler(logging.NullHandler())

            set_up_logging("debug", io.StringIO())

            assert logging.getLogger("surestream").level == logging.DEBUG


class TestColors:
    def test_are_for_terminals(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.delenv("NO_COLOR", raising=False)
        monkeypatch.setenv("TERM", "xterm")

        assert wants_color(Terminal())
        assert not wants_color(io.StringIO())

    @pytest.mark.parametrize(("name", "value"), [("NO_COLOR", "1"), ("TERM", "dumb")])
    def test_can_be_declined(self, name: str, value: str, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv(name, value)

        assert not wants_color(Terminal())
