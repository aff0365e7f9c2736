"""Aggregations that TFF and tensorflow-privacy lack; this module imports both libraries.

These are sums divided by the expected cohort, trees with restarts, noise correlated by a matrix,
noise from clients, and plain sums that simulate secure ones: TFF leaves the protocol of a secure
sum to the platform, and the runtimes in TFF's Python package have none. Secure aggregation releases
only the sum, so an attacker who sees results sees the same in both cases.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import dp_accounting
import numpy as np
import tensorflow as tf
import tensorflow_federated as tff
import tensorflow_privacy as tfp

from fl_audit.mechanisms.kind import NoiseStream
from fl_audit.mechanisms.tff_noise import NodeNoise, fresh_key, normal_like

NO_SECURE_SUMS = (
    "the aggregation asks for secure sums, which TFF leaves to the platform; wrap the aggregation "
    "factory in fl_audit.mechanisms.tff_aggregators.WithPlainSums, which sums in the open"
)
"""Why a runtime refuses a process with secure sums, with advice."""


def mean_over_expected_cohort(
    query: tfp.SumAggregationDPQuery, expected_cohort: float
) -> tff.aggregators.UnweightedAggregationFactory:
    """A query's sum divided by the expected cohort, not by the actual cohort."""
    return tff.aggregators.DifferentiallyPrivateFactory(
        tfp.NormalizedQuery(query, denominator=expected_cohort)
    )


class MeanOverExpectedCohort(tff.aggregators.UnweightedAggregationFactory):
    """`mean_over_expected_cohort` of a query that needs the updates' shapes, which `create` has."""

    def __init__(
        self, make_query: Callable[[Any], tfp.SumAggregationDPQuery], expected_cohort: float
    ) -> None:
        """`make_query` takes the `tf.TensorSpec`s of an update."""
        self._make_query = make_query
        self._expected_cohort = expected_cohort

    def create(self, value_type: tff.Type) -> tff.templates.AggregationProcess:
        query = self._make_query(tff.types.type_to_tf_tensor_specs(value_type))
        return mean_over_expected_cohort(query, self._expected_cohort).create(value_type)


def tree_query(
    record_specs: Any, clip_norm: float, stddev: float, restart_every: int | None
) -> tfp.SumAggregationDPQuery:
    """Tree aggregation (Kairouz et al. 2021, arXiv:2103.00039, algorithm 1).

    `stddev` is the standard deviation of the noise on each node. A tree spans `restart_every`
    rounds; with None a tree spans all rounds, as in TFF's
    `DifferentiallyPrivateFactory.tree_aggregation`.
    """
    query = tfp.TreeResidualSumQuery(
        record_specs,
        NodeNoise(stddev, record_specs),
        lambda record, clip_norm: tf.clip_by_global_norm(record, clip_norm)[0],
        clip_norm,
    )
    if restart_every is None:
        return query
    return tfp.RestartQuery(query, tfp.restart_query.PeriodicRoundRestartIndicator(restart_every))


