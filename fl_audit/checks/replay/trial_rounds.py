"""The parts of a replay: the promise, the rounds that are computed, and the file of checks.

A mechanism's promise bounds the effect of one client on a release. A trial is a cohort and the
client to leave out. The cohort is the recorded round's, or has scaled copies of the given updates:
a short or a long one, alone, among a few different ones or among many.
"""

import copy
import json
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt

from fl_audit.accounting.release import Correlation
from fl_audit.array_types import FloatArray
from fl_audit.checks.check import Check
from fl_audit.checks.whitening import new_in_round
from fl_audit.errors import InputError
from fl_audit.formats.text_files import read_foreign, write_text
from fl_audit.json_records import from_json, to_json
from fl_audit.library_words import json_words
from fl_audit.mechanisms.adaptive_clip import AdaptiveClip
from fl_audit.mechanisms.zeroing import AdaptiveZeroing

# The promise.


Update = Sequence[npt.NDArray[Any]]
"""An update or a release: an array for each variable of the model."""


@dataclass(frozen=True, kw_only=True)
class Promise:
    """A round releases (the sum of its clients' parts + Gaussian noise) / denominator.

    A client's part has at most the clip norm; it may be a clipped update, a normalised one, or one
    with a bound for each variable. The noise is N(0, (noise_multiplier clip_norm)^2) on each
    coordinate, independent between rounds and of the updates. With a `correlation`, this is the
    distribution of independent rows z, or of a tree's nodes, and the noise is C^-1 z, or the
    tree's.

    Attributes:
      clip_norm: The largest norm of a client's part of the sum, positive; infinite without
        clipping: the part then has at most the update's norm.
      denominator: The divisor of the sum, positive, the same for any participants.
      noise_multiplier: The standard deviation of the noise on a coordinate of the sum, over the
        clip norm; None if the noise has another distribution and is not checked.
      zeroing_norm: The largest absolute coordinate of an update that is not replaced by zeros.
      smallest_cohort: The number of clients in the smallest round of the mechanism; 0 under Poisson
        sampling.
      correlation: The matrix (`accounting.toeplitz.Toeplitz`) or the trees
        (`accounting.tree_nodes.Trees`) that correlate noise over rounds; None if noise is
        independent over rounds.
      rounds_before: The number of rounds before the one that is replayed.
      adaptive_clip: The update rule of the clip norm; None if the clip norm is fixed.
      adaptive_zeroing: The update rule of the zeroing norm; None if this norm is fixed or not
        promised.

    Raises:
      InputError: A value is out of range.
    """

    clip_norm: float
    denominator: float
    noise_multiplier: float | None
    zeroing_norm: float = math.inf
    smallest_cohort: int = 0
    correlation: Correlation | None = None
    rounds_before: int = 0
    adaptive_clip: AdaptiveClip | None = None
    adaptive_zeroing: AdaptiveZeroing | None = None

    def __post_init__(self) -> None:
        for name in ("clip_norm", "denominator", "zeroing_norm"):
            if not getattr(self, name) > 0:
                raise InputError(f"{name}: must be positive, got {getattr(self, name)}")
        if self.noise_multiplier is not None and not 0 <= self.noise_multiplier < math.inf:
            raise InputError(f"noise_multiplier: must be at least 0, got {self.noise_multiplier}")
        if self.smallest_cohort < 0:
            raise InputError(f"smallest_cohort: must be at least 0, got {self.smallest_cohort}")
        if self.rounds_before < 0:
            raise InputError(f"rounds_before: must be at least 0, got {self.rounds_before}")

    @property
    def sensitivity(self) -> float:
        """The largest change of a release by one client, as an L2 norm."""
        return self.clip_norm / self.denominator

    @property
    def noise_stddev(self) -> float | None:
        """The standard deviation of independent noise on a coordinate of a release, if promised."""
        if self.noise_multiplier is None:
            return None
        return self.noise_multiplier * self.sensitivity if self.noise_multiplier else 0.0

    def new_noise(self, later: int = 0) -> float | None:
        """The standard deviation of new noise in the round, or `later` rounds on, if promised."""
        if self.noise_stddev is None:
            return None
        return self.noise_stddev * new_in_round(self.correlation, self.rounds_before + later)


