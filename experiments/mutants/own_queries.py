"""Our own query on TensorFlow as subject: noise that a matrix correlates."""

import contextlib
import functools
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import tensorflow
import tensorflow_privacy

from experiments.mutants.distributions import (
    CLIP_NORM,
    COHORT,
    NOISE_MULTIPLIER,
    ROUNDS,
    SHAPES,
    Numbers,
    Subject,
)
from experiments.mutants.queries import QueryRounds
from fl_audit.mechanisms import tff_aggregators
from fl_audit.mechanisms.matrix import MatrixFactorisation, strategy_of, stream_of

MODULES = {
    "tff_aggregators": (
        "MatrixSumQuery",
        "_blocks",
        "_turned",
        "_weighted_sum",
        "_joined",
        "_parted",
    ),
}
HAS_FAST_ROUNDS = False
LEFT_OUT = ()


def source(module: str) -> str:
    """The source of a module."""
    return Path({"tff_aggregators": tff_aggregators}[module].__file__ or "").read_text()


@contextlib.contextmanager
def loaded(module: str, text: str, *, fast: bool = False) -> Iterator[types.SimpleNamespace]:
    """The module changed and loaded anew."""
    del fast
    fresh = types.ModuleType("tff_aggregators")
    exec(compile(text or source("tff_aggregators"), module, "exec"), fresh.__dict__)
    integers = tensorflow.int64
    fresh.fresh_key = lambda: tensorflow.random.uniform([2], integers.min, integers.max, integers)
    with np.errstate(all="ignore"):
        yield types.SimpleNamespace(tf=tensorflow, tff_aggregators=fresh)


def _query(stream: Any, modules: types.SimpleNamespace) -> Any:
    specs = [tensorflow.TensorSpec(shape, tensorflow.float32) for shape in SHAPES]
    stddev = NOISE_MULTIPLIER * CLIP_NORM
    query = modules.tff_aggregators.MatrixSumQuery(CLIP_NORM, stddev, stream, specs)
    return tensorflow_privacy.NormalizedQuery(query, COHORT)


def _matrix(**keys: Any) -> Subject:
    table = MatrixFactorisation(noise_multiplier=NOISE_MULTIPLIER, clip_norm=CLIP_NORM, **keys)
    return Subject(
        make=functools.partial(_query, stream_of(table, ROUNDS)),
        denominator=COHORT,
        clip_norm=lambda _: CLIP_NORM,
        correlation=strategy_of(table, ROUNDS),
        has_keys=True,
    )


SUBJECTS_OF = {
    "tff_aggregators": (
        _matrix(strategy="banded_sqrt", bands=4),
        _matrix(strategy="blt", buffers=2),
        _matrix(strategy="banded_inverse_sqrt", bands=3),
    ),
}


class OwnRounds(QueryRounds):
    """The rounds of a query whose noise is `normal_like`, which is no subject."""

    @contextlib.contextmanager
    def noise(self, numbers: Numbers) -> Iterator[None]:
        """The normal numbers of a key and of a call are numbers of a shape."""

        def normal(key: Any, number: Any, specs: list[Any]) -> list[Any]:
            of_call = np.asarray(key).tobytes() + np.asarray(number).tobytes()
            return [
                tensorflow.constant(numbers(tuple(spec.shape), of_call + bytes([at])), spec.dtype)
                for at, spec in enumerate(specs)
            ]

        with patch.object(self.modules.tff_aggregators, "normal_like", normal):
            yield


def rounds_of(module: str, at: int, modules: types.SimpleNamespace) -> OwnRounds:
    """The rounds of a module's subject."""
    subject = SUBJECTS_OF[module][at]
    return OwnRounds(subject, modules, subject.make(modules))
