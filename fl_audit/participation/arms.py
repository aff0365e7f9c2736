"""Arms: several ways to place canaries, compared in one run.

Canaries are assigned to arms at random, in numbers that differ by at most one, and independently of
any other draw. All else in the run is the same for all canaries, so differences between arms beyond
chance are due to participation. An arm is a name, with one or two numbers if the name needs them:

>>> [arm.words for arm in map(read_arm, ("once", "repeats:4", "late:10"))]
['once, at random', 'once in each of 4 equal parts of the run', 'once in the last 10 rounds']

| arm | an included canary's rounds |
|---|---|
| `once` | one, drawn from all |
| `repeats:N` | one in each of N equal parts of the run (Andrew et al. 2023, section 5.3) |
| `each_epoch:E` | one in each epoch of E rounds (Andrew et al. 2023, section 4) |
| `poisson:Q` | each round by a coin of probability Q |
| `min_separation:B` | every B-th round, the first one at random |
| `random_allocation:K` | K, drawn from all without replacement |
| `early:R`, `early:R/N` | one, or one in each of N equal parts, of the first R rounds |
| `late:R`, `late:R/N` | the same of the last R rounds |
| `cyclic_poisson:G/E` | drawn by coins among the turns of one of G groups; E on average |
| `b_min_sep:B/E` | drawn by coins, at least B rounds apart; E on average |
| `every_round` | all |
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from fl_audit.accounting.sampling import OneRoundPerBlock, Sampling
from fl_audit.accounting.samplings.balls_in_bins import BallsInBinsSampling
from fl_audit.accounting.samplings.cyclic_poisson import CyclicPoissonSampling
from fl_audit.accounting.samplings.min_separation import MinSeparationSampling
from fl_audit.accounting.samplings.poisson import PoissonSampling
from fl_audit.accounting.samplings.random_allocation import AllocatedRounds
from fl_audit.array_types import IntArray
from fl_audit.errors import InputError, nearest
from fl_audit.number_words import count
from fl_audit.participation.placement import equal_parts
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
    "cyclic_poisson": "the turns of one of {} groups, by coins",
    "b_min_sep": "rounds that are at least {} apart, by coins",
    "every_round": "every round",
}
"""The rounds of an arm's canaries in words, by the arm's name; the number replaces the braces."""


_BY_COINS = ("cyclic_poisson", "b_min_sep")
"""The arms whose second number is a mean number of rounds."""

_MOST = 1_000_000_000


@dataclass(frozen=True)
class Arm:
    """A way to place canaries.

    Attributes:
      number: The first number after the name; 0 without one.
      parts: For `early` and `late` the number of equal parts, with one round in each; for
        `cyclic_poisson` and `b_min_sep` the mean number of rounds; otherwise 1.
    """

    name: str
    number: float
    parts: int = 1

    @property
    def words(self) -> str:
        words = _WORDS[self.name].format(f"{self.number:g}")
        if self.name in _BY_COINS:
            return f"{words}, {self.parts} on average"
        in_parts = f"once in each of {self.parts} equal parts of"
        return words if self.parts == 1 else words.replace("once in", in_parts)

    def sampling(self, rounds: int) -> Sampling:
        """The distribution of a canary's rounds; raises ValueError if the run is too short."""
        number = int(self.number)
        if number > rounds and self.name != "min_separation":
            raise ValueError(
                f"arms: '{self.name}:{number}' asks for more than the run's "
                f"{count(rounds, 'round')}"
            )
        match self.name:
            case "poisson" | "every_round":
                return PoissonSampling(self.number or 1.0)
            case "min_separation":
                return BallsInBinsSampling(min(number, rounds), rounds)
            case "random_allocation":
                return AllocatedRounds(number, rounds)
            case "cyclic_poisson":
                turns = -(-rounds // number)
                return CyclicPoissonSampling(self._share(rounds) * number, number, turns)
            case "b_min_sep":
                share = self._share(rounds)
                coin = min(share / (1 - (number - 1) * share), 1.0)  # rounding may exceed 1
                return MinSeparationSampling(coin, number, rounds)
            case "each_epoch":
                lengths: Iterable[int] = [number] * (rounds // number) + [rounds % number]
            case "repeats":
                lengths = map(len, equal_parts(range(rounds), number))
            case _:
                lengths = map(len, equal_parts(range(number or rounds), self.parts))
        return OneRoundPerBlock.of_lengths(lengths, rounds - number if self.name == "late" else 0)

    def _share(self, rounds: int) -> float:
        """A canary's mean share of the run's rounds; raises ValueError if above 1 / `number`."""
        if self.parts * self.number > rounds:
            raise ValueError(
                f"arms: '{self.name}:{self.number:g}/{self.parts}' asks for {self.parts} rounds on "
                f"average; the run's {count(rounds, 'round')} allow {int(rounds // self.number)}"
            )
        return self.parts / rounds


def read_arm(text: str) -> Arm:
    """Parses an arm in a config; raises ValueError for an unknown name or a wrong number."""
    name, colon, number = text.partition(":")
    if name not in _WORDS:
        raise ValueError(f"arms: {name!r} is no arm; {nearest(name, _WORDS)}")
    needs_number = "{}" in _WORDS[name]
    if needs_number != bool(colon) or (name in _BY_COINS and "/" not in number):
        right = f"{name}:NUMBER{'/MEAN' * (name in _BY_COINS)}" if needs_number else name
        raise ValueError(f"arms: must be {right!r}, got {text!r}")
    if not needs_number:
        return Arm(name, 0)
    is_share, parts = name == "poisson", "1"
    if name in ("early", "late", *_BY_COINS) and "/" in number:
        number, _, parts = number.partition("/")
    try:
        value, of_parts = float(number) if is_share else int(number), int(parts)
    except ValueError:
        value = of_parts = -1
    most = _MOST if name in _BY_COINS else value
    if not (0 < value <= 1 if is_share else 1 <= value <= _MOST and 1 <= of_parts <= most):
        wanted = f"{name}:NUMBER needs a whole number from 1 on"
        if is_share:
            wanted = f"{name}:NUMBER needs a probability above 0"
        elif name in _BY_COINS:
            wanted = f"{name}:NUMBER/MEAN needs whole numbers from 1 on"
        elif "/" in text:
            wanted = (
                f"{name}:ROUNDS/PARTS needs whole numbers from 1 on, and no more parts than rounds"
            )
        raise ValueError(f"arms: {wanted}, got {text!r}")
    return Arm(name, value, of_parts)


def arm_of_canaries(num_arms: int, num_canaries: int, seed: int) -> IntArray:
    """The index of each canary's arm, from 0; int64 of shape (num_canaries,)."""
    order = generator(seed, Stream.CANARY_ARMS).permutation(num_canaries)
    arms = np.empty(num_canaries, np.int64)
    arms[order] = np.arange(num_canaries) % num_arms
    return arms


def arm_names(texts: Sequence[str], num_canaries: int, seed: int) -> tuple[str, ...]:
    """The arm of each canary, written as in the config; empty without arms."""
    if not texts:
        return ()
    return tuple(texts[arm] for arm in arm_of_canaries(len(texts), num_canaries, seed))


def arms_attendance(
    texts: Sequence[str], seed: int, roster: Roster, num_rounds: int
) -> CanaryAttendance:
    """The rounds of a pool with arms; `texts` are the arms as in the config.

    Accounting takes the largest number of rounds of any included canary, without amplification by
    sampling.
    """
    arms = arm_of_canaries(len(texts), len(roster.pool), seed)
    rounds = [np.zeros(0, np.int64)] * len(arms)
    for index, text in enumerate(texts):
        try:
            sampling = read_arm(text).sampling(num_rounds)
        except ValueError as error:
            raise InputError(f"canaries.{error}") from error
        members = np.flatnonzero(arms == index)
        random = generator(seed, Stream.CANARY_ROUNDS, index + 1)
        present = sampling.draw(num_rounds, len(members), random)
        for member, of_member in zip(members, present.T, strict=True):
            rounds[member] = np.flatnonzero(of_member)
    table = ParticipationTable.of_members(roster.pool, rounds, num_rounds)
    return table.of_canaries(roster.included)