def flat(update: Update) -> FloatArray:
    """Flattens an update to shape (dim,), float64."""
    parts = [np.asarray(part, np.float64).ravel() for part in update]
    return np.concatenate(parts) if parts else np.zeros(0)


def most_of(update: FloatArray, promise: Promise) -> float:
    """The largest norm in a release that the promise allows this update."""
    if np.abs(update).max(initial=0.0) > promise.zeroing_norm:
        return 0.0
    if np.isfinite(promise.clip_norm):
        return promise.sensitivity
    return float(np.linalg.norm(update)) / promise.denominator


# The file of a replay's checks.


def write_replay(path: Path, checks: Sequence[Check]) -> None:
    write_text(path, json.dumps(to_json(checks), indent=1) + "\n")


def read_replay(path: Path) -> tuple[Check, ...]:
    """Reads the checks; empty if there is no file."""
    try:
        return tuple(from_json(tuple[Check, ...], msgspec.json.decode(read_foreign(path))))
    except FileNotFoundError:
        return ()
    except (OSError, ValueError) as error:
        raise InputError(f"{path}: is not the record of a replay: {json_words(error)}") from error


# The trials, of one server and one seed.


Server = Callable[[Any, list[list[npt.NDArray[Any]]], np.random.Generator], tuple[Any, Any]]
"""A server's round: state, clients' updates and the round's randomness in; new state and noised
aggregate out, before a server optimizer sees it."""

FAR, SHORT = 10.0, 0.3
"""The norms of long and short updates, over the clip norm."""

_GRADED = (np.geomspace(0.05, 20, 8), np.geomspace(0.5, 4, 8))
"""Norms of updates, over the clip norm; a server's rule might treat the longest as outliers."""

_AGAINST_ONE = (2, 3, 5)
"""Numbers of equal clients among which a server's rule might treat another one as an outlier."""

_MOST_ALONE = 64
"""The largest number of trials of a single client with one long variable; in models with more
variables, several are long at once.
"""

_MOST_NUMBERS = 1 << 25
"""The largest number of values in all updates of a round with more clients than the denominator."""


@dataclass(frozen=True, eq=False)
class Answer:
    """A round's new state and release."""

    state: Any
    release: FloatArray  # the release, of shape (dim,)
    # the state of the generator after the round; rounds with different states drew different noise
    draws: Any
    spawned: int  # the number of generators spawned from that one, mostly for clients


class TrialRounds:
    """The rounds of one server from one state."""

    def __init__(self, function: Server, state: Any, like: Update, seed: int) -> None:
        """All updates have the shapes and dtypes of `like`; the seed is the recorded round's."""
        self._function = function
        self.state = state
        self._seed = seed
        self._like = [np.asarray(part) for part in like]
        self.sizes = [part.size for part in self._like]
        self.dim = sum(self.sizes)
        self._empty: dict[int, Answer] = {}

    def run(self, updates: Sequence[FloatArray], other_seed: int = 0) -> Answer:
        """A round from the state; `other_seed` is added to the recorded round's seed."""
        if updates:
            return self.go_on(self.state, updates, other_seed)
        if other_seed not in self._empty:
            self._empty[other_seed] = self.go_on(self.state, updates, other_seed)
        return self._empty[other_seed]

    def go_on(self, state: Any, updates: Sequence[FloatArray], other_seed: int) -> Answer:
        """A round from any state, on copies, because a server may write to its arguments."""
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
    """A cohort, and the client to leave out of it."""

    words: str  # the cohort, to precede a colon
    cohort: Sequence[FloatArray]
    left: int  # the client that is left out, by number from 0


