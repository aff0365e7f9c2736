"""Canary clients in a user's own TFF loop (docs/any_process.md).

`CanaryClients` draws the canaries of each round and creates the data of all clients in it.
`read_clip` reads the clip norm from the state of TFF's aggregator, so that canaries have at least
this norm. `probe` runs rounds before training, to measure whether canaries reach the aggregate at
the expected norm. The pool and the scorer, which need no TensorFlow, are in `fl_audit.attacks`.
"""

import collections
import dataclasses
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
import tensorflow as tf
import tensorflow_federated as tff

from fl_audit.array_types import Float32Array, IntArray
from fl_audit.canaries.families import CanaryFamily
from fl_audit.canaries.pool import CanaryPool
from fl_audit.engines.cohort import RoundData
from fl_audit.engines.prepare import PreparedRun
from fl_audit.engines.tff.canary_process import canary_dim, client_data_type, released_aggregate
from fl_audit.engines.tff.native_worker import instead_of_tffs_worker
from fl_audit.errors import InputError
from fl_audit.inner_products import euclidean_norm, inner_product
from fl_audit.mechanisms.zeroing import clipped_and_kept
from fl_audit.participation.placement import spread
from fl_audit.tasks.learning_task import Examples

# The participants of a round as data sets.


@dataclass(frozen=True)
class DataSets:
    """Participants that train one by one, as inputs of `build_process`: pairs of data sets."""

    batch_size: int
    family: CanaryFamily
    no_examples: Examples  # empty, in the task's shapes, for canaries that are vectors
    clients_per_block: ClassVar[int] = 1

    @classmethod
    def from_run(cls, run: PreparedRun) -> Self:
        none = run.task.held_out.take(np.zeros(0, np.int64))
        return cls(run.config.client.batch_size, run.family, none)

    def inputs(
        self, weights: Sequence[Float32Array], data: RoundData, canary_norm: float
    ) -> Iterator[Any]:
        """The data sets of participants that train, then of canaries that are vectors, lazily."""
        del weights  # TFF sends them
        # Participants without examples, or without a vector, share one empty data set.
        no_vector = small_data_set(np.zeros((0, self.family.dim), np.float32))
        no_batches = batches_of(self.no_examples, self.batch_size)
        for examples in data.trained:
            yield _client_data(no_vector, batches_of(examples, self.batch_size))
        for canary in data.vectors:
            vector = self.family.vector(int(canary)) * np.float32(canary_norm)
            yield _client_data(small_data_set(vector[None, :]), no_batches)

    def noise_key(self, key: IntArray) -> tf.data.Dataset:
        """A participant's noise key as an input: a data set of one key."""
        return small_data_set(key[None, :])


def batches_of(examples: Examples, batch_size: int) -> tf.data.Dataset:
    """A client's batches, in order; the last batch may be smaller."""
    return small_data_set((examples.inputs, examples.labels)).batch(batch_size)


def small_data_set(arrays: Any) -> tf.data.Dataset:
    """A data set of slices of arrays, without threads or graph rewriting, to save overhead."""
    options = tf.data.Options()
    options.autotune.enabled = False
    options.experimental_optimization.inject_prefetch = False
    options.experimental_optimization.apply_default_optimizations = False
    options.threading.max_intra_op_parallelism = 1
    return tf.data.Dataset.from_tensor_slices(arrays).with_options(options)


def _client_data(canary: tf.data.Dataset, examples: Any) -> Any:
    return collections.OrderedDict(canary=canary, examples=examples)


