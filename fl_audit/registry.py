"""One registry for everything that can be extended: records by name, in the order of registration.

Records are estimator methods, noise distributions, statistics, threat models, runtimes, and the
kinds of a config's tables (`fl_audit.config_tables`). A new record, here or in another package, is
one module and one call of `register`.

>>> from types import SimpleNamespace
>>> shapes = Registry("shape")
>>> circle = shapes.register(SimpleNamespace(name="circle"))
>>> list(shapes), shapes["circle"] is circle, shapes.get("square")
(['circle'], True, None)
>>> shapes.register(SimpleNamespace(name="circle"))
Traceback (most recent call last):
ValueError: a shape 'circle' is registered already
"""

from collections.abc import Iterator, Mapping
from typing import Any, TypeVar

Record = TypeVar("Record")


class Registry(Mapping[str, Record]):
    """Records by their `name`, in the order in which they were registered.

    `thing` is the word for one record in messages.
    """

    def __init__(self, thing: str) -> None:
        self.thing = thing
        self._records: dict[str, Record] = {}

    def register(self, record: Record) -> Record:
        """Adds a record at the end and returns it; ValueError if the name is taken."""
        name = self.name_of(record)
        if name in self._records:
            raise ValueError(f"a {self.thing} {name!r} is registered already")
        self._records[name] = record
        return record

    def remove(self, name: str) -> None:
        """Removes a record, such as one from a test."""
        del self._records[name]

    def name_of(self, record: Any) -> str:
        """The key of a record."""
        return str(record.name)

    def __getitem__(self, name: str) -> Record:
        """The record of a name."""
        return self._records[name]

    def __iter__(self) -> Iterator[str]:
        """The names, in the order of registration."""
        return iter(tuple(self._records))

    def __len__(self) -> int:
        """The number of records."""
        return len(self._records)
