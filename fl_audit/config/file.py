"""Configs from TOML, with errors of one line, and configs as TOML."""

import datetime
import math
import os
import re
import tomllib
import typing
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, TypeVar

import msgspec
import tomli_w
from msgspec.structs import replace

from fl_audit.attacks.threat_models import (
    THREAT_MODELS,
    check_rounds,
    check_threat_models,
    statistics_of,
)
from fl_audit.config import Config, Table
from fl_audit.config_tables import kinds_of
from fl_audit.config_tables.kinds import key_types, required_keys, table_variants, variants
from fl_audit.config_tables.plugins import import_plugins, with_folders
from fl_audit.errors import InputError, nearest
from fl_audit.estimators import valid_methods
from fl_audit.formats.text_files import check_values, read_toml
from fl_audit.library_words import toml_words, type_words

ConfigType = TypeVar("ConfigType", bound=Table)

DEFAULT_KINDS = {"client": "fed_avg", "server": "sgd", "canaries": "vectors"}
"""The kind of a table that states none, by the table's name."""

_SMALLEST, _LARGEST = 1e-30, 1e30
"""The range of |x| for a number x other than 0; single precision then also holds 1 / x."""


def load_config(path: Path, overrides: Sequence[str] = ()) -> Config:
    """Reads a TOML file and applies `section.key=value` overrides, TOML values or bare strings."""
    return config_of_table(read_tables(path, overrides), path, str(path))


def read_tables(path: Path, overrides: Sequence[str]) -> dict[str, Any]:
    """Reads the tables of any config, and applies overrides as `load_config` does."""
    table = read_toml(path)
    for override in overrides:
        _apply_override(table, override)
    return _with_plugin_folders(table, path.parent)


def config_of_table(table: dict[str, Any], path: Path, name: str) -> Config:
    """Turns the tables of a config file into a `Config` with absolute paths; ignores [attack]."""
    table = _with_plugin_folders(table, path.parent)
    return in_folder(parse_config({k: table[k] for k in table if k != "attack"}, name), path.parent)


def _with_plugin_folders(table: dict[str, Any], folder: Path) -> dict[str, Any]:
    named = "plugins" in table
    return {**table, "plugins": with_folders(table["plugins"], folder)} if named else table


def in_folder(config: ConfigType, folder: Path) -> ConfigType:
    """The config with absolute paths; relative paths start at the folder."""
    tables = {k: t for k, t in msgspec.structs.asdict(config).items() if isinstance(t, Table)}
    tables = {key: _with_absolute_paths(table, folder) for key, table in tables.items()}
    return _with_absolute_paths(replace(config, **tables), folder)


def _with_absolute_paths(table: ConfigType, folder: Path) -> ConfigType:
    """The table with absolute paths; relative paths start at the config file's folder."""
    paths = {k: path for k in table.path_keys if isinstance(path := getattr(table, k), str)}
    return replace(table, **{key: _absolute(folder / path) for key, path in paths.items()})


def _absolute(path: Path) -> str:
    """The path without links in folders; a file that is a link keeps its own name and suffix."""
    if os.path.isdir(path):  # noqa: PTH112 - Path.is_dir raises for a name that is too long
        return os.path.realpath(path)
    return str(Path(os.path.realpath(path.parent)) / path.name)


def parse_config(table: Mapping[str, Any], name: str) -> Config:
    """Turns parsed TOML into a `Config`, with the kinds that its plugins register.

    `name` is for error messages. Plugins without a folder come from `sys.path`.
    """
    import_plugins(table.get("plugins"), name)
    _check_threat_models(table, name)
    config = parse_tables(table, Config, name)
    _check_audit(config, name)
    return config


def load_recorded(path: Path) -> Config:
    """Reads the config file of a trained run by `recorded_config`, with absolute paths."""
    return in_folder(recorded_config(read_toml(path), str(path)), path.parent)


def recorded_config(table: Mapping[str, Any], name: str) -> Config:
    """Turns the config of a trained run into a `Config`; imports no plugin.

    In a run with plugins, tables of unregistered kinds keep their recorded keys and values, and
    names in [audit] may be unknown.
    """
    if not table.get("plugins"):
        return parse_config(table, name)
    types, others = key_types(Config), {}
    for key, value in table.items():
        kinds = kinds_of(types.get(key))
        if (
            kinds is not None
            and isinstance(value, Mapping)
            and value.get("kind") not in list(kinds)
        ):
            try:
                others[key] = kinds.recorded(value)
            except ValueError as error:
                raise InputError(f"{name}: section [{key}]: {error}") from error
    return parse_tables({**table, **others}, Config, name)