class MatrixSumQuery(tfp.SumAggregationDPQuery):
    """A sum of clipped records with noise C^-1 z, one row per call (matrix.py).

    The key of fresh noise is drawn with the initial state. So a state fixes all future noise, on
    any runtime and after any restart, and anyone who sees the state can remove the noise.
    """

    class GlobalState(NamedTuple):
        """The state between two calls."""

        key: Any  # the key of the generator, int64 of shape (2,)
        calls: Any  # the number of calls so far, int64
        # the kept vectors of the stream in blocks, each a tensor of shape (rows, parameters).
        # Blocks without a new row are passed on; one tensor of all vectors would be copied
        past: Any

    def __init__(
        self, clip_norm: float, stddev: float, stream: NoiseStream, record_specs: Any
    ) -> None:
        """z has standard deviation `stddev`; `record_specs` are `tf.TensorSpec`s of a record."""
        self._clip_norm = clip_norm
        self._stddev = stddev
        self._stream = stream
        self._record_specs = record_specs

    def initial_global_state(self) -> "MatrixSumQuery.GlobalState":
        specs = tf.nest.flatten(self._record_specs)
        size = sum(spec.shape.num_elements() for spec in specs)
        blocks, rows = _blocks(self._stream)
        return self.GlobalState(
            key=fresh_key(),
            calls=tf.constant(0, tf.int64),
            past=(tf.zeros([rows, size], specs[0].dtype),) * blocks,
        )

    def derive_sample_params(self, global_state: "MatrixSumQuery.GlobalState") -> Any:
        return tf.constant(self._clip_norm, tf.float32)

    def preprocess_record(self, params: Any, record: Any) -> Any:
        clipped, _ = tf.clip_by_global_norm(tf.nest.flatten(record), params)
        return tf.nest.pack_sequence_as(record, clipped)

    def get_noised_result(
        self, sample_state: Any, global_state: "MatrixSumQuery.GlobalState"
    ) -> tuple[Any, "MatrixSumQuery.GlobalState", dp_accounting.DpEvent]:
        sums = tf.nest.flatten(sample_state)
        normals = normal_like(global_state.key, global_state.calls, sums)
        fresh = self._stddev * tf.concat([tf.reshape(part, [-1]) for part in normals], axis=0)
        noise, past = self._next(fresh, global_state)
        noised = [value + part for value, part in zip(sums, _parted(noise, sums), strict=True)]
        state = self.GlobalState(global_state.key, global_state.calls + 1, past)
        result = tf.nest.pack_sequence_as(sample_state, noised)
        return result, state, dp_accounting.UnsupportedDpEvent()

    def _next(
        self, fresh: tf.Tensor, state: "MatrixSumQuery.GlobalState"
    ) -> tuple[tf.Tensor, tuple[tf.Tensor, ...]]:
        """The noise of a call, and the blocks kept after it."""
        stream, past = self._stream, state.past
        noise = stream.fresh * fresh
        if not stream.weights:
            return noise, past
        if stream.decays is not None:
            noise += _weighted_sum(tf.constant(stream.weights, fresh.dtype), past)
            pairs = zip(stream.decays, past, strict=True)
            return noise, tuple(decay * block + noise for decay, block in pairs)
        # A ring: the first block has the newest vectors, and a new vector replaces the oldest.
        rows = past[0].shape[0]
        row = state.calls % rows
        if rows == 1:
            past = _turned(past)
        else:
            past = tf.cond(tf.equal(row, 0), lambda: _turned(past), lambda: past)
        number = len(past) * rows
        places = np.arange(number).reshape(-1, rows)[:, ::-1].ravel() - rows
        weights = [*stream.weights, *[0.0] * (number - len(stream.weights))]
        noise += _weighted_sum(tf.gather(weights, (places + row) % number), past)
        newest = (fresh if stream.keeps_fresh else noise)[None]
        first = newest if rows == 1 else tf.tensor_scatter_nd_update(past[0], [[row]], newest)
        return noise, (first, *past[1:])


_MOST_BLOCKS = 32
"""The largest number of blocks of kept vectors; a thousand would take a minute to compile."""

_AT_ONCE = 1 << 21
"""The largest number of entries of kept vectors that `_weighted_sum` multiplies at once."""