class CanaryClients:
    """The included canaries of a pool as clients of an audited process.

    Each canary participates in `repeats` rounds, one in each of `repeats` equal parts of the run
    (Andrew et al. 2023, section 5.3). The rounds depend on the pool's seed alone, so a loop that
    restarts from a checkpoint has the same canaries.
    """

    def __init__(
        self,
        process: tff.learning.templates.LearningProcess,
        pool: CanaryPool,
        num_rounds: int,
        *,
        norm: float | None = None,
        repeats: int = 1,
    ) -> None:
        """Samples the rounds of the canaries.

        Args:
          process: A process of `compose_audited_process`.
          pool: A pool of canaries whose `dim` is `canary_dim(process)`.
          num_rounds: The number of rounds of training.
          norm: The norm of a canary's update before clipping. By default it follows from the state
            in each round: large enough to be clipped and, if possible, not zeroed. It must be given
            if the state of the process has no clip norm.
          repeats: The number of rounds of each canary, at least 1.

        Raises:
          InputError: The pool has another dim, a number is out of its range, or no norm is given
            and the state of the process has no clip norm.
        """
        dim = canary_dim(process)
        if pool.dim != dim:
            raise InputError(f"pool: must have dim {dim} as the process's updates, got {pool.dim}")
        if not 1 <= repeats <= num_rounds:
            raise InputError(f"repeats: must be in 1 to num_rounds ({num_rounds}), got {repeats}")
        if norm is not None and not 0 < norm < math.inf:
            raise InputError(f"norm: must be positive and finite, got {norm}")
        if norm is None:
            norm_to_clip(_state_of_ones(process.initialize.type_signature.result))
        self._process = process
        self._pool = pool
        self._norm = norm
        self._num_rounds = num_rounds
        participations = spread(np.arange(pool.count), pool.seed, num_rounds, repeats)
        self._rounds = participations.by_member(pool.count)
        self._attendance = participations.of_canaries(pool.included)

    @property
    def rounds(self) -> list[list[int]]:
        """The rounds of each canary of the pool, included or not, from 1, for `RoundScorer`."""
        return self._rounds

    def in_round(self, round_number: int) -> IntArray:
        """The ascending indices of the canaries of one round, which counts from 1."""
        if not 1 <= round_number <= self._num_rounds:
            raise InputError(
                f"round_number: must be in 1 to {self._num_rounds} (num_rounds), got {round_number}"
            )
        return self._attendance.members_in(round_number - 1)

    def norm(self, state: Any = None) -> float:
        """The norm of a canary's update in the round that starts from a state.

        Args:
          state: The state of the process; needed if no norm was given.

        Raises:
          InputError: No norm was given, and `state` is None or has no clip norm.
        """
        if self._norm is not None:
            return self._norm
        if state is None:
            raise InputError(
                "state: is required, as join(round_number, clients, state), to give canaries the "
                "round's clip norm; or give CanaryClients a norm"
            )
        return norm_to_clip(state)

    def arriving_length(self, state: Any) -> float | None:
        """The largest norm of a client in the aggregate of the round that starts from a state.

        It is the clip norm divided by the denominator, for `score_round(canary_length=...)` of
        `RoundScorer`, even if canaries are shorter: they then show less than a client would, and
        the audit should say so. None unless the aggregator's state has clip norm and denominator.
        """
        clip = read_clip(state)
        return clip.over_denominator(clip.norm)

    def noise_stddev(self, state: Any) -> float | None:
        """The standard deviation of the noise on each coordinate of the round's aggregate.

        It is for `RoundScorer.score_round(noise_stddev=...)`: the noise on the sum (under tree
        aggregation, on a node) in the state before the round, divided by the denominator. None
        unless the aggregator's state has noise and denominator.
        """
        clip = read_clip(state)
        return clip.over_denominator(clip.noise_stddev)

    def join(self, round_number: int, clients: Iterable[Any], state: Any = None) -> list[Any]:
        """The data for `process.next` in a round: real clients, then canaries.

        Args:
          round_number: The number of the round, from 1.
          clients: The data of each real client, as for the process without canaries.
          state: The state of the process before the round; may be omitted if a norm was given.

        Raises:
          InputError: No norm was given, and `state` is None or has no clip norm.
        """
        norm = self.norm(state)
        vectors = (norm * self._pool.vector(int(c)) for c in self.in_round(round_number))
        return [
            *(real_client_data(self._process, examples) for examples in clients),
            *(canary_client_data(self._process, vector) for vector in vectors),
        ]


