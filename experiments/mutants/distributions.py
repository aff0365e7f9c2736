"""The distribution of rounds: what fixes it, whether two are the same, and what a record tells.

A `Rounds` computes the rounds of a mechanism whose source may be changed. Its noise can be replaced
by numbers, so that means and noise are known exactly and not from samples.
"""

import contextlib
import functools
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from fl_audit import Promise
from fl_audit.checks import AdaptiveClip
from fl_audit.mechanisms.zeroing import AdaptiveZeroing

SHAPES = ((40, 50), (50,), (50, 50), (50,))
COHORT, CLIP_NORM, NOISE_MULTIPLIER, COUNT_STDDEV = 20, 0.3, 0.8, 3.0
ROUNDS = 12
"""The number of rounds of a training with canaries, and of correlated noise."""

Update = list[np.ndarray]

Numbers = Callable[[tuple[int, ...], bytes | None], np.ndarray]
"""Numbers in place of a draw of normal noise, by its shape and by its key, where it has one."""


@dataclass(frozen=True)
class Subject:
    """A mechanism with its promise.

    Attributes:
      make: The mechanism, from the modules that hold its source.
      denominator: What the sum of clipped records is divided by.
      clip_norm: The clip norm that a state says.
      adaptive_clip: What is promised to move the clip norm; None where it is fixed.
      correlation: What correlates noise over rounds; None where each round draws its own.
      zeroing_norm: The largest coordinate of a record that is not counted as zero.
      zeroing_norm_of: The largest coordinate that a state says, of zeroing that adapts.
      adaptive_zeroing: What is promised to move it.
      has_keys: Whether noise is drawn by keys, which may be the same by mistake.
    """

    make: Callable[[Any], Any]
    denominator: float
    clip_norm: Callable[[Any], float]
    adaptive_clip: AdaptiveClip | None = None
    correlation: Any = None
    zeroing_norm: float = math.inf
    zeroing_norm_of: Callable[[Any], float] | None = None
    adaptive_zeroing: AdaptiveZeroing | None = None
    has_keys: bool = False

    def norms(self, state: Any) -> np.ndarray:
        """The norms that a state says, which everybody knows."""
        norms = [self.clip_norm(state)]
        return np.array(
            norms if self.zeroing_norm_of is None else [*norms, self.zeroing_norm_of(state)]
        )

    @property
    def promise(self) -> Promise:
        """The promise as a replay takes it."""
        return Promise(
            clip_norm=CLIP_NORM,
            denominator=self.denominator,
            noise_multiplier=NOISE_MULTIPLIER,
            adaptive_clip=self.adaptive_clip,
            correlation=self.correlation,
            zeroing_norm=self.zeroing_norm,
            adaptive_zeroing=self.adaptive_zeroing,
        )


class Rounds(Protocol):
    """The rounds of a subject, see `queries.QueryRounds` and `jax_rounds.JaxRounds`."""

    subject: Subject

    def start(self, seed: int = 0) -> Any:
        """The state before the first round; a seed fixes what it draws."""

    def summed(self, state: Any, updates: list[Update]) -> Any:
        """The sum of a round's clipped records, and the counts."""

    def released(self, state: Any, total: Any) -> tuple[Any, Update]:
        """The state after a round, and what the round releases."""

    def drawn(self, seed: int, state: Any, updates: list[Update]) -> tuple[Any, Update]:
        """A round with the mechanism's own noise, of a seed."""

    def noise(self, numbers: Numbers) -> contextlib.AbstractContextManager[None]:
        """Puts numbers in place of draws of normal noise."""


def updates(seed: int, number: int = COHORT) -> list[Update]:
    """Updates of which a half is shorter than the clip norm."""
    random = np.random.default_rng(seed)
    made = []
    for index in range(number):
        parts = [random.normal(size=shape).astype(np.float32) for shape in SHAPES]
        norm = math.sqrt(sum(float(np.sum(part**2)) for part in parts))
        length = CLIP_NORM * (0.25 + 1.5 * index / number)
        made.append([part * np.float32(length / norm) for part in parts])
    return made


