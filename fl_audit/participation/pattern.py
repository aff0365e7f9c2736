"""Participation patterns: what a pattern's module registers, and how it is found."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from fl_audit.formats.run_folder import RunRecord
from fl_audit.kinds import Registry, Table
from fl_audit.participation.schedule import Roster, Schedule

TableType = TypeVar("TableType", bound=Table)


class Participation:
    """The base of every pattern's config table, beside `Table`."""

    __slots__ = ()

    @property
    def rounds(self) -> int | None:
        """Rounds of training; None where the table does not say, but its schedule does."""
        return None


@dataclass(frozen=True)
class ParticipationPattern(Generic[TableType]):
    """Everything that is known of one pattern.

    What accounting needs of it, the rounds that one member may be in, comes with its schedule.

    Attributes:
      table: The config table, a `Participation`.
      schedule: Makes the schedule of a table, the run's seed and everybody who may take part. It
        raises an `InputError` where keys contradict each other or do not fit the population.
      client_rounds: A sentence for the report on the rounds of real clients, from the record of a
        finished run and the table.
      canary_rounds: Words for the report on which rounds those of an included canary are, which
        end the sentence "Its rounds are ...".
      names_clients: Whether the table names real clients, so that none of them may be taken out
        of the population to be a canary.
    """

    table: type[TableType]
    schedule: Callable[[TableType, int, Roster], Schedule]
    client_rounds: Callable[[RunRecord, TableType], str]
    canary_rounds: Callable[[TableType], str]
    names_clients: bool


PATTERNS = Registry[ParticipationPattern[Any]]("participation pattern", Participation)
"""All patterns; another one is a module that registers its own."""
