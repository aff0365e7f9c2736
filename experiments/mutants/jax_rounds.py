"""The aggregation and the noise of our engine in JAX as subjects, and their rounds.

The tools look at compiled rounds. To fix the distribution, the same source runs step by step, with
numbers of our own in place of its normal numbers, each known by its key.
"""

import contextlib
import functools
import sys
import types
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest.mock import patch

import jax
import numpy as np
from jax import numpy as jnp

from experiments.mutants.distributions import (
    CLIP_NORM,
    COHORT,
    COUNT_STDDEV,
    NOISE_MULTIPLIER,
    ROUNDS,
    SHAPES,
    Numbers,
    Subject,
    Update,
)
from fl_audit.accounting.noise_distributions import GAUSSIAN
from fl_audit.accounting.tree_nodes import Trees
from fl_audit.checks import AdaptiveClip
from fl_audit.engines.jax import aggregation
from fl_audit.engines.jax import noise_processes as noise
from fl_audit.mechanisms.matrix import MatrixFactorisation, strategy_of, stream_of
from fl_audit.mechanisms.zeroing import AdaptiveZeroing

MODULES = {
    "aggregation": ("Aggregation",),
    "noise": ("normal_like", "CorrelatedNoise", "FreshNoise", "MatrixNoise", "TreeNoise"),
}
HAS_FAST_ROUNDS = False
LEFT_OUT = ("_with_noise_of_each", "noise_of")
"""Noise at clients, which is no part of these subjects."""

_BLOCK = 16
_ZEROING_NORM = 1.0


_MODULES = {"noise": noise, "aggregation": aggregation}


def source(module: str) -> str:
    """The source of a module."""
    return Path(_MODULES[module].__file__ or "").read_text()


@contextlib.contextmanager
def loaded(module: str, text: str, *, fast: bool = False) -> Iterator[types.SimpleNamespace]:
    """The two modules with one of them changed, loaded anew."""
    del fast
    with contextlib.ExitStack() as stack:
        fresh = {}
        for name, original in _MODULES.items():
            fresh[name] = types.ModuleType(original.__name__)
            stack.enter_context(patch.dict(sys.modules, {original.__name__: fresh[name]}))
            code = compile(text if name == module else source(name), name, "exec")
            exec(code, fresh[name].__dict__)
        yield types.SimpleNamespace(**fresh)


def _aggregation(
    process: Callable[[Any], Any],
    modules: Any,
    *,
    adapts: bool = False,
    zeroing: AdaptiveZeroing | None = None,
) -> Any:
    """The aggregation that the engine makes of such a config."""
    estimate = _ZEROING_NORM if zeroing is None else zeroing.initial_estimate
    return modules.aggregation.Aggregation(
        begin=modules.aggregation.Norms(jnp.float32(CLIP_NORM), jnp.float32(estimate)),
        clip_quantile=0.4 if adapts else 0.0,
        clip_rate=0.2 if adapts else 0.0,
        zeroing=zeroing,
        noise=GAUSSIAN.noise(NOISE_MULTIPLIER, NOISE_MULTIPLIER, COUNT_STDDEV if adapts else 0.0),
        denominator=float(COHORT),
        process=process(modules),
    )


def _clip_norm(state: Any) -> float:
    return float(state[0].clip)


def _matrix(**keys: Any) -> Subject:
    table = MatrixFactorisation(noise_multiplier=NOISE_MULTIPLIER, clip_norm=CLIP_NORM, **keys)
    stream = stream_of(table, ROUNDS)
    return Subject(
        make=functools.partial(_aggregation, lambda modules: modules.noise.MatrixNoise(stream)),
        denominator=COHORT,
        clip_norm=_clip_norm,
        correlation=strategy_of(table, ROUNDS),
        zeroing_norm=_ZEROING_NORM,
        has_keys=True,
    )


ADAPTIVE = Subject(
    make=functools.partial(_aggregation, lambda modules: modules.noise.FreshNoise(), adapts=True),
    denominator=COHORT,
    clip_norm=_clip_norm,
    adaptive_clip=AdaptiveClip(
        target_quantile=0.4, learning_rate=0.2, count_stddev=COUNT_STDDEV, denominator=COHORT
    ),
    zeroing_norm=_ZEROING_NORM,
    has_keys=True,
)
_ZEROING = AdaptiveZeroing(
    initial_estimate=0.02, target_quantile=0.9, multiplier=1.5, increment=0.01
)
ZEROING = Subject(
    make=functools.partial(_aggregation, lambda m: m.noise.FreshNoise(), zeroing=_ZEROING),
    denominator=COHORT,
    clip_norm=_clip_norm,
    zeroing_norm=1.5 * 0.02 + 0.01,
    adaptive_zeroing=_ZEROING,
    zeroing_norm_of=lambda state: 1.5 * float(state[0].zeroing_estimate) + 0.01,
    has_keys=True,
)
_TREES = Trees(ROUNDS, 8)
TREES = Subject(
    make=functools.partial(_aggregation, lambda modules: modules.noise.TreeNoise(_TREES.period)),
    denominator=COHORT,
    clip_norm=_clip_norm,
    correlation=_TREES,
    zeroing_norm=_ZEROING_NORM,
    has_keys=True,
)
SUBJECTS_OF = {
    "aggregation": (ADAPTIVE, ZEROING),
    "noise": (
        ADAPTIVE,
        _matrix(strategy="banded_sqrt", bands=4),
        _matrix(strategy="blt", buffers=2),
        _matrix(strategy="banded_inverse_sqrt", bands=3),
        TREES,
    ),
}


