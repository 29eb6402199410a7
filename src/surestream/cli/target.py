"""``MODULE:APP``: finding the app that a user means."""

from __future__ import annotations

import inspect
import os
import re
from collections.abc import Callable
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Final, cast

from surestream.app import App
from surestream.cli.faults import UseError, fault_of
from surestream.cli.importing import import_user_module
from surestream.cli.suggestions import Invocation, close_to
from surestream.cli.text import joined

__all__ = ["RUN", "check_target", "find_app"]

RUN: Final = Invocation()
_NAME: Final = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*")


def check_target(target: str) -> None:
    """Raise ``UseError`` unless ``target`` is written as ``MODULE:APP``. Imports nothing of a
    target that is."""
    _parsed(target, RUN)


def find_app(target: str, *, factory: bool = False, invocation: Invocation = RUN) -> App:
    """The app at ``target``, such as ``examples.refunds.service:app``; with ``factory`` what
    the function there returns.

    Imports the module. Raises ``UseError`` that says what is wrong and what to write, as
    ``invocation`` of the command line.
    """
    module_name, name = _parsed(target, invocation)
    module = import_user_module(module_name, name, invocation)
    value = _attribute(module, name, invocation)
    where = f"{module_name}:{name}"
    if factory:
        return _made(where, value, invocation)
    if isinstance(value, App):
        return value
    raise _no_app(module, where, value, invocation)


def _parsed(target: str, invocation: Invocation) -> tuple[str, str]:
    path, _, last = target.rpartition(":")
    if not (path and _NAME.fullmatch(last)):
        path, last = target, ""
    if "/" in target or os.sep in target or path.endswith(".py"):
        raise _path(path.rstrip(":"), last or "app", invocation)
    module, colon, name = target.partition(":")
    if not module.strip("."):
        write = invocation.of(f"service:{name or 'app'}")
        raise UseError(f"{target!r} names no module", f"write {write}")
    if module.startswith(".") or module.endswith("."):
        meant = invocation.of(f"{module.strip('.')}:{name or 'app'}")
        raise UseError(f"{module!r} is no name of a module", f"did you mean {meant}?")
    if not colon:
        raise _no_name(f"{target!r} names a module and no app in it", module, invocation)
    if not name:
        raise _no_name(f"{target!r} names no app after the colon", module, invocation)
    if _NAME.fullmatch(name) is None:
        called = re.fullmatch(r"(.+)\(\)", name)
        if called is not None and _NAME.fullmatch(called[1]):
            meant = invocation.of(f"{module}:{called[1]}", factory=True)
            raise UseError(f"{name!r} is a call, and a name is wanted", f"did you mean {meant}?")
        write = invocation.of(f"{module}:app")
        raise UseError(f"{name!r} is no name of an app", f"write {write}")
    return module, name


def _path(path: str, name: str, invocation: Invocation) -> UseError:
    what = f"{path!r} is a path, and a module is wanted"
    relative = Path(os.path.relpath(path)).with_suffix("")
    if relative.parts[0] == "..":
        folder = Path(path).parent
        there = invocation.of(f"{relative.name}:{name}", before=f"cd {folder} && ")
        return UseError(what, f"try {there}")
    meant = invocation.of(f"{'.'.join(relative.parts)}:{name}")
    return UseError(what, f"did you mean {meant}?")


def _no_name(what: str, module_name: str, invocation: Invocation) -> UseError:
    try:
        module = import_user_module(module_name, "app", invocation)
    except UseError as fault:
        parent, _, last = module_name.rpartition(".")
        meant = invocation.of(f"{parent}:{last}")
        if parent and any(meant in hint for hint in fault.hints):
            return UseError(what, f"did you mean {meant}?")
        return fault
    found = _found(module, invocation) or [invocation.of(f"{module_name}:app")]
    return UseError(what, f"did you mean {joined(found)}?")