def parse_tables(table: Mapping[str, Any], root: type[ConfigType], name: str) -> ConfigType:
    """Turns parsed TOML into a config of type `root`, which has a field for each table."""
    check_values(dict(table), name)
    table = dict(table)
    for key, kind in DEFAULT_KINDS.items():
        if isinstance(value := table.get(key), Mapping):
            table[key] = {"kind": kind, **value}
    _check_keys(table, root, name, "")
    types = key_types(root)
    try:
        converted = {key: _with_kind_of(key, value, types[key]) for key, value in table.items()}
        return msgspec.convert(converted, root)
    except msgspec.ValidationError as error:
        raise InputError(f"{name}: {_readable(str(error), table)}") from error


def _check_threat_models(table: Mapping[str, Any], name: str) -> None:
    """Raises InputError for an unregistered threat model, naming the nearest."""
    audit = table.get("audit")
    listed = audit.get("threat_models") if isinstance(audit, Mapping) else None
    for model in listed if isinstance(listed, list) else ():
        if not isinstance(model, str) or model not in THREAT_MODELS:
            hint = nearest(str(model), THREAT_MODELS)
            raise InputError(f"{name}: key `audit.threat_models`: unknown {model!r}; {hint}")


def _with_kind_of(key: str, value: Any, annotation: Any) -> Any:
    kinds = kinds_of(annotation)
    if kinds is None or isinstance(value, Table):
        return value
    try:
        table = kinds[value["kind"]].table if isinstance(value, Mapping) else Table
        return msgspec.convert(value, table)
    except msgspec.ValidationError as error:
        reason, _, place = str(error).partition(" - at `$")
        raise msgspec.ValidationError(f"{reason} - at `$.{key}{place.rstrip('`')}`") from error


def _check_audit(config: Config, name: str) -> None:
    """Checks the threat models, rounds, statistics and methods of [audit]."""
    check_threat_models(config.audit, name)
    if config.participation.rounds is not None:
        check_rounds(config.audit, config.participation.rounds, name)
    logged = statistics_of(config.canaries, config.audit)
    known = ("all", *(statistic.name for statistic in logged))
    chosen = config.audit.verdict_statistic
    if chosen not in known:
        raise InputError(
            f"{name}: key `audit.verdict_statistic`: this run has no statistic {chosen!r}; "
            f"{nearest(chosen, known)}"
        )
    methods = ("all", *valid_methods(config.canaries.inclusion))
    chosen = config.audit.verdict_method
    if chosen not in methods:
        why = "not valid for this inclusion:" if chosen in valid_methods() else "unknown"
        raise InputError(
            f"{name}: key `audit.verdict_method`: {why} {chosen!r}; {nearest(chosen, methods)}"
        )


def config_to_toml(config: Table) -> str:
    """The resolved config as TOML with all defaults; keys that are None are left out."""
    kept = (datetime.datetime, datetime.date, datetime.time)  # TOML has these types too
    return tomli_w.dumps(_without_none(msgspec.to_builtins(config, builtin_types=kept)))


def _without_none(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_none(item) for key, item in value.items() if item is not None}
    return value


def _readable(message: str, table: Mapping[str, Any]) -> str:
    """Turns msgspec's "... - at `$.a.b[0]`" into "key `a.b[0]`: ..., got 3"."""
    reason, _, place = message.partition(" - at `$.")
    path = place.rstrip("`")
    value: Any = table
    for key, index in re.findall(r"([^.\[\]]+)|\[(\d+)\]", path):
        try:
            value = value[key] if key else value[int(index)]
        except (LookupError, TypeError):
            return f"key `{path}`: {type_words(reason)}"
    is_said = isinstance(value, Mapping) and "Expected" not in reason
    return f"key `{path}`: {type_words(reason, got='' if is_said else _shown(value))}"


def _shown(value: Any) -> str:
    """A value roughly as a config writes it."""
    if isinstance(value, Mapping | list):
        return "a table" if isinstance(value, Mapping) else f"a list of {len(value)} items"
    return str(value).lower() if isinstance(value, bool) else repr(value)


def _check_keys(table: Mapping[str, Any], annotation: Any, name: str, prefix: str) -> None:
    """Raises InputError for the first key that is refused, unknown or missing."""
    table_type, known = _select_variant(table, annotation, name, prefix)
    for key, value in table.items():
        if key in table_type.refused_keys:
            raise InputError(f"{name}: key `{prefix}{key}`: {table_type.refused_keys[key]}")
        if key not in known:
            hint = _in_other_sections(key, prefix) or nearest(key, known)
            raise InputError(f"{name}: unknown key `{prefix}{key}`; {hint}")
        if key in key_types(table_type):
            _check_value(value, key_types(table_type)[key], name, f"{prefix}{key}")
    for key in required_keys(table_type):
        if key not in table:
            what = f"key `{prefix}{key}`" if prefix else f"section [{key}]"
            raise InputError(f"{name}: {what} is missing")


