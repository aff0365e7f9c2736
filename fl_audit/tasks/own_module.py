"""Tasks of kind "python": a function in a user's module makes them."""

import importlib
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

from fl_audit.errors import InputError
from fl_audit.tasks.classifier import LearningTask
from fl_audit.tasks.own_task import OwnTask, learning_task, users_code
from fl_audit.tasks.tables import PythonTask


def load_python_task(config: PythonTask, seed: int) -> LearningTask:
    """Imports the user's module, which runs it, and makes the task.

    Args:
      config: The name of the function, the folder of its module, and its options.
      seed: The seed of the run, the function's first argument.

    Raises:
      InputError: The module or the function is missing or fails, or what it makes is no task.
    """
    name, _, function = config.module.partition(":")
    with users_code(f"task.module: {config.module}"):
        module = _module(name, Path(config.folder))
        made: Any = _function(module, function)(seed, **config.options)
        if isinstance(made, LearningTask):
            return made
        if isinstance(made, OwnTask):
            return learning_task(made, config.module)
    raise InputError(
        f"task.module: {config.module} must return an fl_audit.tasks.own_task.OwnTask, got "
        f"{type(made).__name__}"
    )


def _module(name: str, folder: Path) -> ModuleType:
    """The module from the folder if it is there, else from where Python looks."""
    # The folder stays first in the path: the module may import what stands beside it, at any time.
    sys.path[:] = [str(folder), *(place for place in sys.path if place != str(folder))]
    importlib.invalidate_caches()
    beside = folder.joinpath(*name.split(".")).with_suffix(".py")
    kept = getattr(sys.modules.get(name), "__file__", None)
    if kept is not None and beside.exists() and Path(kept).resolve() != beside.resolve():
        del sys.modules[name]  # that of another run, imported before in this process
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{name}.".startswith(f"{error.name}."):
            raise
        raise InputError(
            f"task.module: there is no module {name!r} in {folder}, nor where Python looks"
        ) from error


def _function(module: ModuleType, name: str) -> Callable[..., Any]:
    found: Any = getattr(module, name, None)
    if not callable(found):
        raise InputError(f"task.module: {module.__file__} has no function {name!r}")
    function: Callable[..., Any] = found
    return function
