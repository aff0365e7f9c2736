"""Arms: several ways to place canaries, compared in one run.

Canaries are assigned to arms at random, in equal numbers and before anything else is drawn of them.
So what differs between arms, beyond chance, is due to how their canaries participate: everything
else of the run is the same for all. An arm is a name, with a number if the name needs one:

>>> [arm.words for arm in map(read_arm, ("once", "repeats:4", "late:10"))]
['once, at random', 'once in each of 4 equal parts of the run', 'once in the last 10 rounds']

| arm | an included canary's rounds |
|---|---|
| `once` | one, drawn from all |
| `repeats:N` | one in each of N equal parts of the run (Andrew et al. 2023, section 5.3) |
| `each_epoch:E` | one in each epoch of E rounds (section 4) |
| `poisson:Q` | each round by a coin of probability Q |
| `min_separation:B` | every B-th round, the first one at random |
| `random_allocation:K` | K, drawn from all without replacement |
| `early:R` | one, drawn from the first R rounds |
| `late:R` | one, drawn from the last R rounds |
| `every_round` | all |
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from fl_audit.array_types import IndexArray
from fl_audit.errors import InputError, nearest
from fl_audit.number_words import count
from fl_audit.participation.client_patterns import without_replacement
from fl_audit.participation.schedule import CanaryAttendance, ParticipationTable, Roster
from fl_audit.seeds import Stream, generator

_WORDS = {
    "once": "once, at random",
    "repeats": "once in each of {} equal parts of the run",
    "each_epoch": "once in each epoch of {} rounds",
    "poisson": "each round with probability {}",
    "min_separation": "every {} rounds",
    "random_allocation": "{} rounds, at random",
    "early": "once in the first {} rounds",
    "late": "once in the last {} rounds",
    "every_round": "every round",
}
"""The rounds of an arm's canaries in words, by its name; braces are its number."""


@dataclass(frozen=True)
class Arm:
    """A way to place canaries; `number` is 0 if the name has none."""

    name: str
    number: float

    @property
    def words(self) -> str:
        return _WORDS[self.name].format(f"{self.number:g}")

    def presences(
        self, members: int, rounds: int, random: np.random.Generator
    ) -> tuple[IndexArray, IndexArray]:
        """The canary, from 0, and the round of each participation, of shape (participations,)."""
        canaries = np.arange(members)
        match self.name:
            case "poisson":
                coins = random.random((members, rounds)) < self.number
                return _participations(coins)
            case "min_separation":
                apart = int(self.number)
                first = random.integers(min(apart, rounds), size=members)
                is_participations = np.arange(rounds) % apart == first[:, None]
                return _participations(is_participations)
            case "random_allocation":
                number = int(self.number)
                sampled = without_replacement(random, rounds, number, members)
                return np.repeat(canaries, number), sampled.ravel()
            case "every_round":
                return _participations(np.ones((members, rounds), bool))
        of_parts = [random.integers(part[0], part[-1] + 1, members) for part in self._parts(rounds)]
        return np.tile(canaries, len(of_parts)), np.concatenate(of_parts)

    def _parts(self, rounds: int) -> list[IndexArray]:
        """The parts of the run, in each of which a canary has one round."""
        number, run = int(self.number), np.arange(rounds)
        match self.name:
            case "repeats":
                return np.array_split(run, number)
            case "each_epoch":
                return np.split(run, np.arange(number, rounds, number))
            case "early":
                return [run[:number]]
            case "late":
                return [run[-number:]]
            case _:
                return [run]


def _participations(presences: npt.NDArray[np.bool_]) -> tuple[IndexArray, IndexArray]:
    """The canary and the round of each True in a table of shape (canaries, rounds)."""
    canaries, rounds = np.nonzero(presences)
    return canaries.astype(np.int64), rounds.astype(np.int64)


def read_arm(text: str) -> Arm:
    """An arm as a config spells it; raises ValueError for an unknown name or a wrong number."""
    name, colon, number = text.partition(":")
    if name not in _WORDS:
        raise ValueError(f"arms: {name!r} is no arm; {nearest(name, _WORDS)}")
    needs_number = "{}" in _WORDS[name]
    if needs_number != bool(colon):
        right = f"{name}:NUMBER" if needs_number else name
        raise ValueError(f"arms: must be {right!r}, got {text!r}")
    if not needs_number:
        return Arm(name, 0)
    is_share = name == "poisson"
    try:
        value = float(number) if is_share else int(number)
    except ValueError:
        value = -1
    if not (0 < value <= 1 if is_share else 1 <= value <= 1_000_000_000):
        wanted = "a probability above 0" if is_share else "a whole number from 1 on"
        raise ValueError(f"arms: {name}:NUMBER needs {wanted}, got {text!r}")
    return Arm(name, value)


def arm_of_canaries(num_arms: int, num_canaries: int, seed: int) -> IndexArray:
    """The arm that each canary of a pool is assigned to, from 0; of shape (num_canaries,)."""
    order = generator(seed, Stream.CANARY_ARMS).permutation(num_canaries)
    arms = np.empty(num_canaries, np.int64)
    arms[order] = np.arange(num_canaries) % num_arms
    return arms


def arm_names(texts: Sequence[str], num_canaries: int, seed: int) -> tuple[str, ...]:
    """The arm of each canary as the config spells it; empty without arms."""
    if not texts:
        return ()
    return tuple(texts[arm] for arm in arm_of_canaries(len(texts), num_canaries, seed))


def arms_attendance(
    texts: Sequence[str], seed: int, roster: Roster, num_rounds: int
) -> CanaryAttendance:
    """The rounds of a pool whose canaries are assigned to arms.

    Accounting bounds epsilon for a canary by that of one with the most rounds of any, and does not
    count on sampling.
    """
    arms = arm_of_canaries(len(texts), len(roster.pool), seed)
    canaries, rounds = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)]
    for index, text in enumerate(texts):
        try:
            arm = read_arm(text)
        except ValueError as error:
            raise InputError(f"canaries.{error}") from error
        if arm.number > num_rounds and arm.name != "min_separation":
            raise InputError(
                f"canaries.arms: {text!r} asks for more than the run has; it has "
                f"{count(num_rounds, 'round')}"
            )
        members = np.flatnonzero(arms == index)
        random = generator(seed, Stream.CANARY_ROUNDS, index + 1)
        arm_canaries, arm_rounds = arm.presences(len(members), num_rounds, random)
        canaries.append(members[arm_canaries])
        rounds.append(arm_rounds)
    table = ParticipationTable(np.concatenate(canaries), np.concatenate(rounds), num_rounds)
    return table.of_canaries(roster.included)
