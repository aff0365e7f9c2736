"""Record and replay of a round: the same round again with one thing changed, all noise held fixed.

A mechanism promises that one client changes what a round releases by a known amount and in a known
way (`Promise`). With the same randomness the noise of two rounds cancels, so that this needs no
canaries and no statistics: a difference is compared, number by number, with the promised one.
"""

import copy
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from fl_audit.array_types import FloatArray
from fl_audit.errors import InputError
from fl_audit.mechanism_checks.finding import Finding, Ruler, failed
from fl_audit.mechanism_checks.promise import Promise, Update, flat, promised
from fl_audit.mechanism_checks.replayed_noise import noise_findings, resolution_finding

Server = Callable[[Any, list[list[npt.NDArray[Any]]], np.random.Generator], tuple[Any, Any]]
"""A server's round: state, clients' updates and the round's randomness in; new state and noised
aggregate out, before a server optimizer sees it."""

_FAR = 10.0
"""The length of a scaled variable, over the clip norm or, without one, the update's length."""


@dataclass(frozen=True, eq=False)
class Replay:
    """The outcome of a replay.

    Attributes:
      findings: What was expected and what was measured, comparison by comparison.
      sensitivity: The change of each variable of the release, and last of the whole, by leaving
        the first client out, float64 of shape (variables + 1,); NaN where the round cannot be
        repeated.
    """

    findings: tuple[Finding, ...]
    sensitivity: FloatArray

    @property
    def passed(self) -> bool:
        """Whether the round is as promised in everything that was looked at."""
        return all(finding.passed for finding in self.findings)

    @property
    def failed(self) -> tuple[str, ...]:
        """The names of the findings that failed."""
        return tuple(finding.name for finding in self.findings if not finding.passed)

    def __str__(self) -> str:
        """A line for each finding."""
        return "\n".join(map(str, self.findings))


def replay_round(
    function: Server, state: Any, updates: Sequence[Update], seed: int, promise: Promise
) -> Replay:
    """Computes a round several times and compares the differences with the promised ones.

    The rounds are: as it is; in reverse order; without one client; with a variable of every client
    made long and one client twice; with another seed. Rounds of the smallest cohort come on top,
    mostly without any client. A replay so costs five rounds.

    Args:
      function: The server's round, which takes all its randomness from the generator that it is
        given; see `Server`.
      state: The state that the round starts from; it is copied for each round.
      updates: The clients' updates, at least 2, each a sequence of arrays, one for each variable of
        the model. With at least as many as variables each variable is tried by itself.
      seed: The seed of the round's generator, at least 0.
      promise: What the mechanism promises.

    Returns:
      The findings; where the round cannot be repeated, that alone.

    Raises:
      InputError: There are fewer than two updates, they differ in their shapes, are empty or not
        finite, or the function releases another number of numbers.
    """
    vectors, rounds = _checked(updates), _Rounds(function, state, updates[0], seed)
    recorded, turned = rounds.run(vectors), rounds.run(vectors[::-1])
    ruler = Ruler(rounds.sizes, promise, float(np.linalg.norm(recorded.release)))
    nothing = np.zeros(rounds.dim)
    order = ruler.compare(
        "order",
        "the order of the clients changes nothing",
        turned.release - recorded.release,
        nothing,
        vectors,
    )
    if not order.passed:
        again = rounds.run(vectors).release - recorded.release
        words = "the same round with the same seed releases the same"
        repeated = ruler.compare("repeatable", words, again, nothing, vectors)
        if not repeated.passed:
            return Replay((repeated,), np.full(len(rounds.sizes) + 1, np.nan))
    change = recorded.release - rounds.run(vectors[1:]).release
    one = ruler.compare(
        "one_client",
        "leaving out client 1 takes its clipped update off the release, "
        f"at most {promise.sensitivity:.3g} long",
        change,
        promised(vectors[:1], promise, rounds.dim),
        vectors,
    )
    against = _against_smallest(rounds, recorded, vectors, ruler)
    other = rounds.run(vectors, 1)
    noise = _noise(recorded.release - other.release, ruler)
    return Replay((order, one, *against, *noise), ruler.lengths(change))


@dataclass(frozen=True, eq=False)
class _Answer:
    """A round's new state and release."""

    state: Any
    release: FloatArray


