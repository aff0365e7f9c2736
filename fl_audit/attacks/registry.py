"""The registries of threat models, statistics and attackers, in the order to show them.

A new threat model, here or in another package, is one module and one `register_threat_model`; a new
statistic of a threat model that exists is one module and one `register_attacker`.
"""

from collections.abc import Iterator
from typing import Generic, Protocol, TypeVar

from fl_audit.attacks.attacker import Attacker
from fl_audit.attacks.statistic import Statistic
from fl_audit.attacks.threat_model import ThreatModel


class _Named(Protocol):
    @property
    def name(self) -> str: ...


NamedType = TypeVar("NamedType", bound=_Named)


class ByName(Generic[NamedType]):
    """Records by name, in the order in which they were registered."""

    def __init__(self, thing: str) -> None:
        """Starts without records.

        Args:
          thing: The word for one record, in the singular, for messages.
        """
        self._thing = thing
        self._records: dict[str, NamedType] = {}

    def register(self, record: NamedType) -> None:
        """Adds a record.

        Raises:
          ValueError: Another record has the name.
        """
        if self._records.setdefault(record.name, record) != record:
            raise ValueError(f"a {self._thing} {record.name!r} is registered already")

    def remove(self, name: str) -> None:
        """Removes a record, such as one that a test has registered."""
        del self._records[name]

    def get(self, name: str) -> NamedType | None:
        """The record of a name; None where there is none."""
        return self._records.get(name)

    @property
    def names(self) -> tuple[str, ...]:
        """The names of all records, in order."""
        return tuple(self._records)

    def __iter__(self) -> Iterator[NamedType]:
        """Iterates over the records, in order."""
        return iter(tuple(self._records.values()))


THREAT_MODELS = ByName[ThreatModel]("threat model")
STATISTICS = ByName[Statistic]("statistic")

_attackers: list[type[Attacker]] = []


def attackers() -> tuple[type[Attacker], ...]:
    """The registered attackers."""
    return tuple(_attackers)


def register_threat_model(model: ThreatModel) -> ThreatModel:
    """Adds a threat model with its attackers and their statistics, and returns it.

    Raises:
      ValueError: A name is taken.
    """
    THREAT_MODELS.register(model)
    for attacker in model.attackers:
        register_attacker(attacker)
    return model


def register_attacker(attacker: type[Attacker]) -> type[Attacker]:
    """Adds an attacker with its statistics, and returns it.

    Raises:
      ValueError: A statistic's name is taken, or its threat model is not registered.
    """
    for statistic in attacker.statistics:
        register_statistic(statistic)
    _attackers.append(attacker)
    return attacker


def register_statistic(statistic: Statistic) -> None:
    """Adds a statistic; its attacker may be registered elsewhere, as it may need TensorFlow.

    Raises:
      ValueError: The name is taken, or the threat model is not registered.
    """
    if THREAT_MODELS.get(statistic.threat_model) is None:
        raise ValueError(
            f"statistic {statistic.name!r}: no threat model {statistic.threat_model!r} is "
            "registered"
        )
    STATISTICS.register(statistic)


def remove_attacker(attacker: type[Attacker]) -> None:
    """Removes an attacker, with the statistics that no other attacker computes."""
    _attackers.remove(attacker)
    kept = {statistic.name for other in _attackers for statistic in other.statistics}
    for statistic in attacker.statistics:
        if statistic.name not in kept:
            STATISTICS.remove(statistic.name)


def remove_threat_model(model: ThreatModel) -> None:
    """Removes a threat model, with its attackers."""
    for attacker in model.attackers:
        remove_attacker(attacker)
    THREAT_MODELS.remove(model.name)