def real_client_data(process: tff.learning.templates.LearningProcess, examples: Any) -> Any:
    """A real client's data for an audited process."""
    no_vector = np.zeros((0, canary_dim(process)), np.float32)
    return _client_data(small_data_set(no_vector), examples)


def canary_client_data(
    process: tff.learning.templates.LearningProcess, vector: Float32Array
) -> Any:
    """A canary's data: no examples, and its update, a vector in the direction it moves the model.

    `vector` is float32 of shape (dim,).
    """
    examples_type = client_data_type(process)["examples"]
    vectors = small_data_set(np.asarray(vector, np.float32)[None])
    return _client_data(vectors, _no_examples(examples_type))


def _no_examples(kind: tff.Type) -> Any:
    """An empty data set for each sequence of a type."""
    if isinstance(kind, tff.SequenceType):
        nothing = tf.nest.map_structure(_nothing, tff.types.type_to_tf_tensor_specs(kind.element))
        return tf.data.Dataset.from_tensors(nothing).take(0)
    empty = [(name, _no_examples(part)) for name, part in tff.structure.iter_elements(kind)]
    return tff.types.type_to_py_container(tff.structure.Struct(empty), kind)


def _nothing(spec: tf.TensorSpec) -> tf.Tensor:
    shape = [extent or 0 for extent in spec.shape]
    return tf.constant("", shape=shape) if spec.dtype == tf.string else tf.zeros(shape, spec.dtype)


# The clip, the zeroing and the denominator in the state of a TFF aggregator.


@dataclass(frozen=True)
class ClipState:
    """The clip norm of one round, and related values; None for values that the state lacks."""

    norm: float | None  # the clip norm
    denominator: float | None  # a fixed number by which the sum of updates is divided
    noise_stddev: float | None = None  # of the noise on a coordinate of the sum, or on a node
    unzeroed: float = math.inf  # the largest coordinate that is certainly not zeroed

    def over_denominator(self, of_sum: float | None) -> float | None:
        """A number of the sum as one of the aggregate; None if it or the denominator is unknown."""
        if of_sum is None or self.denominator is None:
            return None
        return of_sum / self.denominator


def read_clip(state: Any) -> ClipState:
    """Reads a round's clip norm from the state of a learning process or of its TFF aggregator."""
    aggregator = getattr(state, "aggregator", state)
    unzeroed = math.inf
    if isinstance(aggregator, Mapping) and "zeroing_norm" in aggregator:
        # TFF's zeroing norm, 2 q + 1 for the estimate q, is not smaller than the estimate.
        estimate = _estimate(aggregator["zeroing_norm"])
        unzeroed = math.inf if estimate is None else estimate
        aggregator = aggregator["inner_agg"]
    if isinstance(aggregator, Mapping) and "clipping_norm" in aggregator:
        return ClipState(_estimate(aggregator["clipping_norm"]), None, unzeroed=unzeroed)
    query = getattr(aggregator, "query_state", None)
    total = getattr(query, "numerator_state", None)
    total = getattr(total, "inner_query_state", total)  # a tree with restarts
    total = getattr(total, "sum_state", total)  # an adaptive clip norm
    tree = getattr(total, "tree_state", None)
    norm = _number(total, "l2_norm_clip" if tree is None else "clip_value")
    stddev = _number(getattr(tree, "value_generator_state", total), "stddev")
    return ClipState(norm, _number(query, "denominator"), stddev, unzeroed)


