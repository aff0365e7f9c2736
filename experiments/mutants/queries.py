"""tensorflow-privacy's queries as subjects, and their rounds on TensorFlow or on NumPy."""

import contextlib
import functools
import importlib
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
from experiments.mutants.distributions import (
    CLIP_NORM,
    COHORT,
    COUNT_STDDEV,
    NOISE_MULTIPLIER,
    SHAPES,
    Numbers,
    Subject,
    Update,
)
from fl_audit.checks import AdaptiveClip

PACKAGE = "tensorflow_privacy.privacy.dp_query"
MODULES = {
    "gaussian_query": ("GaussianSumQuery",),
    "normalized_query": ("NormalizedQuery",),
    "quantile_estimator_query": ("QuantileEstimatorQuery",),
    "quantile_adaptive_clip_sum_query": ("QuantileAdaptiveClipSumQuery",),
}
HAS_FAST_ROUNDS = True
LEFT_OUT = ()


@functools.cache
def source(module: str) -> str:
    """The released source of a module."""
    return Path(importlib.import_module(f"{PACKAGE}.{module}").__file__ or "").read_text()


@contextlib.contextmanager
def loaded(module: str, text: str, *, fast: bool = False) -> Iterator[types.SimpleNamespace]:
    """The modules with one of them changed, all loaded anew; what is imported elsewhere stays.

    Args:
      module: The module that is changed; empty for none.
      text: Its source.
      fast: Whether NumPy computes in TensorFlow's place.
    """
    package = importlib.import_module(PACKAGE)
    made: dict[str, Any] = {"tf": numpy_tf.module if fast else tensorflow}
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


MEAN = Subject(
    make=lambda of: of.normalized_query.NormalizedQuery(
        of.gaussian_query.GaussianSumQuery(CLIP_NORM, NOISE_MULTIPLIER * CLIP_NORM), COHORT
    ),
    denominator=COHORT,
    clip_norm=lambda _: CLIP_NORM,
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
    adaptive_clip=AdaptiveClip(
        target_quantile=0.4, learning_rate=0.2, count_stddev=COUNT_STDDEV, denominator=COHORT
    ),
)
SUBJECTS_OF = dict(zip(MODULES, ((MEAN,), (MEAN,), (ADAPTIVE,), (ADAPTIVE,)), strict=True))


@dataclass(frozen=True, eq=False)
class QueryRounds:
    """The rounds of a subject's query.

    Attributes:
      subject: The subject.
      modules: The modules of `loaded`.
      query: The query.
    """

    subject: Subject
    modules: types.SimpleNamespace
    query: Any

    def start(self, seed: int = 0) -> Any:
        """The state before the first round, of NumPy's numbers."""
        self.modules.tf.random.set_seed(seed)
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
    def noise(self, numbers: Numbers) -> Iterator[None]:
        """The query's normal noise is a standard deviation times numbers of a shape."""
        tf = self.modules.tf

        def normal(
            shape: Any,
            mean: Any = 0.0,
            stddev: Any = 1.0,
            dtype: Any = tf.float32,
            seed: Any = None,
        ) -> Any:
            of_shape = tf.constant(numbers(tuple(np.asarray(shape)), None), dtype)
            return tf.cast(mean, dtype) + tf.cast(stddev, dtype) * of_shape

        def initializer(mean: float = 0.0, stddev: float = 0.05, seed: Any = None) -> Callable:
            return lambda shape, dtype=tf.float32: normal(shape, mean, stddev, dtype)

        def stateless(shape: Any, seed: Any, dtype: Any = tf.float32) -> Any:
            key = np.asarray(seed).tobytes()
            return tf.constant(numbers(tuple(np.asarray(shape)), key), dtype)

        with (
            patch.object(tf, "random_normal_initializer", initializer),
            patch.object(tf.random, "normal", normal),
            patch.object(tf.random, "stateless_normal", stateless, create=True),
        ):
            yield


def rounds_of(module: str, at: int, modules: types.SimpleNamespace) -> QueryRounds:
    """The rounds of a module's subject."""
    subject = SUBJECTS_OF[module][at]
    return QueryRounds(subject, modules, subject.make(modules))
