"""Where a server is, and what is never shown of it."""

from __future__ import annotations

import pickle
import ssl
import traceback

import pytest

from surestream.errors import DeclarationError
from surestream.redis.address import RedisAddress


@pytest.mark.parametrize(
    ("url", "host", "port", "database", "display"),
    [
        ("redis://localhost", "localhost", 6379, 0, "redis://localhost:6379/0"),
        ("redis://h:7000/3", "h", 7000, 3, "redis://h:7000/3"),
        ("redis://h?db=4", "h", 6379, 4, "redis://h:6379/4"),
        ("valkey://h/", "h", 6379, 0, "redis://h:6379/0"),
        ("redis://[::1]:7000/1", "::1", 7000, 1, "redis://[::1]:7000/1"),
        ("redis://[fe80::1]", "fe80::1", 6379, 0, "redis://[fe80::1]:6379/0"),
        ("redis://user:pw@h:7000", "h", 7000, 0, "redis://h:7000/0"),
        ("rediss://h", "h", 6379, 0, "rediss://h:6379/0"),
        ("valkeys://h", "h", 6379, 0, "rediss://h:6379/0"),
    ],
)
def test_a_url_names_host_port_and_database(
    url: str, host: str, port: int, database: int, display: str
) -> None:
    address = RedisAddress.parse(url)

    assert (address.host, address.port, address.database) == (host, port, database)
    assert address.path is None
    assert address.display == display
    assert (address.tls is not None) == display.startswith("rediss")


def test_a_unix_socket_is_a_path() -> None:
    address = RedisAddress.parse("unix://user:pa%2Fss@/run/my%20redis.sock?db=2")

    assert address.path == "/run/my redis.sock"
    assert address.database == 2
    assert (address.username, address.password) == ("user", "pa/ss")
    assert address.display == "unix:///run/my redis.sock?db=2"


@pytest.mark.parametrize(
    ("url", "username", "password"),
    [
        ("redis://h", None, None),
        ("redis://user@h", "user", None),
        ("redis://:secret@h", None, "secret"),
        ("redis://user:pa%2Fss%40@h", "user", "pa/ss@"),
        ("redis://us%3Aer:p%25@h", "us:er", "p%"),
        ("redis://user:p@ss@h", "user", "p@ss"),
    ],
)
def test_credentials_are_percent_decoded(
    url: str, username: str | None, password: str | None
) -> None:
    address = RedisAddress.parse(url)

    assert (address.username, address.password) == (username, password)


def test_keywords_win_over_the_url() -> None:
    context = ssl.create_default_context()

    address = RedisAddress.parse(
        "redis://user:pw@h/1", username="other", password="secret", database=5, tls=context
    )

    assert (address.username, address.password, address.database) == ("other", "secret", 5)
    assert address.tls is context


def test_tls_can_be_asked_for_by_keyword() -> None:
    address = RedisAddress.parse("redis://h", tls=True)

    assert address.tls is not None
    assert address.tls.check_hostname
    assert address.display == "rediss://h:6379/0"


@pytest.mark.parametrize(
    ("url", "told"),
    [
        ("localhost:6379", "does not begin with redis://"),
        ("http://h", "does not begin with redis://"),
        ("redis:h", "does not begin with redis://"),
        ("redis://", "names no host"),
        ("redis://:6379", "names no host"),
        ("redis://h:port", "a port is a number from 1 to 65535"),
        ("redis://h:0", "a port is a number from 1 to 65535"),
        ("redis://h:65536", "port 65536"),
        ("redis://h:-1", "a port is a number from 1 to 65535"),
        ("redis://h/first", "a Redis database is a number"),
        ("redis://h/-1", "a Redis database is a number"),
        ("redis://h/1?db=2", "names the database twice"),
        ("redis://h?timeout=5", "only db= is understood"),
        ("redis://h#x", "has a fragment"),
        ("redis://[::1", "it is not a URL"),
        ("unix://", "names no socket"),
        ("unix://run/redis.sock", "begins with a third slash"),
    ],
)
def test_a_wrong_url_is_refused_with_the_reason(url: str, told: str) -> None:
    with pytest.raises(ValueError, match=told) as refused:
        RedisAddress.parse(url)

    assert isinstance(refused.value, DeclarationError)
    assert refused.value.write is not None


@pytest.mark.parametrize(
    "place", ["localhost:6379", "redis.example.com", "10.0.0.7:7000/2", "[::1]:6379"]
)
def test_a_place_without_a_scheme_is_told_with_one(place: str) -> None:
    with pytest.raises(DeclarationError) as refused:
        RedisAddress.parse(place)

    assert refused.value.what == f"Redis URL {place!r}"
    assert refused.value.write == f"redis://{place}"


@pytest.mark.parametrize("database", [-1, True, 1.5, 2**31])
def test_a_wrong_database_is_refused(database: int) -> None:
    with pytest.raises(ValueError, match="a Redis database is a number"):
        RedisAddress.parse("redis://h", database=database)


def test_tls_that_contradicts_the_url_is_refused() -> None:
    with pytest.raises(ValueError, match="rediss:// asks for TLS"):
        RedisAddress.parse("rediss://h", tls=False)
    with pytest.raises(ValueError, match="a Unix socket has no TLS"):
        RedisAddress.parse("unix:///s", tls=True)


@pytest.mark.case("SE-02")
def test_the_password_is_never_shown() -> None:
    address = RedisAddress.parse("redis://user:pa%2Fss@h:7000/1")

    shown = f"{address!r} {address} {address.display} {[address]}"

    for secret in ("pa/ss", "pa%2Fss", "user"):
        assert secret not in shown
    assert pickle.loads(pickle.dumps(address)) == address


@pytest.mark.case("SE-02")
@pytest.mark.parametrize(
    "url",
    [
        "redis://user:s3cret@h:99999",
        "redis://user:s3cret@h/x",
        "redis://user:s3cret@h?x=1",
        "redis://user:s3cret@[::1",
        "redis://user:s3cret@",
        "redis://user:s3/cret@h",
        "redis://user:s3#cret@h",
        "redis://user:s3?cret@h",
        "redis://user:s3cret",
        "redi://user:s3cret@h",
        "user:s3cret@h",
        "unix://user:s3cret@",
    ],
)
def test_a_refusal_never_quotes_the_password(url: str) -> None:
    try:
        RedisAddress.parse(url)
    except DeclarationError as refused:
        shown = "".join(traceback.format_exception(refused)) + repr(refused)
        for secret in ("s3", "cret"):
            assert secret not in shown
    else:
        pytest.fail("not refused")


@pytest.mark.case("SE-02")
def test_an_unencoded_password_is_told_what_to_do() -> None:
    with pytest.raises(ValueError, match="percent-encoded"):
        RedisAddress.parse("redis://user:pa/ss@h")