@dataclass(frozen=True, eq=False)
class JaxRounds:
    """The rounds of a subject's aggregation.

    Attributes:
      subject: The subject.
      modules: The modules of `loaded`.
      aggregation: The aggregation.
      calls: The number of rounds that were released step by step, which gives them fresh keys.
    """

    subject: Subject
    modules: types.SimpleNamespace
    aggregation: Any
    calls: list[int] = field(default_factory=lambda: [0])

    def start(self, seed: int = 0) -> Any:
        """Norms and noise before the first round, as the engine begins them."""
        self.calls[0] = 1000
        weights = [jnp.zeros(shape, jnp.float32) for shape in SHAPES]
        return self.aggregation.begin, self.aggregation.process.begin(weights, _key(seed))

    def _sum(self, add: Callable, norms: Any, updates: list[Update]) -> Any:
        """The `Summed` of a round, a block after the other; the last one is filled up."""
        total = self.aggregation.nothing([jnp.zeros(shape, jnp.float32) for shape in SHAPES])
        for first in range(0, len(updates), _BLOCK):
            block = updates[first : first + _BLOCK]
            filled = [*block, *[block[0]] * (_BLOCK - len(block))]
            stacked = [
                np.array([update[at] for update in filled], np.float32) for at in range(len(SHAPES))
            ]
            numbers = np.where(np.arange(_BLOCK) < len(block), first + np.arange(_BLOCK), -1)
            counts = np.ones((_BLOCK, 2), np.float32)
            total = add(total, norms, stacked, counts, numbers, np.zeros(2, np.uint32))
        return total

    def _added(self, total: Any, norms: Any, *block: Any) -> Any:
        return jax.tree.map(jnp.add, total, self.aggregation.clipped_sum(norms, *block))

    def _release(self, state: Any, total: Any, fresh: Any) -> tuple[Any, Any]:
        norms, kept = state
        key = self.aggregation.process.key_of_round(kept, fresh)
        released, norms, kept = self.aggregation.release(norms, kept, total, key)
        return (norms, kept), released

    @functools.cached_property
    def _compiled(self) -> tuple[Callable, Callable]:
        return jax.jit(self._added), jax.jit(self._release)

    def summed(self, state: Any, updates: list[Update]) -> Any:
        """The `Summed` of a round's participants."""
        return self._sum(self._added, state[0], updates)

    def released(self, state: Any, total: Any) -> tuple[Any, Update]:
        """The state after a round, and what the round releases."""
        self.calls[0] += 1
        return _checked(*self._release(state, total, _key(self.calls[0])))

    def drawn(self, seed: int, state: Any, updates: list[Update]) -> tuple[Any, Update]:
        """A compiled round with its own noise; a seed fixes the key that the engine draws."""
        add, release = self._compiled
        return _checked(*release(state, self._sum(add, state[0], updates), _key(seed)))

    @contextlib.contextmanager
    def noise(self, numbers: Numbers) -> Iterator[None]:
        """The normal numbers of a key are numbers of a shape; loops run in Python."""

        def normal(key: Any, shape: tuple[int, ...]) -> Any:
            of_key = np.asarray(key).tobytes()
            return jnp.asarray(numbers(tuple(shape), of_key), jnp.float32)

        modules = self.modules
        with (
            patch.object(modules.noise, "standard_normal", normal),
            patch.object(modules.aggregation, "standard_normal", normal),
            patch.object(modules.noise, "lax", types.SimpleNamespace(while_loop=_while)),
        ):
            yield


def rounds_of(module: str, at: int, modules: types.SimpleNamespace) -> JaxRounds:
    """The rounds of a module's subject."""
    subject = SUBJECTS_OF[module][at]
    return JaxRounds(subject, modules, subject.make(modules))


def _checked(state: Any, released: Any) -> tuple[Any, Update]:
    parts = [np.asarray(part) for part in released]
    if [part.shape for part in parts] != list(SHAPES):
        raise ValueError("what is released has another shape than an update")
    return state, parts


def _key(seed: int) -> Any:
    return jnp.array([7, 7, 7, seed], jnp.uint32)


def _while(condition: Callable, body: Callable, value: Any) -> Any:
    for _ in range(64):
        if not condition(value):
            return value
        value = body(value)
    raise TimeoutError("a loop that does not end")
