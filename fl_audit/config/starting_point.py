"""A commented config to start from."""

import textwrap
from collections.abc import Iterator, Mapping

import msgspec

from fl_audit.config.file import DEFAULT_KINDS
from fl_audit.config.reference import Key, TableOfKeys, config_tables, toml_line
from fl_audit.config.run_tables import Config
from fl_audit.errors import InputError, nearest
from fl_audit.tasks.task_kinds import TASKS

_FILE_HEAD = """\
# A run of fl_audit: what it trains, how, and what it is audited for. A key that is commented out
# shows its default. Paths are relative to this file's folder.
"""

_KINDS = {
    "mechanism": "gaussian_adaptive",
    "participation": "shuffle",
    **DEFAULT_KINDS,
}
"""The kind of each table except the task."""

_Values = Mapping[str, object]

_VALUES: Mapping[str, _Values] = {
    "": {"seed": 1},
    "client": {"learning_rate": 0.1},
    "server": {"learning_rate": 1.0},
    "mechanism": {"noise_multiplier": 0.3, "clip_norm": 1.0},
    "participation": {"rounds": 100, "clients_per_round": 20},
    "canaries": {"count": 1000, "family": "hadamard"},
}
"""The keys that are set, by table. Half of 1,000 canaries are included, five in each of 100 rounds
of 20 clients. Delta follows from the number of clients.
"""

_STACK_OVERFLOW: Mapping[str, _Values] = {
    "client": {"learning_rate": 1.0},
    "server": {"learning_rate": 0.56},
    "mechanism": {"noise_multiplier": 0.2344, "clip_norm": 0.1},
    "participation": {"rounds": 2048, "clients_per_round": 167},
    "canaries": {"count": 2000, "family": "hadamard"},
}
"""One epoch of 342,477 clients, as in experiments/stackoverflow (Andrew et al. section 5)."""

_VALUES_OF_TASK: Mapping[str, Mapping[str, _Values]] = {
    "breast_cancer": {"task": {"num_clients": 100, "hidden": [128]}},
    "cifar10": {"client": {"learning_rate": 0.1, "batch_size": 20}},
    "digits": {
        "client": {"learning_rate": 0.1, "batch_size": 5},
        "canaries": {"count": 500},
        "audit": {"delta": 1e-3},
    },
    "emnist": {
        "client": {"learning_rate": 0.1, "batch_size": 20},
        "mechanism": {"noise_multiplier": 0.3, "clip_norm": 0.1},
        "participation": {"rounds": 170, "clients_per_round": 20},
    },
    "numbers": {"task": {"num_clients": 342_477, "dim": 4_050_748}, **_STACK_OVERFLOW},
    "purchase100": {"task": {"num_clients": 1000, "hidden": [128]}},
    "stackoverflow": _STACK_OVERFLOW,
    "text": {
        "client": {"learning_rate": 0.3},
        "mechanism": {"noise_multiplier": 0.3, "clip_norm": 0.3},
    },
    "wine": {"task": {"num_clients": 100, "hidden": [128]}},
}
"""Tables that replace those of `_VALUES` for a task: for digits as in docs/tutorial.md; for Stack
Overflow, EMNIST and text as in experiments/. A linear model of wines has only 42 parameters, too
few for a thousand different directions.
"""

_NOTES: Mapping[tuple[str, str], str] = {
    ("participation", "canaries"): (
        'For a verdict on clients write "once_per_epoch": canaries then participate as often as '
        "clients, and a claim can be consistent with the audit. With fewer rounds it can only be "
        "contradicted. Each included canary then joins a round of every epoch: rounds take longer, "
        "accuracy falls a little, and where canaries outnumber clients you need fewer canaries."
    ),
}
"""Notes added to a key's meaning, by table and key."""

_LEFT_OUT = {
    field.name
    for field in msgspec.structs.fields(Config)
    if field.default is None or field.default is msgspec.UNSET
}
"""Optional tables, commented out: [ray], for example, is refused with another runtime."""


def starting_config(task: str) -> str:
    """A config of a task in TOML, with each key's meaning as a comment.

    Keys not set in this module are commented out; required keys, such as a path, say "FILL IN".
    """
    known = list(TASKS)
    if task not in known:
        raise InputError(f"unknown task {task!r}; {nearest(task, known)}")
    kinds, values = {"task": task, **_KINDS}, {**_VALUES, **_VALUES_OF_TASK.get(task, {})}
    tables = list(config_tables())
    chosen = [t for t in tables if "." not in t.name and t.kind in (None, kinds.get(t.name))]
    return (
        _FILE_HEAD
        + "\n".join(line for table in chosen for line in _file_section(table, tables, values))
        + "\n"
    )


def _file_section(
    table: TableOfKeys, tables: list[TableOfKeys], values: Mapping[str, _Values]
) -> Iterator[str]:
    if table.name:
        yield ""
        yield from _comment(table.meaning)
        yield f"# [{table.name}]" if table.name in _LEFT_OUT else f"[{table.name}]"
    if table.kind is not None:
        others = [str(t.kind) for t in tables if t.name == table.name and t.kind != table.kind]
        yield f'kind = "{table.kind}"' + (f"  # or {', '.join(others)}" if others else "")
    for key in table.keys:
        yield from _comment(" ".join([key.meaning, _NOTES.get((table.name, key.name), "")]).strip())
        yield _line(key, values.get(table.name, {}))


def _comment(text: str) -> list[str]:
    return textwrap.wrap(text, 98, initial_indent="# ", subsequent_indent="# ")


def _line(key: Key, values: _Values) -> str:
    if key.name in values:
        return toml_line(key.name, values[key.name])
    if key.is_required:
        return f'{key.name} = "FILL IN"'
    return f"# {key.name} = {key.default or '…'}"
