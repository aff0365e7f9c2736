"""Participation patterns: the record that a pattern's module registers, and the registry."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from fl_audit.formats.folders import RunRecord
from fl_audit.kinds import Registry, Table
from fl_audit.participation.schedule import Roster, Schedule

TableType = TypeVar("TableType", bound=Table)


class Participation:
    """The base class, beside `Table`, of every pattern's config table."""

    __slots__ = ()

    @property
    def rounds(self) -> int | None:
        """The number of rounds of training; None where only the schedule knows it."""
        return None


@dataclass(frozen=True)
class ParticipationPattern(Generic[TableType]):
    """The description of one participation pattern.

    The rounds that one member may be in, which accounting needs, come with its schedule.

    Attributes:
      table: The class of the config table, a `Participation`.
      schedule: The function from a table, the run's seed and the roster to a schedule. It raises an
        `InputError` where keys contradict each other or do not fit the population.
      client_rounds: A sentence for the report on the rounds of real clients, from the record of a
        finished run and the table.
      canary_rounds: Words for the report on the rounds of an included canary, which end the
        sentence "Its rounds are ...".
      names_clients: Whether the table names real clients, so that none of them may be taken out
        of the population to be a canary.
    """

    table: type[TableType]
    schedule: Callable[[TableType, int, Roster], Schedule]
    client_rounds: Callable[[RunRecord, TableType], str]
    canary_rounds: Callable[[TableType], str]
    names_clients: bool


PATTERNS = Registry[ParticipationPattern[Any]]("participation pattern", Participation)
"""All participation patterns; a new pattern is a module that registers its own record."""
