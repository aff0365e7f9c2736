"""tensorflow-privacy's queries as subjects: rounds, the law of what they release, and its mu."""

import contextlib
import functools
import importlib
import math
import sys
import types
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import tensorflow

from experiments.mutants import numpy_tf
from fl_audit.checks import AdaptiveClip

PACKAGE = "tensorflow_privacy.privacy.dp_query"
MODULES = (
    "gaussian_query",
    "normalized_query",
    "quantile_estimator_query",
    "quantile_adaptive_clip_sum_query",
)
CLASSES = (
    "GaussianSumQuery",
    "NormalizedQuery",
    "QuantileEstimatorQuery",
    "QuantileAdaptiveClipSumQuery",
)

SHAPES = ((40, 50), (50,), (50, 50), (50,))
COHORT, CLIP_NORM, NOISE_MULTIPLIER, COUNT_STDDEV = 20, 0.3, 0.8, 3.0

Update = list[np.ndarray]


@functools.cache
def source(module: str) -> str:
    """The released source of a module."""
    return Path(importlib.import_module(f"{PACKAGE}.{module}").__file__ or "").read_text()


@contextlib.contextmanager
def loaded(module: str, text: str, *, on_numpy: bool = False) -> Iterator[types.SimpleNamespace]:
    """The modules with one of them changed, all loaded anew; what is imported elsewhere stays.

    Args:
      module: The module that is changed; empty for none.
      text: Its source.
      on_numpy: Whether NumPy computes in TensorFlow's place.
    """
    package = importlib.import_module(PACKAGE)
    made: dict[str, Any] = {"tf": numpy_tf.module if on_numpy else tensorflow}
    with contextlib.ExitStack() as stack:
        for name in ("dp_query", *MODULES):
            fresh = types.ModuleType(f"{PACKAGE}.{name}")
            exec(compile(text if name == module else source(name), name, "exec"), fresh.__dict__)
            fresh.__dict__["tf"] = made["tf"]
            stack.enter_context(patch.dict(sys.modules, {f"{PACKAGE}.{name}": fresh}))
            stack.enter_context(patch.object(package, name, fresh))
            made[name] = fresh
        with np.errstate(all="ignore"):
            yield types.SimpleNamespace(**made)


@dataclass(frozen=True)
class Subject:
    """A query with its promise.

    Attributes:
      make: The query, from the modules.
      denominator: What the sum of clipped records is divided by.
      clip_norm: The clip norm that a state says.
      mu: The mu of one round for a record, of all that is released.
      adaptive_clip: What is promised to move the clip norm; None where it is fixed.
    """

    make: Callable[[types.SimpleNamespace], Any]
    denominator: float
    clip_norm: Callable[[Any], float]
    mu: float
    adaptive_clip: AdaptiveClip | None = None


MEAN = Subject(
    make=lambda of: of.normalized_query.NormalizedQuery(
        of.gaussian_query.GaussianSumQuery(CLIP_NORM, NOISE_MULTIPLIER * CLIP_NORM), COHORT
    ),
    denominator=COHORT,
    clip_norm=lambda _: CLIP_NORM,
    mu=1 / NOISE_MULTIPLIER,
)
ADAPTIVE = Subject(
    make=lambda of: of.quantile_adaptive_clip_sum_query.QuantileAdaptiveClipSumQuery(
        initial_l2_norm_clip=CLIP_NORM,
        noise_multiplier=NOISE_MULTIPLIER,
        target_unclipped_quantile=0.4,
        learning_rate=0.2,
        clipped_count_stddev=COUNT_STDDEV,
        expected_num_records=COHORT,
    ),
    denominator=1.0,
    clip_norm=lambda state: float(state.sum_state.l2_norm_clip),
    mu=math.hypot(1 / NOISE_MULTIPLIER, 0.5 / COUNT_STDDEV),
    adaptive_clip=AdaptiveClip(
        target_quantile=0.4, learning_rate=0.2, count_stddev=COUNT_STDDEV, denominator=COHORT
    ),
)
SUBJECT_OF = dict(zip(MODULES, (MEAN, MEAN, ADAPTIVE, ADAPTIVE), strict=True))