def _attribute(module: ModuleType, name: str, invocation: Invocation) -> object:
    value: object = module
    path = module.__name__
    for part in name.split("."):
        try:
            value = getattr(value, part)
        except AttributeError:
            raise _no_attribute(module, value, path, part, invocation) from None
        except Exception as error:  # a property, or a module's __getattr__
            raise fault_of(error, f"looking for {part} in {path}") from error
        path = f"{path}.{part}" if path != module.__name__ else f"{path}:{part}"
    return value


def _no_attribute(
    module: ModuleType, owner: object, path: str, part: str, invocation: Invocation
) -> UseError:
    file = getattr(module, "__file__", None)
    what = f"there is no {part!r} in {path} ({file or 'built in'})"
    found = _found(module, invocation)
    if found:
        return UseError(what, f"did you mean {joined(found)}?")
    near = close_to(part, _names(owner))
    if near is not None:
        return UseError(what, f"did you mean {near!r}? There is no App in {module.__name__} yet")
    return UseError(what, f"there is no App in it; write `{part} = App(…)` there")


def _names(owner: object) -> list[str]:
    """What could be meant; not what was only imported to write it."""
    public = [name for name in dir(owner) if not name.startswith("_")]
    kinds = (type, ModuleType)
    return [name for name in public if not isinstance(getattr(owner, name, None), kinds)]


def _found(module: ModuleType, invocation: Invocation) -> list[str]:
    """Commands that would run something in ``module``."""
    commands: list[str] = []
    for name, value in vars(module).items():
        if isinstance(value, App):
            commands.append(invocation.of(f"{module.__name__}:{name}"))
        elif inspect.isfunction(value) and _makes_apps(value, module):
            commands.append(invocation.of(f"{module.__name__}:{name}", factory=True))
    return commands


def _makes_apps(function: FunctionType, module: ModuleType) -> bool:
    written_here = function.__module__ == module.__name__
    if not written_here or inspect.iscoroutinefunction(function):
        return False
    return function.__annotations__.get("return") in (App, "App")


def _no_app(module: ModuleType, where: str, value: object, invocation: Invocation) -> UseError:
    if inspect.isfunction(value):
        return UseError(
            f"{where} is a function, and an App is wanted",
            f"if it returns one: {invocation.of(where, factory=True)}",
        )
    if value is App:
        return UseError(f"{where} is the class App itself", "write `app = App(…)` and name that")
    found = _found(module, invocation)
    hint = f"did you mean {joined(found)}?" if found else "there is no App in that module"
    return UseError(f"{where} is {_kind(value)}, and an App is wanted", hint)


def _made(where: str, value: object, invocation: Invocation) -> App:
    if isinstance(value, App):
        raise UseError(f"{where} is an App and no factory", f"write {invocation.of(where)}")
    if not callable(value):
        raise UseError(
            f"{where} is {_kind(value)}, and cannot be called",
            "--factory wants a function that returns an App",
        )
    factory = cast("Callable[[], object]", value)
    _check_arguments(where, factory)
    try:
        made = factory()
    except (Exception, SystemExit) as error:
        raise fault_of(error, f"calling {where}") from error
    if isinstance(made, App):
        return made
    if inspect.iscoroutine(made):
        made.close()
        raise UseError(
            f"{where} is an async function",
            "a factory is a plain def; what has to be awaited belongs into the app's lifespan",
        )
    hint = f"write `return app` at the end of {where.partition(':')[2]}"
    returned = "None" if made is None else f"something {_kind(made)}"
    raise UseError(f"{where} returned {returned}, and an App is wanted", hint)


def _check_arguments(where: str, factory: Callable[[], object]) -> None:
    try:
        signature = inspect.signature(factory)
    except (TypeError, ValueError):
        return
    wanted = [
        name
        for name, parameter in signature.parameters.items()
        if parameter.default is parameter.empty
        and parameter.kind not in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD)
    ]
    if wanted:
        raise UseError(
            f"{where} cannot be called without {joined(wanted, 'and')}",
            "a factory takes no arguments; read settings from the environment",
        )


def _kind(value: object) -> str:
    if isinstance(value, type):
        return f"the class {value.__qualname__}"
    if inspect.ismodule(value):
        return f"the module {value.__name__}"
    return f"of type {type(value).__qualname__}"
