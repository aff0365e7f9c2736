"""The rounds that a replay computes: one server, one seed, and cohorts made to show what is wrong.

A cohort and the client in it who is left out make a trial. The updates are scaled copies of those
that the replay is given, short and long, alone, among a few that differ and among many.
"""

import copy
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from fl_audit.array_types import FloatArray
from fl_audit.errors import InputError
from fl_audit.mechanism_checks.promise import Promise, Update, flat

Server = Callable[[Any, list[list[npt.NDArray[Any]]], np.random.Generator], tuple[Any, Any]]
"""A server's round: state, clients' updates and the round's randomness in; new state and noised
aggregate out, before a server optimizer sees it."""

FAR, SHORT = 10.0, 0.3
"""The lengths of long and short updates, over the clip norm."""

_GRADED = (np.geomspace(0.05, 20, 8), np.geomspace(0.5, 4, 8))
"""The lengths of updates of which some rule may take the longest for outliers."""

_AGAINST_ONE = (2, 3, 5)
"""The numbers of equal clients against whom a rule may take one other for an outlier."""

_MOST_ALONE = 64
"""The number of clients that come alone with one variable made long; in larger models several
variables are long at once."""

_MOST_NUMBERS = 1 << 25
"""The number of numbers in all updates of a round of more clients than the denominator."""


@dataclass(frozen=True, eq=False)
class Answer:
    """A round's new state and release.

    Attributes:
      state: The state after the round.
      release: The release, of shape (dim,).
      draws: The state of the generator after the round: where it differs between two rounds, they
        drew different numbers for their noise.
      spawned: The number of generators that the round made of it, for clients mostly.
    """

    state: Any
    release: FloatArray
    draws: Any
    spawned: int


class TrialRounds:
    """The rounds of one server from one state."""

    def __init__(self, function: Server, state: Any, like: Update, seed: int) -> None:
        """Takes an update that all others are like, and the seed of the recorded round."""
        self._function = function
        self.state = state
        self._seed = seed
        self._like = [np.asarray(part) for part in like]
        self.sizes = [part.size for part in self._like]
        self.dim = sum(self.sizes)
        self._empty: dict[int, Answer] = {}

    def run(self, updates: Sequence[FloatArray], other_seed: int = 0) -> Answer:
        """A round from the state, with the recorded round's seed or another one."""
        if updates:
            return self.go_on(self.state, updates, other_seed)
        if other_seed not in self._empty:
            self._empty[other_seed] = self.go_on(self.state, updates, other_seed)
        return self._empty[other_seed]

    def go_on(self, state: Any, updates: Sequence[FloatArray], other_seed: int) -> Answer:
        """A round from another state, on copies: a server may write on its arguments."""
        sent = [self._shaped(update) for update in updates]
        random = np.random.default_rng(self._seed + other_seed)
        after, release = self._function(copy.deepcopy(state), sent, random)
        numbers = flat(release if isinstance(release, (list, tuple)) else [release])
        if len(numbers) != self.dim:
            raise InputError(
                f"function: must release {self.dim} numbers as an update has, got {len(numbers)}"
            )
        spawned = random.bit_generator.seed_seq.n_children_spawned  # type: ignore[attr-defined]
        return Answer(after, numbers, random.bit_generator.state, spawned)

    def _shaped(self, update: FloatArray) -> list[npt.NDArray[Any]]:
        parts = np.split(update, np.cumsum(self.sizes)[:-1])
        pairs = zip(parts, self._like, strict=True)
        return [part.reshape(like.shape).astype(like.dtype) for part, like in pairs]


@dataclass(frozen=True, eq=False)
class Trial:
    """A round of which one client is left out.

    Attributes:
      words: What the round is, to follow "in a round of" or "of".
      cohort: The clients' updates.
      left: The client that is left out, by number from 0.
    """

    words: str
    cohort: Sequence[FloatArray]
    left: int


