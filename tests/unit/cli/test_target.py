"""Every wrong ``MODULE:APP`` is one clear line and a suggestion."""

from __future__ import annotations

from pathlib import Path

import pytest

from surestream.app import App
from surestream.cli.faults import UseError
from surestream.cli.target import find_app
from tests.unit.cli.conftest import Write

SERVICE = """
    app = App("refunds")
    def create_app() -> App: return App("made")
    def create_nothing(): ...
    def create_with(port: int, host: str, *, debug: bool = False): return app
    async def create_later() -> App: return app
    def create_badly(): return 1 / 0
    def create_number(): return 5
    number = 5
    class Apps:
        main = app
"""


@pytest.fixture
def service(project: Write) -> Path:
    project("pkg/__init__.py", "")
    project("pkg/service.py", SERVICE)
    project("pkg/bare.py", "application = 2")
    return project("service.py", SERVICE)


def refusal(target: str, *, factory: bool = False) -> list[str]:
    with pytest.raises(UseError) as raised:
        find_app(target, factory=factory)
    return str(raised.value).splitlines()


@pytest.mark.usefixtures("service")
class TestFound:
    def test_app_in_a_module_of_the_working_directory(self) -> None:
        assert find_app("service:app").title == "refunds"

    def test_app_in_a_package(self) -> None:
        assert find_app("pkg.service:app").title == "refunds"

    def test_attribute_of_an_attribute(self) -> None:
        assert find_app("service:Apps.main").title == "refunds"

    def test_what_a_factory_returns(self) -> None:
        assert find_app("service:create_app", factory=True).title == "made"


BOTH = "`surestream run service:app` or `surestream run service:create_app --factory`"


@pytest.mark.case("CV-02")
@pytest.mark.usefixtures("service")
class TestRefused:
    @pytest.mark.parametrize(
        ("target", "what", "hint"),
        [
            ("service", "'service' names a module and no app in it", f"did you mean {BOTH}?"),
            ("service:", "'service:' names no app after the colon", f"did you mean {BOTH}?"),
            (
                "service.app",
                "'service.app' names a module and no app in it",
                "did you mean `surestream run service:app`?",
            ),
            (
                "pkg.service",
                "'pkg.service' names a module and no app in it",
                "did you mean `surestream run pkg.service:app` or "
                "`surestream run pkg.service:create_app --factory`?",
            ),
            ("", "'' names no module", "write `surestream run service:app`"),
            (":main", "':main' names no module", "write `surestream run service:main`"),
            (
                ".service:app",
                "'.service' is no name of a module",
                "did you mean `surestream run service:app`?",
            ),
            ("service:a-b", "'a-b' is no name of an app", "write `surestream run service:app`"),
            ("service:app:x", "'app:x' is no name of an app", "write `surestream run service:app`"),
            (
                "service:create_app()",
                "'create_app()' is a call, and a name is wanted",
                "did you mean `surestream run service:create_app --factory`?",
            ),
        ],
    )
    def test_what_is_not_written_as_module_and_app(self, target: str, what: str, hint: str) -> None:
        assert refusal(target) == [what, f"  {hint}"]

    @pytest.mark.parametrize(
        ("path", "meant"),
        [
            ("service.py", "service:app"),
            ("service.py:application", "service:application"),
            ("./service.py:app", "service:app"),
            ("pkg/service.py:app", "pkg.service:app"),
            ("pkg/service", "pkg.service:app"),
        ],
    )
    def test_path_of_a_file(self, path: str, meant: str) -> None:
        file = path.partition(":")[0]
        assert refusal(path) == [
            f"{file!r} is a path, and a module is wanted",
            f"  did you mean `surestream run {meant}`?",
        ]

    def test_path_outside_the_working_directory(self, tmp_path: Path) -> None:
        file = tmp_path.parent / "elsewhere" / "service.py"
        assert refusal(f"{file}:app") == [
            f"{str(file)!r} is a path, and a module is wanted",
            f"  try `cd {file.parent} && surestream run service:app`",
        ]

    @pytest.mark.parametrize(
        ("target", "missing", "meant"),
        [
            ("servise:app", "servise", "service:app"),
            ("pkg.servise:app", "pkg.servise", "pkg.service:app"),
            ("pgk.service:app", "pgk", "pkg.service:app"),
        ],
    )
    def test_misspelled_module(self, target: str, missing: str, meant: str) -> None:
        assert refusal(target) == [
            f"there is no module {missing!r}",
            f"  did you mean `surestream run {meant}`?",
        ]

    def test_no_such_module(self, tmp_path: Path) -> None:
        assert refusal("zzz:app") == [
            "there is no module 'zzz'",
            f"  looked in {tmp_path} first",
            "  modules there: pkg and service",
        ]

    def test_no_such_module_in_a_package(self) -> None:
        assert refusal("pkg.zzz:app") == [
            "there is no module 'pkg.zzz'",
            "  modules of pkg: bare and service",
        ]

    def test_module_below_src(self, project: Write) -> None:
        project("src/billing/__init__.py", "")
        assert refusal("billing.service:app") == [
            "there is no module 'billing'",
            "  try `PYTHONPATH=src surestream run billing.service:app`",
        ]

    def test_misspelled_app(self, service: Path) -> None:
        assert refusal("service:ap") == [
            f"there is no 'ap' in service ({service})",
            f"  did you mean {BOTH}?",
        ]

    def test_module_without_any_app(self, tmp_path: Path) -> None:
        bare = tmp_path / "pkg" / "bare.py"
        assert refusal("pkg.bare:app") == [
            f"there is no 'app' in pkg.bare ({bare})",
            "  there is no App in it; write `app = App(…)` there",
        ]
        assert refusal("pkg.bare:aplication") == [
            f"there is no 'aplication' in pkg.bare ({bare})",
            "  did you mean 'application'? There is no App in pkg.bare yet",
        ]
        assert refusal("pkg.bare:application") == [
            "pkg.bare:application is of type int, and an App is wanted",
            "  there is no App in that module",
        ]

    @pytest.mark.parametrize(
        ("name", "what", "hint"),
        [
            ("number", "is of type int, and an App is wanted", f"did you mean {BOTH}?"),
            ("Apps", "is the class Apps, and an App is wanted", f"did you mean {BOTH}?"),
            ("App", "is the class App itself", "write `app = App(…)` and name that"),
            (
                "create_app",
                "is a function, and an App is wanted",
                "if it returns one: `surestream run service:create_app --factory`",
            ),
        ],
    )
    def test_what_is_no_app(self, name: str, what: str, hint: str) -> None:
        assert refusal(f"service:{name}") == [f"service:{name} {what}", f"  {hint}"]

    @pytest.mark.parametrize(
        ("name", "what", "hint"),
        [
            ("app", "is an App and no factory", "write `surestream run service:app`"),
            (
                "number",
                "is of type int, and cannot be called",
                "--factory wants a function that returns an App",
            ),
            (
                "create_nothing",
                "returned None, and an App is wanted",
                "write `return app` at the end of create_nothing",
            ),
            (
                "create_number",
                "returned something of type int, and an App is wanted",
                "write `return app` at the end of create_number",
            ),
            (
                "create_with",
                "cannot be called without port and host",
                "a factory takes no arguments; read settings from the environment",
            ),
            (
                "create_later",
                "is an async function",
                "a factory is a plain def; what has to be awaited belongs into the app's lifespan",
            ),
        ],
    )
    def test_what_is_no_factory(self, name: str, what: str, hint: str) -> None:
        assert refusal(f"service:{name}", factory=True) == [f"service:{name} {what}", f"  {hint}"]

    def test_factory_that_raises(self) -> None:
        assert refusal("service:create_badly", factory=True) == [
            "calling service:create_badly failed: ZeroDivisionError: division by zero",
            "  at service.py:9 in create_badly",
        ]


