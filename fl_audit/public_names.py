"""Public names of a package that are imported where they are first used."""

import importlib
from collections.abc import Callable, Iterable, Mapping
from typing import Any


def imported_when_used(
    package: str, module_of: Mapping[str, str], registering: Iterable[str] = ()
) -> Callable[[str], Any]:
    """The `__getattr__` of a package whose names stand in other modules.

    Args:
      package: The full name of the package.
      module_of: The module of each public name, relative to the package; one that is not below it
        begins with a dot for each package further up.
      registering: The modules of the package that are imported with any of the names, for what they
        register.
    """

    def get(name: str) -> Any:
        if name not in module_of:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        for module in registering:
            importlib.import_module(f".{module}", package)
        return getattr(importlib.import_module(f".{module_of[name]}", package), name)

    return get
