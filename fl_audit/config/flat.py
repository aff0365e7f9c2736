"""A config as one value per `section.key`."""

from collections.abc import Mapping
from typing import Any

Scalar = bool | int | float | str
"""A value that every log of experiments takes for a parameter."""


def flat_keys(table: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """The values of nested tables by `section.key`.

    >>> flat_keys({"seed": 1, "task": {"kind": "digits"}})
    {'seed': 1, 'task.kind': 'digits'}
    """
    flat: dict[str, Any] = {}
    for key, value in table.items():
        if isinstance(value, Mapping):
            flat |= flat_keys(value, f"{prefix}{key}.")
        else:
            flat[prefix + key] = value
    return flat


def flat_scalars(table: Mapping[str, Any]) -> dict[str, Scalar]:
    """The same with lists as text, and without keys that are not set.

    >>> flat_scalars({"task": {"hidden": [64, 32], "path": None}, "seed": 1})
    {'task.hidden': '[64, 32]', 'seed': 1}
    """
    return {
        key: value if isinstance(value, bool | int | float | str) else str(value)
        for key, value in flat_keys(table).items()
        if value is not None
    }
