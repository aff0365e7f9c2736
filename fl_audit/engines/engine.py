"""The interface between a run and the engine that trains it.

A run (`fl_audit.run`) knows its config, its participants, its canaries and its attackers; an engine
trains the model. Through `Engine` a run starts the engine and gives it a cohort for each round; the
engine returns the new state and the round as attackers see it. `fl_audit.run` names no engine, so
another framework needs a subclass of `Engine` and one line that registers it:

    from fl_audit.engines.runtimes import RUNTIMES, RuntimeKind

    RUNTIMES.register(
        RuntimeKind("toy", lambda run, worker_log, why: Toy(run), takes_blocks=False)
    )

A config with `runtime = "toy"` and that module in `plugins` trains with this engine
(docs/plugins.md). `tests/engines/toy_engine.py` is such an engine in NumPy: a mean of vectors with
Gaussian noise.

Rules for every engine:

- The result of a round depends on the state, the cohort, the index of the round and the run's seed,
  not on the time, on other rounds or on the number of threads or machines. Only noise differs
  between processes.
- A canary that is a vector sends `run.family.vector(canary)` as its update, in the direction in
  which the model moves, with a norm large enough to be clipped. A canary that holds examples trains
  like a client.
- `SeenRound.aggregate` is the mechanism's release, noise included, before the server's optimizer.
"""

import abc
import contextlib
import itertools
from collections.abc import Callable, Iterator, Sequence, Sized
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from fl_audit.array_types import Float32Array, FloatArray, IntArray
from fl_audit.attacks.attacker import SeenRound
from fl_audit.attacks.threat_models import threat_models_of
from fl_audit.attacks.uploads import ScoredCanaries
from fl_audit.checks import Check, Promise, why_not_checked
from fl_audit.checks.check import inconclusive
from fl_audit.engines.prepare import PreparedRun
from fl_audit.errors import InputError
from fl_audit.mechanisms import MECHANISMS
from fl_audit.mechanisms.zeroing import AdaptiveZeroing
from fl_audit.participation import Cohort
from fl_audit.tasks.learning_task import Examples

Weights = Sequence[Float32Array]
"""The arrays of a model, in the order of `Model.initial_weights`."""

Leaf = Any
"""A part of a state in a checkpoint: an array, a NumPy scalar or bytes."""


class ReadRound(Protocol):
    """The data of a round, as a reader gives it: at least the participants."""

    @property
    def clients(self) -> Sized:
        """The real clients."""

    @property
    def canaries(self) -> IntArray:
        """The round's canaries, by their indices in the pool."""


CohortReader = Callable[[Cohort, int], ReadRound]
"""A function from a cohort and the index of its round, from 0, to the round's data.

It is called ahead of time, from another thread.
"""


@dataclass(frozen=True, eq=False)
class TrainedRound:
    """The result of a round."""

    state: Any  # the engine's state after the round
    seen: SeenRound  # what attackers may see of the round
    # of the noise on a coordinate of the sum; under trees, of the noise on a node; under a matrix,
    # of the independent noise before it is correlated
    noise_stddev: float
    train_loss: float  # mean over the cohort's tokens (or examples), in nats; 0 without any


class ClientUpdates(Protocol):
    """The updates that clients would send if they trained from a model."""

    def __call__(
        self, model: Float32Array, clients: Sequence[Examples]
    ) -> Iterator[tuple[IntArray, Float32Array]]:
        """Yields positions in `clients`, and these clients' unclipped updates, (positions, dim)."""


