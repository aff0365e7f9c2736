"""tensorflow-privacy's queries as subjects: a round, and the distribution of its release."""

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
import tensorflow as tf

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


def source(module: str) -> str:
    """The released source of a module."""
    return Path(importlib.import_module(f"{PACKAGE}.{module}").__file__ or "").read_text()


@contextlib.contextmanager
def loaded(module: str, text: str) -> Iterator[types.SimpleNamespace]:
    """The modules with one of them changed, all loaded anew; what is imported elsewhere stays."""
    package = importlib.import_module(PACKAGE)
    made: dict[str, types.ModuleType] = {}
    with contextlib.ExitStack() as stack:
        for name in MODULES:
            fresh = types.ModuleType(f"{PACKAGE}.{name}")
            exec(compile(text if name == module else source(name), name, "exec"), fresh.__dict__)
            stack.enter_context(patch.dict(sys.modules, {f"{PACKAGE}.{name}": fresh}))
            stack.enter_context(patch.object(package, name, fresh))
            made[name] = fresh
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
        target_unclipped_quantile=0.5,
        learning_rate=0.2,
        clipped_count_stddev=COUNT_STDDEV,
        expected_num_records=COHORT,
    ),
    denominator=1.0,
    clip_norm=lambda state: float(state.sum_state.l2_norm_clip),
    mu=math.hypot(1 / NOISE_MULTIPLIER, 0.5 / COUNT_STDDEV),
    adaptive_clip=AdaptiveClip(
        target_quantile=0.5, learning_rate=0.2, count_stddev=COUNT_STDDEV, denominator=COHORT
    ),
)
SUBJECT_OF = dict(zip(MODULES, (MEAN, MEAN, ADAPTIVE, ADAPTIVE), strict=True))


def start(query: Any) -> Any:
    """The state before the first round, of NumPy's numbers."""
    return tf.nest.map_structure(np.asarray, query.initial_global_state())


def summed(query: Any, state: Any, updates: list[Update]) -> Any:
    """The sum of a round's preprocessed records."""
    params = tf.nest.map_structure(tf.convert_to_tensor, query.derive_sample_params(state))
    total = query.initial_sample_state([tf.zeros(shape) for shape in SHAPES])
    if not updates:
        return total
    records = [tf.constant(np.array(parts, np.float32)) for parts in zip(*updates, strict=True)]
    return _accumulating(query)(params, total, records)


@functools.lru_cache(maxsize=1)
def _accumulating(query: Any) -> Callable:
    """The way of a round's records into the sum, as one graph: TFF computes it in one, too."""

    @tf.function(autograph=False, reduce_retracing=True)
    def accumulated(params: Any, total: Any, records: list[tf.Tensor]) -> Any:
        def step(at: tf.Tensor, before: Any) -> tuple[tf.Tensor, Any]:
            record = query.preprocess_record(params, [part[at] for part in records])
            return at + 1, query.accumulate_preprocessed_record(before, record)

        number = tf.shape(records[0])[0]
        return tf.while_loop(lambda at, _: at < number, step, (0, total))[1]

    return accumulated


def released(query: Any, state: Any, total: Any) -> tuple[Any, Update]:
    """The state after a round, and what the round releases."""
    made, after, _ = query.get_noised_result(total, state)
    return tf.nest.map_structure(np.asarray, after), [np.asarray(part) for part in made]


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


def fingerprint(query: Any, sign: float) -> np.ndarray:
    """What fixes the distribution of four rounds: means, noise by noise, and states.

    All noise of the query is a standard deviation times numbers of this function's own; the round
    is computed with zeros in their place and with independent normal numbers. The difference is
    compared by its size, as a noise's sign changes no distribution.

    Args:
      query: The query.
      sign: The sign of the numbers.
    """
    found: list[np.ndarray] = []
    state = start(query)
    random = np.random.default_rng(3)
    for number in range(4):
        zero = [np.zeros(shape, np.float32) for shape in SHAPES]
        total = summed(query, state, [*updates(10 + number), zero])
        with _noise(None, 0.0):
            silent_state, silent = released(query, state, total)
        with _noise(random, sign):
            state, noised = released(query, state, total)
        if [part.shape for part in noised] != list(SHAPES):
            raise ValueError("what is released has another shape than an update")
        found += silent
        found += [np.abs(a - b) for a, b in zip(noised, silent, strict=True)]
        found += [np.asarray(x) for x in tf.nest.flatten((silent_state, state))]
    return np.concatenate([np.ravel(part).astype(np.float64) for part in found])


@contextlib.contextmanager
def _noise(random: np.random.Generator | None, sign: float) -> Iterator[None]:
    """TensorFlow's normal noise by numbers of our own; zeros where there is no generator."""

    def normal(shape: Any, mean: Any = 0.0, stddev: Any = 1.0, dtype: Any = tf.float32) -> Any:
        drawn = np.zeros(np.asarray(shape)) if random is None else random.normal(size=shape)
        return tf.cast(mean, dtype) + tf.cast(stddev, dtype) * tf.constant(sign * drawn, dtype)

    def initializer(mean: float = 0.0, stddev: float = 0.05) -> Callable:
        return functools.partial(normal, mean=mean, stddev=stddev)

    with (
        patch.object(tf, "random_normal_initializer", initializer),
        patch.object(tf.random, "normal", normal),
    ):
        yield


def changes_the_law(query: Any, original: np.ndarray) -> bool:
    """Whether a query's release has another distribution than the original's, in these rounds."""
    for sign in (1.0, -1.0):
        made = fingerprint(query, sign)
        if made.shape == original.shape and np.allclose(
            made, original, rtol=1e-4, atol=1e-6, equal_nan=True
        ):
            return False
    return True
