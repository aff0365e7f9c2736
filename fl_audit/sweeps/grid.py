"""The file of a sweep: a base config, lists of values, variants and seeds, and the runs they make.

All mistakes are found here, in every run's config, before anything is started.
"""

import copy
import itertools
import math
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from fl_audit.config import Config
from fl_audit.config.file import config_of_table, set_key
from fl_audit.errors import InputError, nearest
from fl_audit.formats.text_files import read_toml
from fl_audit.kinds.table import NonNegativeInt, Table
from fl_audit.progress import bar

_LONGEST_NAME = 120


class Variant(Table, frozen=True):
    """One named change of the base config.

    Attributes:
      name: The beginning of its runs' names.
      set: The values of the keys that it changes, by `section.key`.
    """

    name: str
    set: dict[str, Any] = {}  # noqa: RUF012 - msgspec copies it


class GridFile(Table, frozen=True):
    """A sweep's file.

    Attributes:
      base: The config that all runs start from; a relative path starts at the sweep's file.
      seeds: The seeds of every setting; none leaves the base config's.
      grid: The values of each `section.key`; all combinations are run.
      variant: The named changes that are combined with the grid.
    """

    base: str
    seeds: tuple[NonNegativeInt, ...] = ()
    grid: dict[str, list[Any]] = {}  # noqa: RUF012 - msgspec copies it
    variant: tuple[Variant, ...] = ()


@dataclass(frozen=True)
class SweepRun:
    """One run of a sweep.

    Attributes:
      name: The name of its folder.
      settings: The keys that it changes in the base config.
      config: Its resolved config.
    """

    name: str
    settings: Mapping[str, Any]
    config: Config


def read_grid(path: Path) -> tuple[SweepRun, ...]:
    """Reads a sweep's file and the configs of all its runs.

    Args:
      path: The TOML file.

    Raises:
      InputError: The file or its base config cannot be used, a combination describes no run, or two
        runs would have one name.
    """
    grid = _read(path)
    base = path.parent / grid.base
    table = read_toml(base)
    runs = tuple(
        _run(table, base, name, settings, path)
        for name, settings in bar(list(_combinations(grid)), "configs", "run", delay=1)
    )
    name, times = Counter(run.name for run in runs).most_common(1)[0]
    if times > 1:
        raise InputError(
            f"{path}: {times} runs would be named {name!r}; no value or name may stand twice, "
            "and long values need [[variant]] tables with names"
        )
    return runs


def _read(path: Path) -> GridFile:
    table = read_toml(path)
    _check_keys(table, GridFile, f"{path}:", "")
    for variant in table.get("variant", ()):
        if isinstance(variant, Mapping):
            _check_keys(variant, Variant, f"{path}:", "variant.")
    try:
        grid = msgspec.convert(table, GridFile)
    except msgspec.ValidationError as error:
        raise InputError(f"{path}: {error}") from error
    _check(grid, path)
    return grid


def _check_keys(table: Mapping[str, Any], kind: type[Table], name: str, prefix: str) -> None:
    known = kind.__struct_fields__
    for key in table:
        if key not in known:
            raise InputError(f"{name} unknown key `{prefix}{key}`; {nearest(key, known)}")


def _check(grid: GridFile, path: Path) -> None:
    """Raises an `InputError` where the parts of a sweep's file do not fit together."""
    if not (grid.seeds or grid.grid or grid.variant):
        raise InputError(f"{path}: has one run alone; must have `seeds`, [grid] or [[variant]]")
    for key, values in grid.grid.items():
        if not values:
            raise InputError(f"{path}: key `grid.{key}`: must have a value, got an empty list")
    for variant in grid.variant:
        if not re.fullmatch(r"[\w.-]+", variant.name, re.ASCII) or variant.name.strip(".") == "":
            raise InputError(
                f"{path}: key `variant.name`: must be letters, digits, `_`, `-` and `.`, as it "
                f"names a folder, got {variant.name!r}"
            )
        if both := sorted(variant.set.keys() & grid.grid.keys()):
            raise InputError(f"{path}: key `{both[0]}` stands in [grid] and in {variant.name!r}")
    is_set = "seed" in grid.grid or any("seed" in variant.set for variant in grid.variant)
    if grid.seeds and is_set:
        raise InputError(f"{path}: key `seed` stands beside `seeds`; leave out one of them")


def _combinations(grid: GridFile) -> Iterator[tuple[str, dict[str, Any]]]:
    """The name and the settings of every run: by variant, then by the grid's keys, then by seed."""
    short = _short_names(list(grid.grid))
    axes = [[(key, value) for value in values] for key, values in grid.grid.items()]
    seeds = [[("seed", seed) for seed in grid.seeds]] if grid.seeds else []
    for variant in grid.variant or (Variant(name=""),):
        for chosen in itertools.product(*axes, *seeds):
            parts = (f"{short.get(key, key)}_{_value_name(value)}" for key, value in chosen)
            name = "-".join([*([variant.name] if variant.name else []), *parts])
            yield name, {**variant.set, **dict(chosen)}


def _short_names(keys: Sequence[str]) -> dict[str, str]:
    """The last word of each key, or all words where two keys end alike."""
    lasts = Counter(key.rpartition(".")[2] for key in keys)
    return {
        key: last if lasts[last := key.rpartition(".")[2]] == 1 else key.replace(".", "_")
        for key in keys
    }


def _value_name(value: Any) -> str:
    """A value as a part of a folder's name: `0.1`, `true`, `min_separation`."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float) and math.isfinite(value):
        return f"{value:g}" if float(f"{value:g}") == value else repr(value)
    return re.sub(r"[^\w.-]+", "_", str(value), flags=re.ASCII)


def _run(
    table: Mapping[str, Any], base: Path, name: str, settings: dict[str, Any], path: Path
) -> SweepRun:
    if len(name) > _LONGEST_NAME:
        raise InputError(
            f"{path}: run {name[:40]}…: the name has {len(name)} characters, at most "
            f"{_LONGEST_NAME} fit; put the values into [[variant]] tables with names"
        )
    changed = copy.deepcopy(dict(table))
    label = f"{path}: run {name}"
    for key, value in settings.items():
        set_key(changed, key, value, label)
    config = config_of_table(changed, base, label)
    if config.runtime == "ray":
        raise InputError(
            f"{label}: key `runtime`: must not be 'ray' in a sweep, whose runs are tasks of Ray "
            "themselves; 'local' does the same here"
        )
    return SweepRun(name, settings, config)
