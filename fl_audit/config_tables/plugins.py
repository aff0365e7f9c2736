"""Plugins: the user's modules that register kinds, named at the top of a config.

`plugins = ["my_patterns"]` precedes all tables. A command that trains or plans imports the modules
before it reads the kinds of the config; a command that only reads a finished run's folder imports
no foreign code. A module is looked up in the config's folder, then in Python's path; a name may
include another folder, as in `"../kinds/my_patterns"`.
"""

import contextlib
import importlib
import sys
import traceback
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

from fl_audit.errors import InputError


def with_folders(plugins: Any, folder: Path) -> Any:
    """The plugins of a config, with full paths if they name a folder or are in the config's folder.

    Other processes, such as Ray's, and resumed runs find plugins by these paths. `plugins` is the
    value in the config file, which is not validated yet. `folder` is the config file's folder, at
    which relative paths start.
    """
    if not _are_names(plugins):
        return plugins  # refused later, with the config's other values
    return [_with_folder(plugin, folder) for plugin in plugins]


def import_plugins(plugins: Any, name: str) -> None:
    """Imports the plugins of a config, as named by `with_folders`, each once."""
    if not _are_names(plugins):
        return
    for plugin in plugins:
        stated, _, module = plugin.rpartition("/")
        folder = Path(stated) if stated else None
        with users_code(f"{name}: key `plugins`: {plugin!r}"):
            try:
                if folder is not None and module_file(module, folder) is None:
                    raise MissingModuleError(module)  # a module elsewhere is another module
                module_in(module, folder)
            except MissingModuleError as error:
                where = f"in {folder}" if stated else "next to the config or on Python's path"
                raise InputError(
                    f"{name}: key `plugins`: there is no module {module!r} {where}"
                ) from error


class MissingModuleError(Exception):
    """No module has the name; imports that fail inside a module raise other errors."""


def module_in(name: str, folder: Path | None) -> ModuleType:
    """Imports a module from a folder if it is there, else from Python's path."""
    if folder is not None:
        # The folder stays first in the path: the module may import its siblings at any time.
        sys.path[:] = [str(folder), *(place for place in sys.path if place != str(folder))]
        importlib.invalidate_caches()
        local_file = module_file(name, folder)
        loaded = getattr(sys.modules.get(name), "__file__", None)
        if (
            loaded is not None
            and local_file is not None
            and Path(loaded).resolve() != local_file.resolve()
        ):
            del sys.modules[name]  # another run's module, imported earlier in this process
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{name}.".startswith(f"{error.name}."):
            raise
        raise MissingModuleError(name) from error


@contextlib.contextmanager
def users_code(name: str) -> Iterator[None]:
    """Turns any error of the user's code in the block into an InputError with its location.

    `name` says in the message what failed.
    """
    try:
        yield
    except InputError:
        raise
    except Exception as error:
        frames = traceback.extract_tb(error.__traceback__)
        user_frames = [frame for frame in frames if not _is_installed(frame.filename)]
        location = (
            f" in {Path(user_frames[-1].filename).name}, line {user_frames[-1].lineno}"
            if user_frames
            else ""
        )
        raise InputError(f"{name} fails{location}: {type(error).__name__}: {error}") from error


def _are_names(plugins: Any) -> bool:
    return isinstance(plugins, list) and all(isinstance(plugin, str) for plugin in plugins)


def _with_folder(plugin: str, folder: Path) -> str:
    """A plugin's name, with its folder if it states one or the module is in the config's folder."""
    stated, _, name = plugin.rpartition("/")
    full_path = (folder / stated).resolve()
    return f"{full_path}/{name}" if stated or module_file(name, full_path) is not None else plugin


def module_file(name: str, folder: Path) -> Path | None:
    """The file of a module or package in a folder; None if there is none."""
    place = folder.joinpath(*name.split("."))
    candidates = (place.with_suffix(".py"), place / "__init__.py")
    return next((file for file in candidates if file.exists()), None)


def _is_installed(file: str) -> bool:
    """Whether a file belongs to a library or to fl_audit, not to the user."""
    ours = Path(__file__).parent.parent
    return file.startswith("<") or "site-packages" in file or ours in Path(file).parents