def _state_of_ones(kind: tff.Type) -> Any:
    """A state of a type, filled with ones, to inspect its parts before there is a real state."""

    def ones(part: tff.Type) -> Any:
        if not isinstance(part, tff.StructType):
            return np.float32(1)
        members = [(name, ones(member)) for name, member in tff.structure.iter_elements(part)]
        return tff.structure.Struct(members)

    return tff.types.type_to_py_container(ones(kind.member), kind.member)


def _estimate(norm_state: Any) -> float | None:
    """The current estimate of an adaptive norm; None for a fixed norm, which has no state."""
    return _number(norm_state[0], "current_estimate") if len(norm_state) else None


def _number(owner: Any, name: str) -> float | None:
    value = getattr(owner, name, None)
    return None if value is None else float(value)


def norm_to_clip(state: Any) -> float:
    """A canary's norm: 1.001 to 2 times the clip norm and, if possible, not zeroed."""
    clip = read_clip(state)
    if clip.norm is None:
        raise InputError(
            "norm: must be given, as the aggregator's state shows no clip norm; "
            "fl_audit.training.probe(process) finds a norm above the clip norm"
        )
    return clipped_and_kept(clip.norm, clip.unzeroed)


# A round before training that measures canaries in the aggregate.

_COPIES = 32
"""The number of identical canaries in a probe, which reduce the noise by this factor."""

_TOLERATED, _CLEAR = 0.05, 0.5
"""Relative deviations from the expected norm: the tolerated, and the largest for "arrived".

The second includes the error bar of `_ERRORS` standard errors.
"""

_ZEROED = 0.25
"""A canary that measures less than this share of a canary half as long was zeroed."""

_ERRORS = 5.0
"""A deviation beyond this many standard errors is not chance (probability 6e-7)."""

_SMALLEST, _DOUBLINGS = 1e-3, 40
"""The norms tried if the clip norm is unknown: the smallest, and the number of doublings."""

_GROWN = 1.5
"""If doubling a norm multiplies the norm in the aggregate by at least this, it is not clipped."""

_LONGER = 6
"""The number of doublings that look for the longest client, from 2 to 128 times a given norm."""


@dataclass(frozen=True)
class ProbedCanary:
    """The measured canary of a probe's round.

    Attributes:
      norm: The norm of the canary's update before zeroing, clipping, compression and weighting.
      arrived: The canary's norm in the aggregate, along its own direction.
      promised: The expected norm: clip norm over denominator. Without a denominator: the clip norm,
        as the mean of identical canaries equals each canary. If the state has no clip norm: the
        largest norm measured; if nothing clips, `norm` replaces the clip norm.
      error: The standard error of `arrived`, from the noise on the aggregate.
      zeroed: The number of canaries that TFF counted as zeroed; None if TFF does not count them.
    """

    norm: float
    arrived: float
    promised: float
    error: float
    zeroed: int | None

    @property
    def ratio(self) -> float:
        """The measured norm divided by the expected norm."""
        return self.arrived / self.promised

    @property
    def state(self) -> str:
        """The result: "arrived", "not_arrived" or "cannot_tell", as in the checks of an audit."""
        away, error = abs(self.ratio - 1), self.error / self.promised
        if away > _TOLERATED + _ERRORS * error:
            return "not_arrived"
        return "arrived" if away + _ERRORS * error <= _CLEAR else "cannot_tell"

    def __str__(self) -> str:
        """The result as a sentence."""
        counted = "" if not self.zeroed else f"; {self.zeroed} of {_COPIES} were zeroed"
        return (
            f"{self.state}: in the aggregate, a canary of norm {self.norm:.3g} has "
            f"{self.ratio:.3g} ± {self.error / self.promised:.2g} × the largest norm of a client"
            f"{counted}"
        )


