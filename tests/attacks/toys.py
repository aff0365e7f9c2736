"""A statistic and a threat model from outside the package, each registered for a while."""

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np

from fl_audit.attacks import threat_models
from fl_audit.attacks.all_iterates import AggregateAttacker
from fl_audit.attacks.attacker import Attacker
from fl_audit.attacks.statistics import ONE_VECTOR, Statistic
from fl_audit.attacks.threat_models import (
    STATISTICS,
    THREAT_MODELS,
    Knowledge,
    ThreatModel,
    register_attacker,
    register_threat_model,
)
from fl_audit.errors import InputError

SMALLEST = Statistic(
    name="smallest",
    title="Smallest round",
    meaning="Smallest cosine with the noised update of any round.",
    threat_model="all_iterates",
    canaries="vectors",
    needs=frozenset({"round_cosines"}),
)


class SmallestAttacker(AggregateAttacker):
    """A new statistic of a threat model that is there."""

    statistics = (SMALLEST,)

    @classmethod
    def from_context(cls, context):
        return cls(context.round_cosines, context.num_canaries)

    def scores(self, final):
        return {SMALLEST.name: np.min(list(self._cosines.rows()), axis=0).astype(np.float64)}


FIRST = Statistic(
    name="first",
    title="First round",
    meaning="Cosine with the noised update of the first round.",
    threat_model="first_round",
    canaries="vectors",
    needs=frozenset({"round_cosines"}),
    null_of=lambda facts: ONE_VECTOR,
)


class FirstRoundAttacker(AggregateAttacker):
    """Sees the first round alone."""

    statistics = (FIRST,)

    @classmethod
    def from_context(cls, context):
        return cls(context.round_cosines, context.num_canaries, range(1))

    def scores(self, final):
        (row,) = self._cosines.rows(range(1))
        return {FIRST.name: row.astype(np.float64)}


def _check_rounds(audit, num_rounds):
    if num_rounds < 2:
        raise InputError("key `audit.threat_models`: 'first_round' needs a second round")


FIRST_ROUND = ThreatModel(
    name="first_round",
    title="First round",
    sees=lambda audit: f"the first of the rounds, not the {audit.window_last_round}th",
    attackers=(FirstRoundAttacker,),
    knows=Knowledge.SOME_ROUNDS,
    keys=("window_last_round",),
    rounds=lambda audit, num_rounds: range(1),
    check_rounds=_check_rounds,
)


@contextmanager
def _restored() -> Iterator[None]:
    """Removes in the end whatever is registered inside."""
    attackers, registries = list(threat_models.ATTACKERS), (STATISTICS, THREAT_MODELS)
    known = [set(registry) for registry in registries]
    try:
        yield
    finally:
        threat_models.ATTACKERS[:] = attackers
        for registry, names in zip(registries, known, strict=True):
            for name in set(registry) - names:
                registry.remove(name)


@contextmanager
def registered_attacker(attacker: type[Attacker]) -> Iterator[None]:
    with _restored():
        register_attacker(attacker)
        yield


@contextmanager
def registered_threat_model(model: ThreatModel) -> Iterator[None]:
    with _restored():
        register_threat_model(model)
        yield