@dataclass(frozen=True, eq=False)
class Trials:
    """Generates a replay's trials from the given updates."""

    vectors: Sequence[FloatArray]
    sizes: Sequence[int]
    promise: Promise

    def recorded(self) -> Iterator[Trial]:
        """The recorded round without its last client, a middle one, or the first."""
        count = len(self.vectors)
        for left in dict.fromkeys((count - 1, count // 2, 0)):
            yield Trial(f"the recorded round without client {left + 1}", self.vectors, left)

    def alone(self) -> Iterator[Trial]:
        """A single client: short, about the clip norm, long, or long in one variable."""
        for length in (SHORT, 1.2, 3.0, FAR):
            words = f"one client {length:g} clip norms long"
            yield from self._each(words, [self.scaled(0, length)], [0])
        words, count = "one client with {} long", len(self.sizes)
        yield from self._each(words.format("every variable"), [self._lengthened(0, 1)], [0])
        step = min(count, _MOST_ALONE)
        for first in range(step if count > 1 else 0):
            which = f"variable {first + 1}" if step == count else f"every {step}th variable"
            yield from self._each(words.format(which), [self._lengthened(first, step)], [0])

    def unlike(self) -> Iterator[Trial]:
        """Clients of graded norms, with every second left out in turn; and opposing groups."""
        for lengths in _GRADED:
            graded = [self.scaled(i, length) for i, length in enumerate(lengths)]
            words = f"{len(lengths)} clients {lengths[0]:g} to {lengths[-1]:g} clip norms long"
            yield from self._each(words, graded, range(1, len(graded), 2))
        update = self.scaled(0, 1.0)
        yield from self._each("two clients against two", [update, update, -update, -update], [3])
        update = self.scaled(0, 3.0)
        for count in _AGAINST_ONE:
            yield from self._each(f"{count} against one", [update] * count + [-update], [0])

    def opposed(self) -> Iterator[Trial]:
        """Equal clients against an opposite one: a few equal ones, or more than the denominator."""
        many = self.many
        for count in (3,) if many is None else (3, many):
            update = self.scaled(0, 3.0)
            words = f"{count + 1} clients, the last against the others"
            yield from self._each(words, [update] * count + [-2 * count * update], [count])
            update = self.scaled(0, SHORT)
            yield from self._each(f"{words}, all short", [update] * count + [-update], [count])

    @property
    def many(self) -> int | None:
        """A number of clients above the denominator; None if that takes too much memory."""
        count = max(3, len(self.vectors), math.ceil(self.promise.denominator) + 1)
        return count if (count + 1) * len(self.vectors[0]) <= _MOST_NUMBERS else None

    @property
    def few(self) -> Sequence[FloatArray]:
        """The smallest cohort."""
        return self.vectors[: self.promise.smallest_cohort]

    def _each(
        self, words: str, cohort: Sequence[FloatArray], left_out: Iterable[int]
    ) -> Iterator[Trial]:
        """A trial of the smallest cohort with these clients for each client in `left_out`."""
        whole = [*self.few, *cohort]
        return (Trial(words, whole, len(self.few) + left) for left in left_out)

    def _unit(self, index: int) -> float:
        """The clip norm or, without one, the update's norm."""
        clip_norm = self.promise.clip_norm
        return clip_norm if math.isfinite(clip_norm) else float(np.linalg.norm(self._of(index)))

    def _of(self, index: int) -> FloatArray:
        return self.vectors[index % len(self.vectors)]

    def scaled(self, index: int, length: float) -> FloatArray:
        """An update's direction, `length` clip norms long."""
        update = self._of(index)
        return update * (length * self._unit(index) / float(np.linalg.norm(update)))

    def _lengthened(self, first: int, step: int) -> FloatArray:
        """A short update with every `step`-th variable, from `first` on, long."""
        changed = self.scaled(0, 0.1)
        ends = np.cumsum(self.sizes)
        for variable in range(first, len(self.sizes), step):
            part = changed[ends[variable] - self.sizes[variable] : ends[variable]]
            if not part.any():
                part += 1.0
            part *= FAR * self._unit(0) / np.linalg.norm(part) if part.size else 1.0
        return changed
