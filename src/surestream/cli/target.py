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
from surestream.cli.importing import close_to, import_user_module
from surestream.cli.text import joined

__all__ = ["find_app"]

_NAME: Final = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*")
_COMMAND: Final = "surestream run"


def find_app(target: str, *, factory: bool = False) -> App:
    """The app at ``target``, such as ``examples.refunds.service:app``; with ``factory`` what
    the function there returns.

    Imports the module. Raises ``UseError`` that says what is wrong and what to write.
    """
    module_name, name = _parsed(target)
    module = import_user_module(module_name, name)
    value = _attribute(module, name)
    where = f"{module_name}:{name}"
    if factory:
        return _made(where, value)
    if isinstance(value, App):
        return value
    raise _no_app(module, where, value)


def _parsed(target: str) -> tuple[str, str]:
    path, _, last = target.rpartition(":")
    if not (path and _NAME.fullmatch(last)):
        path, last = target, ""
    if "/" in target or os.sep in target or path.endswith(".py"):
        raise _path(path.rstrip(":"), last or "app")
    module, colon, name = target.partition(":")
    if not module.strip("."):
        raise UseError(f"{target!r} names no module", f"write `{_COMMAND} service:{name or 'app'}`")
    if module.startswith(".") or module.endswith("."):
        meant = f"{module.strip('.')}:{name or 'app'}"
        raise UseError(f"{module!r} is no name of a module", f"did you mean `{_COMMAND} {meant}`?")
    if not colon:
        raise _no_name(f"{target!r} names a module and no app in it", module)
    if not name:
        raise _no_name(f"{target!r} names no app after the colon", module)
    if _NAME.fullmatch(name) is None:
        called = re.fullmatch(r"(.+)\(\)", name)
        if called is not None and _NAME.fullmatch(called[1]):
            raise UseError(
                f"{name!r} is a call, and a name is wanted",
                f"did you mean `{_COMMAND} {module}:{called[1]} --factory`?",
            )
        raise UseError(f"{name!r} is no name of an app", f"write `{_COMMAND} {module}:app`")
    return module, name


def _path(path: str, name: str) -> UseError:
    what = f"{path!r} is a path, and a module is wanted"
    relative = Path(os.path.relpath(path)).with_suffix("")
    if relative.parts[0] == "..":
        folder = Path(path).parent
        return UseError(what, f"try `cd {folder} && {_COMMAND} {relative.name}:{name}`")
    return UseError(what, f"did you mean `{_COMMAND} {'.'.join(relative.parts)}:{name}`?")


def _no_name(what: str, module_name: str) -> UseError:
    try:
        module = import_user_module(module_name, "app")
    except UseError as fault:
        parent, _, last = module_name.rpartition(".")
        meant = f"{parent}:{last}"
        if parent and any(meant in hint for hint in fault.hints):
            return UseError(what, f"did you mean `{_COMMAND} {meant}`?")
        return fault
    found = _found(module) or [f"`{_COMMAND} {module_name}:app`"]
    return UseError(what, f"did you mean {joined(found)}?")


def _attribute(module: ModuleType, name: str) -> object:
    value: object = module
    path = module.__name__
    for part in name.split("."):
        try:
            value = getattr(value, part)
        except AttributeError:
            raise _no_attribute(module, value, path, part) from None
        except Exception as error:  # a property, or a module's __getattr__
            raise fault_of(error, f"looking for {part} in {path}") from error
        path = f"{path}.{part}" if path != module.__name__ else f"{path}:{part}"
    return value


def _no_attribute(module: ModuleType, owner: object, path: str, part: str) -> UseError:
    file = getattr(module, "__file__", None)
    what = f"there is no {part!r} in {path} ({file or 'built in'})"
    found = _found(module)
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


def _found(module: ModuleType) -> list[str]:
    """Commands that would run something in ``module``."""
    commands: list[str] = []
    for name, value in vars(module).items():
        if isinstance(value, App):
            commands.append(f"`{_COMMAND} {module.__name__}:{name}`")
        elif inspect.isfunction(value) and _makes_apps(value, module):
            commands.append(f"`{_COMMAND} {module.__name__}:{name} --factory`")
    return commands


def _makes_apps(function: FunctionType, module: ModuleType) -> bool:
    written_here = function.__module__ == module.__name__
    if not written_here or inspect.iscoroutinefunction(function):
        return False
    return function.__annotations__.get("return") in (App, "App")


def _no_app(module: ModuleType, where: str, value: object) -> UseError:
    if inspect.isfunction(value):
        return UseError(
            f"{where} is a function, and an App is wanted",
            f"if it returns one: `{_COMMAND} {where} --factory`",
        )
    if value is App:
        return UseError(f"{where} is the class App itself", "write `app = App(…)` and name that")
    found = _found(module)
    hint = f"did you mean {joined(found)}?" if found else "there is no App in that module"
    return UseError(f"{where} is {_kind(value)}, and an App is wanted", hint)


def _made(where: str, value: object) -> App:
    if isinstance(value, App):
        raise UseError(f"{where} is an App and no factory", f"write `{_COMMAND} {where}`")
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
