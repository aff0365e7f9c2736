"""One registry for everything that can be extended: records by name, in the order to show them.

Estimator methods, noise distributions, statistics, threat models, runtimes, and the kinds of a config's
tables (`fl_audit.config_tables`) are records; a new one, here or in another package, is one module
and one call of `register`.

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
    """Records by their `name`, in the order in which they were registered."""

    def __init__(self, thing: str) -> None:
        """Starts without records.

        Args:
          thing: The word for one record, in the singular, for messages.
        """
        self.thing = thing
        self._records: dict[str, Record] = {}

    def register(self, record: Record) -> Record:
        """Adds a record, the last in the order, and returns it.

        Raises:
          ValueError: A record has the name already.
        """
        name = self.name_of(record)
        if name in self._records:
            raise ValueError(f"a {self.thing} {name!r} is registered already")
        self._records[name] = record
        return record

    def remove(self, name: str) -> None:
        """Removes a record again, such as one that a test has registered."""
        del self._records[name]

    def name_of(self, record: Any) -> str:
        """The name that a record is found by."""
        return str(record.name)

    def __getitem__(self, name: str) -> Record:
        """The record of a name.

        Raises:
          KeyError: No record has it.
        """
        return self._records[name]

    def __iter__(self) -> Iterator[str]:
        """The names, in the order in which the records were registered."""
        return iter(tuple(self._records))

    def __len__(self) -> int:
        """The number of records."""
        return len(self._records)