def _blocks(stream: NoiseStream) -> tuple[int, int]:
    """The number of blocks for a stream's kept vectors, and the rows of each."""
    number = len(stream.weights)
    rows = max(1, -(-number // _MOST_BLOCKS))
    return -(-number // rows), rows


def _turned(blocks: tuple[tf.Tensor, ...]) -> tuple[tf.Tensor, ...]:
    return (blocks[-1], *blocks[:-1])


def _weighted_sum(weights: tf.Tensor, blocks: tuple[tf.Tensor, ...]) -> tf.Tensor:
    """The weighted sum of all rows of some blocks, in chunks of coordinates to save memory."""
    size = blocks[0].shape[1]
    width = max(1, _AT_ONCE // weights.shape[0])
    chunks = -(-size // width)

    def add(at: tf.Tensor, done: tf.TensorArray) -> tuple[tf.Tensor, tf.TensorArray]:
        columns = slice(at * width, tf.minimum((at + 1) * width, size))
        rows = tf.concat([block[:, columns] for block in blocks], axis=0)
        return at + 1, done.write(at, tf.matmul(weights[None], rows)[0])

    done = tf.TensorArray(weights.dtype, chunks, infer_shape=False, element_shape=[None])
    _, done = tf.while_loop(
        lambda at, done: at < chunks, add, [tf.constant(0), done], parallel_iterations=2
    )
    return tf.ensure_shape(done.concat(), [size])


def _parted(vector: tf.Tensor, like: list[tf.Tensor]) -> list[tf.Tensor]:
    """A vector split into tensors of the shapes of `like`."""
    parts = tf.split(vector, [part.shape.num_elements() for part in like])
    return [tf.reshape(part, tensor.shape) for part, tensor in zip(parts, like, strict=True)]


class WithPlainSums(tff.aggregators.UnweightedAggregationFactory):
    """An aggregation with plain sums instead of secure ones."""

    def __init__(self, factory: tff.aggregators.UnweightedAggregationFactory) -> None:
        self._factory = factory

    def create(self, value_type: tff.Type) -> tff.templates.AggregationProcess:
        process = self._factory.create(value_type)
        # Flattened before further composition: protobuf reads at most a hundred nested messages,
        # and a distributed mechanism inside zeroing has more.
        flat = tff.backends.native.desugar_and_transform_to_native(process.next)
        summed = tff.backends.test.replace_secure_intrinsics_with_bodies(flat)
        next_fn = _with_containers(summed, process.next.type_signature)
        return tff.templates.AggregationProcess(process.initialize, next_fn)


class WithCheckedSize(tff.aggregators.UnweightedAggregationFactory):
    """An aggregation whose number of parameters `check` may refuse with an InputError."""

    def __init__(
        self, factory: tff.aggregators.UnweightedAggregationFactory, check: Callable[[int], None]
    ) -> None:
        self._factory = factory
        self._check = check

    def create(self, value_type: tff.Type) -> tff.templates.AggregationProcess:
        specs = tf.nest.flatten(tff.types.type_to_tf_tensor_specs(value_type))
        self._check(sum(spec.shape.num_elements() for spec in specs))
        return self._factory.create(value_type)


def _with_containers(computation: tff.Computation, signature: tff.FunctionType) -> tff.Computation:
    """The `next` of a process, with the Python containers that TFF's compiler dropped."""
    state_type, value_type = signature.parameter

    @tff.tensorflow.computation(state_type.member)
    def contained_state(state: Any) -> Any:
        return state

    @tff.tensorflow.computation(signature.result.result.member)
    def contained_result(result: Any) -> Any:
        return result

    @tff.federated_computation(state_type, value_type)
    def next_fn(state: Any, value: Any) -> Any:
        output = computation(state, value)
        return tff.templates.MeasuredProcessOutput(
            tff.federated_map(contained_state, output.state),
            tff.federated_map(contained_result, output.result),
            output.measurements,
        )

    return next_fn


# Noise that each client adds to its own upload. Each participant has a key for a counter-based
# generator, derived from the key in the aggregation's state. The state's key is drawn from the
# operating system's entropy. So a state fixes all future noise on any runtime, and anyone who sees
# the state can remove the noise. In production a device draws its own key.


def noised_upload(
    update: Sequence[tf.Tensor], key: tf.Tensor, clip_norm: float, noise_multiplier: float
) -> list[tf.Tensor]:
    """A client's upload: its clipped update plus Gaussian noise.

    `key` is the client's key in this round, int64 of shape (2,).
    """
    clipped, _ = tf.clip_by_global_norm(list(update), clip_norm)
    stddev = noise_multiplier * clip_norm
    noise = normal_like(key, 0, clipped)
    return [part + stddev * normal for part, normal in zip(clipped, noise, strict=True)]


class SumOfUploads(tfp.SumAggregationDPQuery):
    """A sum of clipped and noised uploads, without further noise."""

    class GlobalState(NamedTuple):
        """The key of all clients' noise, int64 of shape (2,), and the number of calls, int64."""

        key: Any
        calls: Any

    def initial_global_state(self) -> "SumOfUploads.GlobalState":
        return self.GlobalState(key=fresh_key(), calls=tf.constant(0, tf.int64))

    def get_noised_result(
        self, sample_state: Any, global_state: "SumOfUploads.GlobalState"
    ) -> tuple[Any, "SumOfUploads.GlobalState", dp_accounting.DpEvent]:
        state = self.GlobalState(key=global_state.key, calls=global_state.calls + 1)
        return sample_state, state, dp_accounting.UnsupportedDpEvent()


def sums_uploads(aggregator: tff.templates.AggregationProcess) -> bool:
    """Whether an aggregator sums uploads that clients have to clip and noise themselves."""

    def is_state(kind: tff.Type) -> bool:
        if not isinstance(kind, tff.StructType):
            return False
        if getattr(kind, "python_container", None) is SumOfUploads.GlobalState:
            return True
        return any(is_state(part) for _, part in tff.structure.iter_elements(kind))

    return is_state(aggregator.initialize.type_signature.result.member)


class MeanOfNoisedUploads(tff.aggregators.UnweightedAggregationFactory):
    """The sum of noised uploads, divided by the expected cohort."""

    def __init__(self, clip_norm: float, noise_multiplier: float, expected_cohort: float) -> None:
        self.clip_norm = clip_norm
        self.noise_multiplier = noise_multiplier
        self._expected_cohort = expected_cohort

    def upload(self, update: Any, key: tf.Tensor) -> Any:
        """The upload for an update, a structure of tensors."""
        parts = tf.nest.flatten(update)
        uploaded = noised_upload(parts, key, self.clip_norm, self.noise_multiplier)
        return tf.nest.pack_sequence_as(update, uploaded)

    def create(self, value_type: tff.Type) -> tff.templates.AggregationProcess:
        return mean_over_expected_cohort(SumOfUploads(), self._expected_cohort).create(value_type)
