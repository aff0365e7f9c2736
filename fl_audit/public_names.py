"""Public names of a package that are imported on first use."""

import importlib
from collections.abc import Callable, Iterable, Mapping
from typing import Any


def imported_when_used(
    package: str, module_of: Mapping[str, str], registering: Iterable[str] = ()
) -> Callable[[str], Any]:
    """The `__getattr__` of a package whose names are defined in other modules.

    Args:
      package: The full name of the package.
      module_of: The module of each public name, relative to the package; with a leading dot for
        each level above the package.
      registering: Modules of the package that are imported with any of the names, because they
        register something.
    """

    def get(name: str) -> Any:
        if name not in module_of:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        for module in registering:
            importlib.import_module(f".{module}", package)
        return getattr(importlib.import_module(f".{module_of[name]}", package), name)

    return get