def _cohorts() -> list[list[Update]]:
    """The cohorts of five rounds: with updates of norm 0 and very long, empty, and too large."""
    zero = [np.zeros(shape, np.float32) for shape in SHAPES]
    extremes = [zero, *_records(np.random.default_rng(6))]
    sizes = (COHORT, COHORT, 0, 3 * COHORT // 2, COHORT)
    return [[*updates(10 + at, size), *extremes * (size > 0)] for at, size in enumerate(sizes)]


def fingerprint(rounds: Rounds, sign: float) -> np.ndarray:
    """What fixes the distribution of five rounds: means, noise by noise, and clip norms.

    All noise of the mechanism is a standard deviation times numbers of this function's own; the
    round is computed with zeros in their place and with independent normal numbers. The difference
    is compared by its size, as a noise's sign changes no distribution. Correlated noise, and noise
    by keys, is compared by its covariance.

    Args:
      rounds: The rounds of the mechanism.
      sign: The sign of the numbers.
    """
    subject, random = rounds.subject, np.random.default_rng(3)
    state = rounds.start()
    parts: list[np.ndarray] = []
    for cohort in _cohorts():
        total = rounds.summed(state, cohort)
        with rounds.noise(_silent):
            silent_state, silent = rounds.released(state, total)
        parts += [*silent, subject.norms(silent_state)]
        with rounds.noise(lambda shape, _: sign * random.normal(size=shape)):
            state, noised = rounds.released(state, total)
        if subject.correlation is None:
            parts += [np.abs(a - b) for a, b in zip(noised, silent, strict=True)]
            parts.append(subject.norms(state))
    if subject.has_keys:
        parts.append(noise_covariance(rounds))
    return np.concatenate([np.ravel(part).astype(np.float64) for part in parts])


def _silent(shape: tuple[int, ...], key: bytes | None) -> np.ndarray:
    del key
    return np.zeros(shape, np.float32)


def _constant(number: float, shape: tuple[int, ...], key: bytes | None) -> np.ndarray:
    del key
    return np.full(shape, number, np.float32)


def noise_covariance(rounds: Rounds) -> np.ndarray:
    """The covariance of noise over rounds and variables, of shape (rounds x variables) squared.

    The n-th key that is seen draws the n-th unit vector, so that a release without records holds
    the weight of each draw; some keys at a time, as many as the smallest variable has coordinates.
    A scalar's draw is zero. Noise that is drawn for one coordinate and used for all of a variable
    shows as a weight of many draws.

    Raises:
      ValueError: There are more keys than a mechanism needs.
    """
    keys: dict[bytes, int] = {}
    width = min(int(np.prod(shape)) for shape in SHAPES)
    largest = max(int(np.prod(shape)) for shape in SHAPES)
    columns = []
    for first in range(0, _MOST_KEYS, width):

        def unit(shape: tuple[int, ...], key: bytes | None, first: int = first) -> np.ndarray:
            vector = np.zeros(int(np.prod(shape)), np.float32)
            at = keys.setdefault(str(len(keys)).encode() if key is None else key, len(keys))
            if vector.size > 1 and first <= at < first + width:
                vector[at - first] = 1.0
            return vector.reshape(shape)

        state, rows = rounds.start(), []
        for _ in range(ROUNDS):
            with rounds.noise(unit):
                state, released = rounds.released(state, rounds.summed(state, []))
            rows += [np.pad(np.ravel(part), (0, largest - np.size(part))) for part in released]
        columns.append(np.array(rows, np.float64))
        if len(keys) <= first + width:
            weights = np.concatenate(columns, 1)
            return np.asarray(weights @ weights.T)
    raise ValueError("more draws of noise than a mechanism needs")


_MOST_KEYS = 500


def are_equal(made: np.ndarray, original: np.ndarray) -> bool:
    """Whether two fingerprints are equal, but for rounding."""
    return made.shape == original.shape and np.allclose(
        made, original, rtol=1e-4, atol=1e-6, equal_nan=True
    )


_UNIT = 0.01
"""A small noise, so that a share that is limited to [0, 1] shows what noise does to it."""


def mu(rounds: Rounds) -> float:
    """The largest mu of a round for one record more, over the rounds of `fingerprint`.

    A round's release, and the count that sets the next clip norm, are Gaussian: mu is the length of
    what a record changes in them over the noise on each number. Records are short, long, very long,
    and long in one variable. Under correlated noise a record is in one round and all are seen.
    """
    if rounds.subject.correlation is not None:
        return _correlated_mu(rounds)
    largest, random = 0.0, np.random.default_rng(5)
    state = rounds.start()
    for cohort in _cohorts():
        total = rounds.summed(state, cohort)
        with rounds.noise(_silent):
            mean = _shown(rounds, state, total)
        spread = np.zeros_like(mean)
        for unit in (_UNIT, -_UNIT):  # at an end of its range a share moves one way alone
            with rounds.noise(functools.partial(_constant, unit)):
                noised = _shown(rounds, state, total)
            spread = np.maximum(spread, np.abs(noised - mean) / _UNIT)
        for record in _records(random):
            with rounds.noise(_silent):
                more = _shown(rounds, state, rounds.summed(state, [*cohort, record]))
            change = np.abs(more - mean)
            change[change <= 3e-6 * np.maximum(1e-3, np.abs(mean))] = 0.0
            ratios = np.divide(change, spread, out=np.zeros_like(change), where=change > 0)
            largest = max(largest, float(np.sqrt(np.sum(ratios**2))))
        with rounds.noise(lambda shape, _: random.normal(size=shape)):
            state, _ = rounds.released(state, total)
    return largest


def _correlated_mu(rounds: Rounds) -> float:
    """The mu of a record in one round: change^T covariance^-1 change, each variable by itself."""
    covariance = noise_covariance(rounds)
    scale = np.max(np.diag(covariance))
    if not np.isfinite(covariance).all() or not np.linalg.eigvalsh(covariance)[0] > 1e-9 * scale:
        return math.inf
    precision = np.diag(np.linalg.inv(covariance)).reshape(ROUNDS, len(SHAPES))
    largest, random = 0.0, np.random.default_rng(5)
    state = rounds.start()
    for cohort in _cohorts():
        with rounds.noise(_silent):
            after, rest = rounds.released(state, rounds.summed(state, cohort))
            for record in _records(random):
                _, whole = rounds.released(state, rounds.summed(state, [*cohort, record]))
                squares = [np.sum((a - b) ** 2) for a, b in zip(whole, rest, strict=True)]
                largest = max(largest, float(np.max(precision @ squares)))
        state = after
    return math.sqrt(largest)


def _records(random: np.random.Generator) -> Iterator[Update]:
    for length in (0.3, 3.0, 1e3):
        yield _record(random, [length] * len(SHAPES))
    for long in range(len(SHAPES)):
        yield _record(random, [3.0 if at == long else 0.1 for at in range(len(SHAPES))])


def _record(random: np.random.Generator, lengths: list[float]) -> Update:
    parts = [random.normal(size=shape) for shape in SHAPES]
    return [
        np.asarray(part * (length * CLIP_NORM / np.linalg.norm(part)), np.float32)
        for part, length in zip(parts, lengths, strict=True)
    ]


def _shown(rounds: Rounds, state: Any, total: Any) -> np.ndarray:
    """What an attacker sees of a round: its release, and the logarithm of the next clip norm."""
    after, released = rounds.released(state, total)
    parts = [np.ravel(np.asarray(part, np.float64)) for part in released]
    return np.concatenate([*parts, [math.log(max(1e-300, rounds.subject.clip_norm(after)))]])