@dataclass(frozen=True, eq=False)
class Trials:
    """The maker of a replay's trials.

    Attributes:
      vectors: The updates that the replay is given.
      sizes: The sizes of the model's variables.
      promise: What the mechanism promises.
    """

    vectors: Sequence[FloatArray]
    sizes: Sequence[int]
    promise: Promise

    def recorded(self) -> Iterator[Trial]:
        """The round as it is: its last client left out, a middle one and the first."""
        count = len(self.vectors)
        for left in dict.fromkeys((count - 1, count // 2, 0)):
            yield Trial(f"the recorded round without client {left + 1}", self.vectors, left)

    def alone(self) -> Iterator[Trial]:
        """One client: its update short, about the clip norm, long, and long in each variable."""
        for length in (SHORT, 1.2, 3.0, FAR):
            words = f"one client {length:g} clip norms long"
            yield from self._each(words, [self._scaled(0, length)], [0])
        words, count = "one client with {} long", len(self.sizes)
        yield from self._each(words.format("every variable"), [self._lengthened(0, 1)], [0])
        step = min(count, _MOST_ALONE)
        for first in range(step if count > 1 else 0):
            which = f"variable {first + 1}" if step == count else f"every {step}th variable"
            yield from self._each(words.format(which), [self._lengthened(first, step)], [0])

    def unlike(self) -> Iterator[Trial]:
        """Clients that differ: of graded lengths, every other left out, and opposing camps."""
        for lengths in _GRADED:
            graded = [self._scaled(i, length) for i, length in enumerate(lengths)]
            words = f"{len(lengths)} clients {lengths[0]:g} to {lengths[-1]:g} clip norms long"
            yield from self._each(words, graded, range(1, len(graded), 2))
        one = self._scaled(0, 1.0)
        yield from self._each("two clients against two", [one, one, -one, -one], [3])
        one = self._scaled(0, 3.0)
        for count in _AGAINST_ONE:
            yield from self._each(f"{count} against one", [one] * count + [-one], [0])

    def opposed(self) -> Iterator[Trial]:
        """Clients with one update and one against them, fewer and more than the denominator."""
        many = self.many
        for count in (3,) if many is None else (3, many):
            one = self._scaled(0, 3.0)
            words = f"{count + 1} clients, the last against the others"
            yield from self._each(words, [one] * count + [-2 * count * one], [count])
            one = self._scaled(0, SHORT)
            yield from self._each(f"{words}, all short", [one] * count + [-one], [count])

    @property
    def many(self) -> int | None:
        """The number of clients beyond the denominator; None where they take too much memory."""
        count = max(3, len(self.vectors), math.ceil(self.promise.denominator) + 1)
        return count if (count + 1) * len(self.vectors[0]) <= _MOST_NUMBERS else None

    @property
    def few(self) -> Sequence[FloatArray]:
        """The smallest cohort."""
        return self.vectors[: self.promise.smallest_cohort]

    def _each(
        self, words: str, cohort: Sequence[FloatArray], left_out: Iterable[int]
    ) -> Iterator[Trial]:
        """A round, on top of the smallest cohort, without some of its clients in turn."""
        whole = [*self.few, *cohort]
        return (Trial(words, whole, len(self.few) + left) for left in left_out)

    def _unit(self, index: int) -> float:
        """The clip norm or, without one, the update's length."""
        clip_norm = self.promise.clip_norm
        return clip_norm if math.isfinite(clip_norm) else float(np.linalg.norm(self._of(index)))

    def _of(self, index: int) -> FloatArray:
        return self.vectors[index % len(self.vectors)]

    def _scaled(self, index: int, length: float) -> FloatArray:
        """An update's direction, so many clip norms long."""
        update = self._of(index)
        return update * (length * self._unit(index) / float(np.linalg.norm(update)))

    def _lengthened(self, first: int, step: int) -> FloatArray:
        """A short update with every `step`-th variable, from the first on, made long."""
        changed = self._scaled(0, 0.1)
        ends = np.cumsum(self.sizes)
        for variable in range(first, len(self.sizes), step):
            part = changed[ends[variable] - self.sizes[variable] : ends[variable]]
            if not part.any():
                part += 1.0
            part *= FAR * self._unit(0) / np.linalg.norm(part) if part.size else 1.0
        return changed
