"""A commented config to start from."""

import textwrap
from collections.abc import Iterator, Mapping

import tomli_w

from fl_audit.config.keys import Key, TableOfKeys, config_tables
from fl_audit.errors import InputError, nearest
from fl_audit.tasks.kinds import TASKS

_HEAD = """\
# A run of fl_audit: what it trains, how, and what it is audited for. A key that is commented out
# shows its default.
"""

_KINDS = {
    "mechanism": "gaussian_adaptive",
    "participation": "shuffle",
    "canaries": "vectors",
    "client": "fed_avg",
    "server": "sgd",
}
"""The kind that a starting point has of each table but the task."""

_VALUES: Mapping[str, Mapping[str, object]] = {
    "": {"seed": 1},
    "client": {"learning_rate": 0.1},
    "server": {"learning_rate": 1.0},
    "mechanism": {"noise_multiplier": 0.3, "clip_norm": 1.0},
    "participation": {"rounds": 100, "clients_per_round": 20},
    "canaries": {"count": 500},
    "audit": {"delta": 1e-3},
}
"""The keys that a starting point sets, with numbers that suit the digits task."""

_VALUES_OF_KIND: Mapping[str | None, Mapping[str, object]] = {
    "numbers": {"num_clients": 342_477, "dim": 4_050_748},
}
"""The keys that it sets in a table of some kind, with the numbers of Stack Overflow's LSTM."""


def starting_config(task: str) -> str:
    """A config of a task in TOML, where each key has its meaning as a comment.

    Keys with a default stand there commented out. Where a task needs keys of its own, such as a
    path, they say "FILL IN".

    Args:
      task: The kind of the task.

    Raises:
      InputError: No task of this kind is registered.
    """
    known = [str(table.__struct_config__.tag) for table in TASKS.tables]
    if task not in known:
        raise InputError(f"unknown task {task!r}; {nearest(task, known)}")
    kinds = {"task": task, **_KINDS}
    tables = list(config_tables())
    chosen = [t for t in tables if "." not in t.name and t.kind in (None, kinds.get(t.name))]
    return _HEAD + "\n".join(line for table in chosen for line in _section(table, tables)) + "\n"


def _section(table: TableOfKeys, tables: list[TableOfKeys]) -> Iterator[str]:
    if table.name:
        yield ""
        yield from _comment(table.meaning)
        yield f"[{table.name}]"
    if table.kind is not None:
        others = [str(t.kind) for t in tables if t.name == table.name and t.kind != table.kind]
        yield f'kind = "{table.kind}"' + (f"  # or {', '.join(others)}" if others else "")
    values = {**_VALUES.get(table.name, {}), **_VALUES_OF_KIND.get(table.kind, {})}
    for key in table.keys:
        yield from _comment(key.meaning)
        yield _line(key, values)


def _comment(text: str) -> list[str]:
    return textwrap.wrap(text, 98, initial_indent="# ", subsequent_indent="# ")


def _line(key: Key, values: Mapping[str, object]) -> str:
    if key.name in values:
        return tomli_w.dumps({key.name: values[key.name]}).strip()
    if key.is_required:
        return f'{key.name} = "FILL IN"'
    return f"# {key.name} = {key.default or '…'}"
