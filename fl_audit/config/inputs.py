"""The inputs of a run besides its config: small files, the user's code, and the clients' data.

A config names inputs by path, so replacing one changes the run without changing the config.
`inputs.json` in a run's folder has the digests of complete files and modules. Of the data it has
the number of clients and a digest of some clients' examples.
"""

import hashlib
import importlib.util
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from fl_audit.config.run_tables import Config
from fl_audit.config_tables.plugins import module_file
from fl_audit.errors import InputError
from fl_audit.formats.folders import RunFolder
from fl_audit.formats.round_chain import digest_of
from fl_audit.formats.text_files import read_json, write_text
from fl_audit.tasks.learning_task import Examples, LearningTask
from fl_audit.tasks.task_kinds import PythonTask

MOST_CLIENTS = 64
"""The largest number of clients whose examples are in the digest of the data."""

_MOST_EXAMPLES = 1_000
"""The largest number of examples of a client, and of held-out examples, in the digest."""

PREFIX = "inputs."
"""The prefix of the keys of inputs, which distinguishes them from config keys."""


class Inputs(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The inputs of a run besides its config.

    Attributes:
      files: The SHA-256 of each file that mechanism, participation or canaries name, by key.
      code: The SHA-256 of each custom module, by its name.
      clients: The number of clients.
      examples: The number of all examples of the clients that are in the digest.
      data: The SHA-256 of all clients' names, some clients' examples, and held-out examples.
      task: What run.json records of the task: its name, the meaning of its accuracy, and the kind
        of its labels.
    """

    files: dict[str, str]
    code: dict[str, str]
    task: dict[str, str]
    clients: int
    examples: int
    data: str

    def keys(self) -> dict[str, Any]:
        """The values by key; keys begin with `PREFIX`."""
        flat: dict[str, Any] = {
            f"{PREFIX}clients": self.clients,
            f"{PREFIX}examples": self.examples,
            f"{PREFIX}data": self.data,
        }
        flat |= {f"{PREFIX}{key}": value for key, value in self.files.items()}
        flat |= {f"{PREFIX}task.{key}": value for key, value in self.task.items()}
        return flat | {f"{PREFIX}code.{name}": value for name, value in self.code.items()}


def read_inputs(config: Config, task: LearningTask) -> Inputs:
    """Reads the inputs of a run."""
    population = task.population
    names = population.client_ids
    count = min(len(names), MOST_CLIENTS)
    chosen = np.linspace(0, len(names) - 1, count).astype(np.int64).tolist() if count else []
    data = hashlib.sha256("\n".join(map(str, names)).encode())
    examples = 0
    for client in chosen:
        size = population.num_examples(client)
        examples += size
        _add(data, population.take(client, _spread(size)))
    _add(data, task.held_out.take(_spread(len(task.held_out))))
    files = {key: digest_of(path) for key, path in input_files(config)}
    code = {name: digest_of(path) for name, path in _modules(config)}
    said = {
        "task": task.name,
        "accuracy_description": task.classifier.accuracy_description,
        "labels": task.labels,
    }
    return Inputs(files, code, said, len(names), examples, data.hexdigest())


def input_files(config: Config) -> Iterator[tuple[str, Path]]:
    """The files named by a run's mechanism, participation and canaries, by key."""
    for section in ("mechanism", "participation", "canaries"):
        table = getattr(config, section)
        for key in getattr(table, "path_keys", ()):
            path = getattr(table, key, None)
            if path is not None and key != "store_path":  # a cache, not an input
                yield f"{section}.{key}", Path(path)


def _modules(config: Config) -> Iterator[tuple[str, Path]]:
    """The custom modules, by name: plugins, and the task's module."""
    plugins = config.plugins or ()
    named = [
        (Path(folder) if folder else None, name)  # without a folder, on Python's path
        for folder, _, name in (plugin.rpartition("/") for plugin in plugins)
    ]
    if isinstance(config.task, PythonTask):
        named.append((Path(config.task.folder), config.task.module.partition(":")[0]))
    for folder, name in named:
        found = module_file(name, folder) if folder else None
        if found is None:
            spec = importlib.util.find_spec(name)
            found = None if spec is None or spec.origin is None else Path(spec.origin)
        if found is not None:
            yield name, found


def _spread(size: int) -> Any:
    """Evenly spaced indices below `size`, at most _MOST_EXAMPLES."""
    return np.arange(0, size, max(1, math.ceil(size / _MOST_EXAMPLES)))


def _add(digest: Any, examples: Examples) -> None:
    for array in (examples.inputs, examples.labels):
        digest.update(f"{array.dtype.str}{array.shape}".encode())
        digest.update(np.ascontiguousarray(array).data)


def write_recorded_inputs(folder: RunFolder, inputs: Inputs) -> None:
    """Writes the inputs of a run into its folder."""
    text = msgspec.json.format(msgspec.json.encode(inputs)).decode()
    write_text(folder.inputs, text + "\n")


def read_recorded_inputs(folder: RunFolder) -> Inputs:
    """Reads the inputs of the run in a folder."""
    return read_json(folder.inputs, Inputs, "the record of a run's inputs")


def check_same_inputs(folder: RunFolder, inputs: Inputs) -> None:
    """Refuses to resume a run whose inputs have changed.

    If a run without a chain yet lacks inputs.json, the file is written.
    """
    if not folder.inputs.exists() and not folder.chain.exists():
        write_recorded_inputs(folder, inputs)  # the process was killed before it wrote them
    earlier, now = read_recorded_inputs(folder).keys(), inputs.keys()
    for key in sorted({*earlier, *now}):
        if earlier.get(key) != now.get(key):
            raise InputError(
                f"{folder.path}: {words_of_input(key)} changed since the run began; restore the "
                "original, or start a new run"
            )


def words_of_input(key: str) -> str:
    """A subject and its verb for the key of an input.

    >>> words_of_input("inputs.data"), words_of_input("inputs.mechanism.coefficients")
    ("the clients' data have", 'the file `mechanism.coefficients` has')
    """
    name = key.removeprefix(PREFIX)
    if name == "clients":
        return "the number of clients has"
    if name in ("examples", "data"):
        return "the clients' data have"
    if name.startswith("task."):
        return "the task's description has"
    module = name.removeprefix("code.")
    return f"the module `{module}` has" if module != name else f"the file `{name}` has"