class _Rounds:
    """The rounds of one server from one state."""

    def __init__(self, function: Server, state: Any, like: Update, seed: int) -> None:
        """Takes an update that all others are like, and the seed of the recorded round."""
        self._function = function
        self._state = state
        self._seed = seed
        self._like = [np.asarray(part) for part in like]
        self.sizes = [part.size for part in self._like]
        self.dim = sum(self.sizes)

    def run(self, updates: Sequence[FloatArray], other_seed: int = 0) -> _Answer:
        """A round from the state, with the recorded round's seed or another one."""
        return self.go_on(self._state, updates, other_seed)

    def go_on(self, state: Any, updates: Sequence[FloatArray], other_seed: int) -> _Answer:
        """A round from another state, on copies: a server may write on its arguments."""
        sent = [self._shaped(update) for update in updates]
        random = np.random.default_rng(self._seed + other_seed)
        after, release = self._function(copy.deepcopy(state), sent, random)
        numbers = flat(release if isinstance(release, (list, tuple)) else [release])
        if len(numbers) != self.dim:
            raise InputError(
                f"function: must release {self.dim} numbers as an update has, got {len(numbers)}"
            )
        return _Answer(after, numbers)

    def _shaped(self, update: FloatArray) -> list[npt.NDArray[Any]]:
        parts = np.split(update, np.cumsum(self.sizes)[:-1])
        pairs = zip(parts, self._like, strict=True)
        return [part.reshape(like.shape).astype(like.dtype) for part, like in pairs]


def _checked(updates: Sequence[Update]) -> list[FloatArray]:
    """The updates as vectors."""
    if len(updates) < 2:
        raise InputError(f"updates: must be at least 2, got {len(updates)}")
    shapes = [[np.shape(part) for part in update] for update in updates]
    for number, shape in enumerate(shapes, start=1):
        if shape != shapes[0] or not shape:
            raise InputError(f"updates: number {number} has shapes {shape}, the first {shapes[0]}")
    vectors = [flat(update) for update in updates]
    for number, vector in enumerate(vectors, start=1):
        if not np.isfinite(vector).all() or not vector.any():
            raise InputError(f"updates: number {number} must be finite and not all zeros")
    return vectors


def _against_smallest(
    rounds: _Rounds, recorded: _Answer, vectors: list[FloatArray], ruler: Ruler
) -> Iterator[Finding]:
    """The findings by comparison with the smallest round, in which noise is mostly alone."""
    few = vectors[: ruler.promise.smallest_cohort]
    name = "smallest_round"
    words = f"a round of {len(few)} clients releases their sum and noise"
    try:
        smallest = rounds.run(few)
    except InputError:
        raise
    except Exception as error:
        yield failed(name, words, f"{type(error).__name__}: {error}")
        return
    if not np.isfinite(smallest.release).all():
        yield failed(name, words, "numbers that are not finite")
        return
    yield ruler.compare(
        "every_client",
        "every client counts once, clipped",
        recorded.release - smallest.release,
        promised(vectors[len(few) :], ruler.promise, rounds.dim),
        vectors,
    )
    long = [_lengthened(i, vector, len(vectors), ruler) for i, vector in enumerate(vectors)]
    long.append(long[-1])
    before = promised(few, ruler.promise, rounds.dim)
    yield ruler.compare(
        "clip",
        "with one variable made long a client still counts clipped, by the norm of the whole "
        "update; a client that comes twice counts twice",
        rounds.run(long).release - smallest.release,
        promised(long, ruler.promise, rounds.dim) - before,
        long[:-1],
    )
    yield from _memory(rounds, recorded, smallest, few, ruler)
    noise = smallest.release - before
    if not few and ruler.promise.noise_stddev:
        yield resolution_finding(noise)


def _lengthened(index: int, update: FloatArray, count: int, ruler: Ruler) -> FloatArray:
    """A client's update with every `count`-th variable, from its own on, made long."""
    changed = update.copy()
    clip_norm = ruler.promise.clip_norm
    length = _FAR * (clip_norm if np.isfinite(clip_norm) else float(np.linalg.norm(update)))
    ends = np.cumsum(ruler.sizes)
    for variable in range(index % len(ruler.sizes), len(ruler.sizes), max(count, 1)):
        part = changed[ends[variable] - ruler.sizes[variable] : ends[variable]]
        if not part.any():
            part += 1.0
        part *= length / np.linalg.norm(part) if part.size else 1.0
    return changed


def _memory(
    rounds: _Rounds,
    recorded: _Answer,
    smallest: _Answer,
    few: list[FloatArray],
    ruler: Ruler,
) -> Iterator[Finding]:
    """Whether the next round still releases something of this round's clients.

    Noise may be longer or shorter then, as a clip norm that follows the updates makes it; what is
    not along it comes from the clients.
    """
    if recorded.state is None:
        return
    after = rounds.go_on(recorded.state, few, 2).release
    quiet = rounds.go_on(smallest.state, few, 2).release
    square = float(quiet @ quiet)
    along = float(after @ quiet) / square if square else 0.0
    yield ruler.compare(
        "memory",
        "a client's update is released in its own round alone",
        after - along * quiet,
        np.zeros(rounds.dim),
        [],
    )


def _noise(difference: FloatArray, ruler: Ruler) -> Iterator[Finding]:
    """The findings on noise, where the promise is about it."""
    stddev = ruler.promise.noise_stddev
    if stddev is None:
        return
    resolution = float(np.finfo(np.float32).eps) * ruler.magnitude
    if stddev > resolution:
        yield from noise_findings(difference, stddev, ruler.sizes)