class Engine(abc.ABC):
    """Trains the rounds of a run."""

    description: str  # for users: the engine, its configuration, and why it was chosen
    first_round: str = ""  # for users: why the first round is slow; empty if it is not
    packages: tuple[str, ...] = ()  # packages whose versions the run's record states
    rounds_per_session: int | None = (
        None  # the largest number of rounds in a session; None for any number
    )

    def session(self) -> contextlib.AbstractContextManager[None]:
        """A context in which `begin` and `run_round` are called."""
        return contextlib.nullcontext()

    @property
    def compile_seconds(self) -> float | None:
        """The seconds spent on compiling since the engine was made; None if unknown."""
        return None

    @abc.abstractmethod
    def begin(self) -> Any:
        """The state before the first round."""

    @abc.abstractmethod
    def reader(self, run: PreparedRun) -> CohortReader:
        """The reader of rounds' data, for a run whose model and denominator are this engine's."""

    @abc.abstractmethod
    def run_round(self, state: Any, data: Any, index: int) -> TrainedRound:
        """Runs round `index` (from 0) from a state, with the reader's data."""

    @abc.abstractmethod
    def weights(self, state: Any) -> Weights:
        """The model in a state."""

    @abc.abstractmethod
    def leaves(self, state: Any) -> list[Leaf]:
        """The parts of a state, for a checkpoint; their number and order are always the same."""

    @abc.abstractmethod
    def from_leaves(self, like: Any, leaves: Sequence[Leaf]) -> Any:
        """The state with these parts; `like` is any state of this engine."""

    @abc.abstractmethod
    def evaluator(self, run: PreparedRun) -> Callable[[Weights], float]:
        """A function from a model to its accuracy on the held-out examples, in [0, 1]."""

    def replay(self, run: PreparedRun) -> tuple[Check, ...]:
        """The findings of a replay of the first round, or one finding why it is not replayed."""
        return (not_replayed("the engine draws noise that has no seed"),)

    def scored_canaries(self, run: PreparedRun) -> ScoredCanaries:
        """The canaries that are vectors; an engine may compute their cosines on its own device."""
        return run.family

    def losses(self, run: PreparedRun) -> Callable[[Weights], FloatArray]:
        """A function from a model to its mean loss on each canary's examples, for attacks."""
        raise InputError(self._without_examples())

    def client_updates(self, run: PreparedRun) -> ClientUpdates:
        """A function that trains clients of a run, such as canaries that hold examples."""
        raise InputError(self._without_examples())

    def _without_examples(self) -> str:
        return f"canaries.kind: 'examples' is not for this runtime ({self.description})"


def shows_uploads(run: PreparedRun) -> bool:
    """Whether attackers of a run see single uploads."""
    return any(model.sees_uploads for model in threat_models_of(run.config.audit))


def not_replayed(why: str) -> Check:
    """The finding that a round was not replayed, with the reason."""
    words = "the same round with the same seed gives the same release"
    return inconclusive("repeatable", words, f"not replayed: {why}")


def as_vector(weights: Weights) -> Float32Array:
    """The arrays of a model as one float32 vector of shape (dim,), in their order."""
    return np.concatenate([np.ravel(array) for array in weights])


# The updates of a replayed first round, and the `Promise` that it is checked against.


_MOST_CLIENTS = 32
"""The largest number of clients of a replayed round."""

_MOST_NUMBERS = 1 << 26
"""The largest number of values in all updates of a replayed round, unless two updates have more."""


def promise_of(run: PreparedRun, clip_norm: float, zeroing_norm: float) -> Promise:
    """The expected behaviour of a round; `zeroing_norm` is infinite without zeroing."""
    table, denominator = run.config.mechanism, run.schedule.expected_cohort
    is_gaussian = why_not_checked(table) is None
    kind, zeroing = MECHANISMS.kind_of(table), table.zeroing
    return Promise(
        clip_norm=clip_norm,
        denominator=denominator,
        noise_multiplier=run.noise.sum_noise_multiplier if is_gaussian else None,
        zeroing_norm=zeroing_norm,
        correlation=run.release.correlation,
        adaptive_clip=kind.adaptive_clip and kind.adaptive_clip(table, run.noise, denominator),
        adaptive_zeroing=zeroing if isinstance(zeroing, AdaptiveZeroing) else None,
    )


def trial_updates(
    shapes: Sequence[tuple[int, ...]], promise: Promise, seed: int
) -> list[list[Float32Array]]:
    """Updates for a replay, whose norms are 3 and 0.5 clip norms in turn.

    Without clipping the clip norm counts as 1. In an update all variables, whose shapes are
    `shapes`, have the same norm.
    """
    random = np.random.default_rng(seed)
    dim = sum(int(np.prod(shape)) for shape in shapes)
    count = max(2, min(_MOST_CLIENTS, _MOST_NUMBERS // max(1, dim)))
    norm = promise.clip_norm if np.isfinite(promise.clip_norm) else 1.0
    lengths = itertools.islice(itertools.cycle((3.0 * norm, 0.5 * norm)), count)
    return [
        [_part(random, shape, length / np.sqrt(len(shapes))) for shape in shapes]
        for length in lengths
    ]


def _part(random: np.random.Generator, shape: tuple[int, ...], length: float) -> Float32Array:
    part = random.standard_normal(shape)
    return np.asarray(part * (length / np.linalg.norm(part)), np.float32)