@pytest.mark.case("CV-02")
class TestBrokenModule:
    def test_exception_is_told_with_its_place(self, project: Write) -> None:
        project("settings.py", 'def port():\n    raise ValueError("PORT is missing")\n')
        project("service.py", "import settings\nsettings.port()\n")
        assert refusal("service:app") == [
            "importing service failed: ValueError: PORT is missing",
            "  at settings.py:4 in port",
        ]

    def test_place_is_the_users_line_not_the_librarys_that_raised(self, project: Write) -> None:
        project("service.py", 'import json\njson.loads("{")\n')
        told = refusal("service:app")
        assert told[0].startswith("importing service failed: JSONDecodeError: Expecting property")
        assert told[1:] == ["  at service.py:4 in <module>"]

    def test_syntax_error(self, project: Write) -> None:
        project("service.py", 'password = "s3cret" "\n')
        told = refusal("service:app")
        assert told[0].startswith("importing service failed: SyntaxError: unterminated string")
        assert told[1:] == ["  at service.py:3"]
        assert "s3cret" not in str(told)

    def test_import_that_fails_inside_is_not_taken_for_a_wrong_target(self, project: Write) -> None:
        project("service.py", "import no_such_dependency\n")
        assert refusal("service:app") == [
            "importing service failed: ModuleNotFoundError: No module named 'no_such_dependency'",
            "  at service.py:3 in <module>",
        ]

    def test_module_that_ends_the_process(self, project: Write) -> None:
        project("service.py", "import sys\nsys.exit(3)\n")
        assert refusal("service:app") == [
            "importing service ended the process: SystemExit(3)",
            "  at service.py:4 in <module>",
            '  what shall only run as a program belongs below `if __name__ == "__main__":`',
        ]

    @pytest.mark.rule("7.1")
    def test_refused_declaration_speaks_for_itself(self, project: Write) -> None:
        project(
            "service.py",
            """
            @subscriber(MemoryTopic("refunds"))
            async def process(number: int) -> Outcome: return ack()
            app = App("refunds")
            app.add(MemoryBroker()).include(process, max_attempts=0)
            """,
        )
        told = refusal("service:app")
        assert told[0] == "refused: max_attempts=0"
        assert told[1].startswith("  where: process at ")
        assert told[1].endswith("service.py:7")
        assert [line[:9] for line in told[2:]] == ["  why:   ", "  write: "]

    @pytest.mark.rule("7.1")
    def test_refused_source_is_told_with_its_place(self, project: Write) -> None:
        project("service.py", 'MemoryTopic("")\n')
        assert refusal("service:app")[-1] == "  at service.py:3 in <module>"

    @pytest.mark.case("SE-02", "SE-03")
    def test_message_can_neither_forge_a_line_nor_show_a_password(self, project: Write) -> None:
        url = "redis://user:pa%2Fss@host/0"
        project("service.py", f'raise ValueError("{url}\\n2026-01-01 CRITICAL \\x1b[31mforged")\n')
        assert refusal("service:app") == [
            "importing service failed: ValueError: redis://…@host/0"
            "\\n2026-01-01 CRITICAL \\x1b[31mforged",
            "  at service.py:3 in <module>",
        ]

    def test_property_that_raises(self, project: Write) -> None:
        project(
            "service.py",
            """
            def __getattr__(name):
                raise RuntimeError("not yet")
            """,
        )
        assert refusal("service:app") == [
            "looking for app in service failed: RuntimeError: not yet",
            "  at service.py:5 in __getattr__",
        ]


def test_app_type_is_the_public_one(project: Write) -> None:
    project("service.py", 'app = App("refunds")')
    assert isinstance(find_app("service:app"), App)