def probe(
    process: tff.learning.templates.LearningProcess, norm: float | None = None, state: Any = None
) -> ProbedCanary:
    """Measures in one round whether a canary passes zeroing, clipping, compression and weighting.

    The round has 32 identical canaries and no other client; its state is discarded. If the
    aggregator's state has no clip norm, more such rounds measure the largest norm of a client: for
    a given `norm`, seven rounds with longer canaries; without a given norm, the norm is doubled in
    each round until the measured norm no longer grows. Outside a runtime's block, TFF's runtime
    starts and ends with the probe.

    Args:
      process: A process of `compose_audited_process`.
      norm: The norm of a canary's update; by default the default norm of `CanaryClients`, or
        without a clip norm the first of the doubled norms that is clipped.
      state: The state before the round; by default the initial state.

    Raises:
      InputError: The norm is not positive and finite, or no norm is given and nothing clips or
        zeroes.
    """
    if norm is not None and not 0 < norm < math.inf:
        raise InputError(f"norm: must be positive and finite, got {norm}")
    with instead_of_tffs_worker():
        start = process.initialize() if state is None else state
        if read_clip(start).norm is not None:
            return _probed(process, start, norm_to_clip(start) if norm is None else norm)
        if norm is None:
            return _saturating(process, start)
        probed = _probed(process, start, norm)
        return dataclasses.replace(probed, promised=_longest(process, start, probed))


def _longest(
    process: tff.learning.templates.LearningProcess, start: Any, probed: ProbedCanary
) -> float:
    """The largest measured norm of a client; the probed canary's `promised` if nothing clips."""
    longer = _doubled(process, start, 2 * probed.norm, _LONGER)
    arrived = [canary.arrived for canary in longer]
    is_limited = arrived[-1] < _GROWN * arrived[-2] or arrived[-1] < _GROWN * probed.arrived
    return max(probed.arrived, *arrived) if is_limited else probed.promised


def _saturating(process: tff.learning.templates.LearningProcess, start: Any) -> ProbedCanary:
    """The canary of the first doubled norm that is clipped, or of the last norm not zeroed."""
    last: ProbedCanary | None = None
    for probed in _doubled(process, start, _SMALLEST, _DOUBLINGS):
        if last is not None and probed.arrived < _GROWN * last.arrived and last.state == "arrived":
            is_zeroed = probed.arrived < _ZEROED * last.arrived
            return last if is_zeroed else dataclasses.replace(probed, promised=last.arrived)
        last = probed
    raise InputError(
        "norm: must be given, as the norm of a typical update: nothing clips or zeroes updates up "
        f"to norm {_SMALLEST * 2.0**_DOUBLINGS:.0e}"
    )


def _doubled(
    process: tff.learning.templates.LearningProcess, start: Any, norm: float, doublings: int
) -> Iterator[ProbedCanary]:
    return (_probed(process, start, norm * 2.0**power) for power in range(doublings + 1))


def _probed(
    process: tff.learning.templates.LearningProcess, start: Any, norm: float
) -> ProbedCanary:
    """The result of one round of canaries of a norm, all along one vector."""
    vector = CanaryPool(seed=0, count=2, dim=canary_dim(process)).vector(0)
    data = [canary_client_data(process, norm * vector) for _ in range(_COPIES)]
    metrics = process.next(start, data).metrics
    aggregate = np.concatenate([np.ravel(part) for part in released_aggregate(metrics)])
    along = inner_product(aggregate, vector)
    across = euclidean_norm(aggregate - along * vector) / math.sqrt(len(vector))
    clip = read_clip(start)
    promised = norm if clip.norm is None else clip.norm
    # All canaries are equal, so their mean is as long as each canary.
    counted = 1.0 if clip.denominator is None else _COPIES / clip.denominator
    copies = 1.0 if clip.denominator is None else float(_COPIES)
    metric = metrics.get("aggregator") if hasattr(metrics, "get") else None
    value = metric.get("zeroed_count") if hasattr(metric, "get") else None
    return ProbedCanary(
        norm=norm,
        arrived=along / copies,
        promised=promised * counted / copies,
        error=across / copies,
        zeroed=None if value is None else int(value),
    )
