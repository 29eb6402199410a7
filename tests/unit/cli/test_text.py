"""Text of others in one line of ours."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from surestream.cli.text import joined, one_line, without_secrets


@pytest.mark.case("SE-03")
class TestOneLine:
    def test_what_can_be_printed_stays(self) -> None:
        assert one_line("refund 17 → 5 €, „später“ 🙂") == "refund 17 → 5 €, „später“ 🙂"

    @pytest.mark.parametrize(
        ("text", "shown"),
        [
            ("a\nb\r\nc", r"a\nb\r\nc"),
            ("\x1b[31mred", r"\x1b[31mred"),
            ("tab\there\x00", r"tab\there\x00"),
            ("\x85\u2028\u2029", r"\x85\u2028\u2029"),
            ("abc\u202edcba", r"abc\u202edcba"),
            ("half \ud83d", r"half \ud83d"),
            ("\U000e0001", r"\U000e0001"),
        ],
    )
    def test_what_cannot_is_escaped(self, text: str, shown: str) -> None:
        assert one_line(text) == shown

    @given(st.text())
    def test_the_result_is_always_one_printable_line(self, text: str) -> None:
        assert one_line(text).isprintable()


@pytest.mark.case("SE-02")
class TestWithoutSecrets:
    @pytest.mark.parametrize(
        ("text", "shown"),
        [
            ("at redis://user:pa%2Fss@host:1/0 now", "at redis://…@host:1/0 now"),
            ("nats://token@host", "nats://…@host"),
            ("redis://u:p@ss@host", "redis://…@host"),
            ("'mqtts://u:p@a' and \"redis://:p@b\"", "'mqtts://…@a' and \"redis://…@b\""),
        ],
    )
    def test_credentials_of_urls_are_left_out(self, text: str, shown: str) -> None:
        assert without_secrets(text) == shown

    @pytest.mark.parametrize(
        "text",
        [
            "redis://host:6379/0",
            "https://host/path?to=a@b.example",
            "mail a@b.example",
            "unix:///run/redis.sock and a@b",
        ],
    )
    def test_other_text_stays(self, text: str) -> None:
        assert without_secrets(text) == text


def test_names_are_joined_as_a_person_would() -> None:
    assert joined([]) == ""
    assert joined(["a"]) == "a"
    assert joined(["a", "b", "c"]) == "a, b or c"
    assert joined(["a", "b"], "and") == "a and b"