@dataclass(frozen=True, eq=False)
class Rounds:
    """The rounds of a subject's query.

    Attributes:
      subject: The subject.
      modules: The modules of `loaded`.
      query: The query.
    """

    subject: Subject
    modules: types.SimpleNamespace
    query: Any

    @classmethod
    def of(cls, subject: Subject, modules: types.SimpleNamespace) -> "Rounds":
        """The rounds of the query that the modules make."""
        return cls(subject, modules, subject.make(modules))

    def start(self) -> Any:
        """The state before the first round, of NumPy's numbers."""
        state = self.query.initial_global_state()
        return self.modules.tf.nest.map_structure(np.asarray, state)

    def summed(self, state: Any, updates: list[Update]) -> Any:
        """The sum of a round's preprocessed records."""
        tf, query = self.modules.tf, self.query
        params = query.derive_sample_params(state)
        total = query.initial_sample_state([tf.zeros(shape) for shape in SHAPES])
        for update in updates:
            record = [tf.constant(part, tf.float32) for part in update]
            total = query.accumulate_preprocessed_record(
                total, query.preprocess_record(params, record)
            )
        return total

    def released(self, state: Any, total: Any) -> tuple[Any, Update]:
        """The state after a round, and what the round releases."""
        made, after, _ = self.query.get_noised_result(total, state)
        released = [np.asarray(part) for part in made]
        if [part.shape for part in released] != list(SHAPES):
            raise ValueError("what is released has another shape than an update")
        return self.modules.tf.nest.map_structure(np.asarray, after), released

    def drawn(self, seed: int, state: Any, updates: list[Update]) -> tuple[Any, Update]:
        """A round with the query's own noise, of a seed."""
        self.modules.tf.random.set_seed(seed)
        return self.released(state, self.summed(state, updates))

    @contextlib.contextmanager
    def noise(self, numbers: Callable[[Any], Any]) -> Iterator[None]:
        """The query's normal noise is a standard deviation times numbers of a shape."""
        tf = self.modules.tf

        def normal(
            shape: Any,
            mean: Any = 0.0,
            stddev: Any = 1.0,
            dtype: Any = tf.float32,
            seed: Any = None,
        ) -> Any:
            of_shape = tf.constant(numbers(np.asarray(shape)), dtype)
            return tf.cast(mean, dtype) + tf.cast(stddev, dtype) * of_shape

        def initializer(mean: float = 0.0, stddev: float = 0.05, seed: Any = None) -> Callable:
            return lambda shape, dtype=tf.float32: normal(shape, mean, stddev, dtype)

        with (
            patch.object(tf, "random_normal_initializer", initializer),
            patch.object(tf.random, "normal", normal),
        ):
            yield


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
    """The cohorts of five rounds: with an update of norm 0, empty, and larger than expected."""
    zero = [np.zeros(shape, np.float32) for shape in SHAPES]
    sizes = (COHORT, COHORT, 0, 3 * COHORT // 2, COHORT)
    return [[*updates(10 + at, size), *[zero] * (size > 0)] for at, size in enumerate(sizes)]


def fingerprint(rounds: Rounds, sign: float) -> np.ndarray:
    """What fixes the distribution of five rounds: means, noise by noise, and clip norms.

    All noise of the query is a standard deviation times numbers of this function's own; the round
    is computed with zeros in their place and with independent normal numbers. The difference is
    compared by its size, as a noise's sign changes no distribution.

    Args:
      rounds: The rounds of the query.
      sign: The sign of the numbers.
    """
    found: list[np.ndarray] = []
    state, random = rounds.start(), np.random.default_rng(3)
    for cohort in _cohorts():
        total = rounds.summed(state, cohort)
        with rounds.noise(np.zeros):
            silent_state, silent = rounds.released(state, total)
        with rounds.noise(lambda shape: sign * random.normal(size=shape)):
            state, noised = rounds.released(state, total)
        found += silent
        found += [np.abs(a - b) for a, b in zip(noised, silent, strict=True)]
        clip_norm = rounds.subject.clip_norm
        found += [np.array([clip_norm(silent_state), clip_norm(state)])]
    return np.concatenate([np.ravel(part).astype(np.float64) for part in found])


def are_equal(made: np.ndarray, original: np.ndarray) -> bool:
    """Whether two fingerprints are equal, but for rounding."""
    return made.shape == original.shape and np.allclose(
        made, original, rtol=1e-4, atol=1e-6, equal_nan=True
    )


_UNIT = 0.01
"""A small noise, so that a share that is limited to [0, 1] shows what noise does to it."""


def mu(rounds: Rounds) -> float:
    """The largest mu of a round for one record more, over the rounds of `fingerprint`.

    A round's release, and the count behind the next clip norm, are Gaussian: mu is the length of
    what a record changes in them over the noise on each number. Records are short, long, very long,
    and long in one variable.
    """
    largest, random = 0.0, np.random.default_rng(5)
    state = rounds.start()
    for cohort in _cohorts():
        total = rounds.summed(state, cohort)
        with rounds.noise(np.zeros):
            mean = _shown(rounds, state, total)
        spread = np.zeros_like(mean)
        for unit in (_UNIT, -_UNIT):  # at an end of its range a share moves one way alone
            with rounds.noise(functools.partial(np.full, fill_value=unit)):
                noised = _shown(rounds, state, total)
            spread = np.maximum(spread, np.abs(noised - mean) / _UNIT)
        for record in _records(random):
            with rounds.noise(np.zeros):
                more = _shown(rounds, state, rounds.summed(state, [*cohort, record]))
            change = np.abs(more - mean)
            change[change <= 3e-6 * np.maximum(1e-3, np.abs(mean))] = 0.0
            ratios = np.divide(change, spread, out=np.zeros_like(change), where=change > 0)
            largest = max(largest, float(np.sqrt(np.sum(ratios**2))))
        with rounds.noise(lambda shape: random.normal(size=shape)):
            state, _ = rounds.released(state, total)
    return largest


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
