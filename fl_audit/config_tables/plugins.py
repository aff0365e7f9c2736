"""Plugins: modules of the user's own that register kinds, named at the top of a config.

`plugins = ["my_patterns"]` stands above all tables. A command that trains or plans imports the
modules before it reads the kinds of the config; a command that only reads a finished run's folder
imports nobody's code. A module is looked for in the config's folder, then where Python looks; it
may stand in another folder too, such as `"../kinds/my_patterns"`.
"""

import contextlib
import importlib
import sys
import traceback
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

from fl_audit.errors import InputError


def in_full(plugins: Any, folder: Path) -> Any:
    """The plugins of a config with the folders of those that do not stand where Python looks.

    Other processes, such as Ray's, and resumed runs find them by these names.

    Args:
      plugins: What a config file has under its key, a list of names where nothing is wrong.
      folder: The config's folder, where relative names start.
    """
    if not _are_names(plugins):
        return plugins  # refused with the config's other values
    return [_in_full(plugin, folder) for plugin in plugins]


def import_plugins(plugins: Any, name: str) -> None:
    """Imports the plugins of a config, each once.

    Args:
      plugins: What `in_full` makes of the config's key; None where there is none.
      name: The name of the config in an error message.

    Raises:
      InputError: A module is missing or raises an error, such as for a name that is taken.
    """
    if not _are_names(plugins):
        return
    for plugin in plugins:
        folder, _, module = plugin.rpartition("/")
        with users_code(f"{name}: key `plugins`: {plugin!r}"):
            try:
                module_in(module, Path(folder) if folder else None)
            except MissingModuleError as error:
                where = f"in {folder}" if folder else "beside the config, nor where Python looks"
                raise InputError(
                    f"{name}: key `plugins`: there is no module {module!r} {where}"
                ) from error


class MissingModuleError(Exception):
    """There is no module of a name; one that it imports may be missing without this error."""


def module_in(name: str, folder: Path | None) -> ModuleType:
    """Imports a module from a folder if it is there, else from where Python looks.

    Args:
      name: The module's name, with dots if it stands in a package.
      folder: The folder; None for where Python looks.

    Raises:
      MissingModuleError: It is in neither place.
      Exception: Whatever the module raises.
    """
    if folder is not None:
        # The folder stays first in the path: the module may import what stands beside it, any time.
        sys.path[:] = [str(folder), *(place for place in sys.path if place != str(folder))]
        importlib.invalidate_caches()
        beside = module_file(name, folder)
        loaded = getattr(sys.modules.get(name), "__file__", None)
        if loaded is not None and beside is not None and Path(loaded).resolve() != beside.resolve():
            del sys.modules[name]  # that of another run, imported before in this process
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{name}.".startswith(f"{error.name}."):
            raise
        raise MissingModuleError(name) from error


@contextlib.contextmanager
def users_code(name: str) -> Iterator[None]:
    """Whatever a user's code raises inside the `with` becomes one line with the place in it.

    Args:
      name: What is called, for the message.

    Raises:
      InputError: The code raises anything.
    """
    try:
        yield
    except InputError:
        raise
    except Exception as error:
        frames = traceback.extract_tb(error.__traceback__)
        own = [frame for frame in frames if not _is_installed(frame.filename)]
        at = f" in {Path(own[-1].filename).name}, line {own[-1].lineno}" if own else ""
        raise InputError(f"{name} fails{at}: {type(error).__name__}: {error}") from error


def has_plugins(table: Mapping[str, Any]) -> bool:
    """Whether the table of a config names plugins."""
    return bool(table.get("plugins"))


def _are_names(plugins: Any) -> bool:
    return isinstance(plugins, list) and all(isinstance(plugin, str) for plugin in plugins)


def _in_full(plugin: str, folder: Path) -> str:
    """The name with its folder where a folder is stated, or the module is in the config's."""
    stated, _, name = plugin.rpartition("/")
    at = (folder / stated).resolve()
    return f"{at}/{name}" if stated or module_file(name, at) is not None else plugin


def module_file(name: str, folder: Path) -> Path | None:
    """The file of a module or package in a folder; None where there is none."""
    place = folder.joinpath(*name.split("."))
    candidates = (place.with_suffix(".py"), place / "__init__.py")
    return next((file for file in candidates if file.exists()), None)


def _is_installed(file: str) -> bool:
    """Whether a file is a library's or ours, and so not the user's."""
    ours = Path(__file__).parent.parent
    return file.startswith("<") or "site-packages" in file or ours in Path(file).parents
