"""Which files a reload looks at."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from surestream.cli.faults import UseError
from surestream.cli.watching import check_folders, is_source, refuse_without_watchfiles

HERE = [Path("/home/a/.cache/project"), Path("/shared/library")]


@pytest.mark.parametrize(
    ("path", "is_one"),
    [
        ("/home/a/.cache/project/service.py", True),
        ("/home/a/.cache/project/pkg/deep/er.py", True),
        ("/shared/library/x.py", True),
        ("/elsewhere/service.py", False),
        ("/home/a/.cache/project/notes.txt", False),
        ("/home/a/.cache/project/service.pyc", False),
        ("/home/a/.cache/project/service.py~", False),
        ("/home/a/.cache/project/.venv/lib/site.py", False),
        ("/home/a/.cache/project/venv/lib/site.py", False),
        ("/home/a/.cache/project/env/site-packages/x.py", False),
        ("/home/a/.cache/project/__pycache__/x.py", False),
        ("/home/a/.cache/project/.git/hooks/x.py", False),
    ],
)
def test_python_files_of_the_users_are_sources(path: str, is_one: bool) -> None:
    assert is_source(Path(path), HERE) is is_one


class TestFolders:
    def test_are_made_absolute(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        (tmp_path / "app").mkdir()
        monkeypatch.chdir(tmp_path)

        assert check_folders([Path("app"), Path()]) == [tmp_path / "app", tmp_path]

    @pytest.mark.parametrize(
        ("folder", "told"),
        [
            ("ap", ["--reload-dir ap is no folder", "  did you mean `--reload-dir app`?"]),
            (
                "app/one.py",
                [
                    "--reload-dir app/one.py is no folder",
                    "  it is a file; write `--reload-dir app`",
                ],
            ),
            ("x/y/z", ["--reload-dir x/y/z is no folder"]),
        ],
    )
    def test_that_are_not_there_are_refused(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, folder: str, told: list[str]
    ) -> None:
        (tmp_path / "app").mkdir()
        (tmp_path / "app" / "one.py").touch()
        monkeypatch.chdir(tmp_path)

        with pytest.raises(UseError) as refusal:
            check_folders([Path(folder)])

        assert str(refusal.value).splitlines() == told


def test_missing_extra_is_told_with_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "watchfiles", None)

    with pytest.raises(UseError) as refusal:
        refuse_without_watchfiles()

    assert str(refusal.value) == (
        "surestream run --reload needs watchfiles: pip install 'surestream[reload]'"
    )
