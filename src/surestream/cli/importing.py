"""Importing the user's module, with an answer to everything that can go wrong."""

from __future__ import annotations

import importlib
import importlib.util
import pkgutil
from collections.abc import Iterable
from pathlib import Path
from types import ModuleType

from surestream.cli.faults import UseError, fault_of
from surestream.cli.suggestions import Invocation, close_to
from surestream.cli.text import joined

__all__ = ["import_user_module"]

MANY = 8


def import_user_module(name: str, attribute: str, invocation: Invocation) -> ModuleType:
    """The module ``name``, imported. ``attribute`` is what is wanted of it, for suggestions.

    Raises ``UseError`` where there is no such module, or where its code fails.
    """
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        missing = error.name or ""
        if name == missing or name.startswith(f"{missing}."):
            raise _no_module(name, missing, attribute, invocation) from None
        raise fault_of(error, f"importing {name}") from error
    # SystemExit too: a module that ends the process is no service. What our own signal handler
    # raises to end the import is none of the two.
    except (Exception, SystemExit) as error:
        raise fault_of(error, f"importing {name}") from error


def _no_module(name: str, missing: str, attribute: str, invocation: Invocation) -> UseError:
    what = f"there is no module {missing!r}"
    parent, _, last = missing.rpartition(".")
    if parent and not _is_package(parent):
        meant = invocation.of(f"{parent}:{last}")
        return UseError(what, f"{parent} is one module; did you mean {meant}?")
    known = _modules(parent)
    near = close_to(last, known)
    if near is not None:
        right = name.replace(missing, f"{parent}.{near}" if parent else near, 1)
        return UseError(what, f"did you mean {invocation.of(f'{right}:{attribute}')}?")
    if parent:
        return UseError(what, _list(f"modules of {parent}", known))
    if _below(Path("src"), missing):
        return UseError(
            what, f"try {invocation.of(f'{name}:{attribute}', before='PYTHONPATH=src ')}"
        )
    return UseError(what, f"looked in {Path.cwd()} first", _list("modules there", known))


def _list(what: str, names: list[str]) -> str:
    if len(names) > MANY:
        return f"{what}: {', '.join(names[:MANY])} and {len(names) - MANY} more"
    return f"{what}: {joined(names, 'and') or 'none'}"


def _is_package(name: str) -> bool:
    try:
        spec = importlib.util.find_spec(name)
    except (ImportError, ValueError):
        return True
    return spec is None or spec.submodule_search_locations is not None


def _modules(parent: str) -> list[str]:
    """What can be imported from a package, or from the working directory."""
    places: Iterable[str] = [str(Path.cwd())]
    if parent:
        spec = importlib.util.find_spec(parent)
        places = (spec and spec.submodule_search_locations) or []
    return sorted({module.name for module in pkgutil.iter_modules(list(places))})


def _below(folder: Path, module: str) -> bool:
    top = module.partition(".")[0]
    return (folder / f"{top}.py").is_file() or (folder / top).is_dir()