def _in_other_sections(key: str, prefix: str) -> str:
    """A hint that a key belongs to other sections; empty if it does not."""
    sections = {name: table_variants(kinds) for name, kinds in key_types(Config).items()}
    places = [
        f"{section}."
        for section, tables in sections.items()
        if any(key in key_types(table) for table in tables)
    ]
    if not places or prefix in places:
        return ""
    return f"did you mean {' or '.join(f'`{place}{key}`' for place in places)}?"


def _check_value(value: Any, annotation: Any, name: str, path: str) -> None:
    if value is None:  # JSON has null for keys that are not set
        return
    if len(allowed := [each for each in variants(annotation) if each is not type(None)]) == 1:
        (annotation,) = allowed
    if isinstance(value, Mapping) and typing.get_origin(annotation) is not dict:
        _check_keys(value, annotation, name, f"{path}.")
    elif typing.get_origin(annotation) is Literal and value not in typing.get_args(annotation):
        hint = nearest(str(value), typing.get_args(annotation))
        raise InputError(f"{name}: key `{path}`: unknown {value!r}; {hint}")
    elif isinstance(value, float) and not math.isfinite(value):
        raise InputError(f"{name}: key `{path}`: must be finite, got {value}")
    elif isinstance(value, float) and value and not _SMALLEST <= abs(value) <= _LARGEST:
        raise InputError(
            f"{name}: key `{path}`: must be 0 or between {_SMALLEST:g} and {_LARGEST:g} in size, "
            f"got {value:g}"
        )


def _select_variant(
    table: Mapping[str, Any], annotation: Any, name: str, prefix: str
) -> tuple[type[Table], set[str]]:
    tables = table_variants(annotation)
    if not tables:
        raise InputError(f"{name}: key `{prefix.rstrip('.')}` takes a value, not a table")
    tags = {str(t.__struct_config__.tag): t for t in tables if t.__struct_config__.tag}
    if not tags:
        return tables[0], set(key_types(tables[0]))
    if "kind" not in table:
        raise InputError(f"{name}: key `{prefix}kind` is missing; one of {', '.join(tags)}")
    if not isinstance(table["kind"], str) or table["kind"] not in tags:
        hint = nearest(str(table["kind"]), tags)
        raise InputError(f"{name}: key `{prefix}kind`: unknown {table['kind']!r}; {hint}")
    chosen = tags[table["kind"]]
    return chosen, {"kind", *key_types(chosen)}


def _apply_override(table: dict[str, Any], override: str) -> None:
    path, separator, text = override.partition("=")
    keys = path.strip().split(".")
    if not separator or not all(keys):
        raise InputError(f"--set {override}: must be section.key=value")
    set_key(table, path.strip(), _value(text, f"--set {override}"), f"--set {override}")


def set_key(table: dict[str, Any], path: str, value: Any, name: str) -> None:
    """Sets one key of a config file's table, such as `mechanism.noise_multiplier`, in place.

    `name` names the change in the error if a parent of the key is a value.
    """
    *sections, last = path.split(".")
    for key in sections:
        table = table.setdefault(key, {})
        if not isinstance(table, dict):
            raise InputError(f"{name}: `{key}` is a value, not a section")
    table[last] = value


def _value(text: str, name: str) -> Any:
    """The value of TOML text or, if the text is no TOML, the text itself."""
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        return text.strip()
    except (RecursionError, ValueError) as error:
        words = toml_words(error) if isinstance(error, ValueError) else "is nested too deeply"
        raise InputError(f"{name}: is TOML that cannot be read: {words}") from error


# A config as flat `section.key`s, for experiment trackers.


Scalar = bool | int | float | str
"""A value that any experiment tracker accepts as a parameter."""


def flat_keys(
    table: Mapping[str, Any], prefix: str = "", *, tells_apart: bool = False
) -> dict[str, Any]:
    """The values of nested tables by `section.key`.

    With `tells_apart`, tables stay whole whose keys would not tell them apart: in a table such as
    `task.options`, those with a dot in a key, and empty ones.

    >>> flat_keys({"seed": 1, "task": {"kind": "digits"}})
    {'seed': 1, 'task.kind': 'digits'}
    """
    flat: dict[str, Any] = {}
    for key, value in table.items():
        is_table = isinstance(value, Mapping)
        if is_table and not (tells_apart and (not value or any("." in name for name in value))):
            flat |= flat_keys(value, f"{prefix}{key}.", tells_apart=tells_apart)
        elif value != {} or prefix.count(".") > 1:
            flat[prefix + key] = value
    return flat


def flat_scalars(table: Mapping[str, Any]) -> dict[str, Scalar]:
    """The keys and values with lists as text, and without keys that are not set.

    >>> flat_scalars({"task": {"hidden": [64, 32], "path": None}, "seed": 1})
    {'task.hidden': '[64, 32]', 'seed': 1}
    """
    return {
        key: value if isinstance(value, bool | int | float | str) else str(value)
        for key, value in flat_keys(table).items()
        if value is not None
    }
