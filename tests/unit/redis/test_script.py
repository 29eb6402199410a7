"""Scripts are files of a package, known to a server by their digest."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from surestream.redis.script import Script


def test_the_digest_is_the_one_redis_computes() -> None:
    script = Script("one", b"return 1")

    assert script.digest == b"e0e1f9fabfc9d4800c877a703b823ac0578ff8db"
    assert script.digest == hashlib.sha1(b"return 1").hexdigest().encode()


def test_a_script_is_loaded_from_a_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    scripts = tmp_path / "some_package" / "scripts"
    scripts.mkdir(parents=True)
    (scripts.parent / "__init__.py").touch()
    (scripts / "park.lua").write_bytes("-- über\nreturn 1\n".encode())
    monkeypatch.syspath_prepend(str(tmp_path))

    script = Script.load("park", "some_package")

    assert script.name == "park"
    assert script.source == "-- über\nreturn 1\n".encode()
    with pytest.raises(FileNotFoundError):
        Script.load("nothing", "some_package")
