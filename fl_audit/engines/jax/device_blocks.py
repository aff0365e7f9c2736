"""Blocks of clients, trained, clipped and summed on one device or on many.

A block is the clients that train at once on one device. Its result depends only on its own clients,
and blocks are added one after another, in an order that depends on the cohort alone. So the sum is
bit for bit the same on any number of devices of one kind.
"""

import math
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.sharding import Mesh, NamedSharding, PartitionSpec
from jax.tree_util import tree_map

from fl_audit.array_types import Float32Array, IntArray
from fl_audit.engines.client_blocks import BlockShape, PaddedBlock, clients_in_memory, pad_block
from fl_audit.engines.jax.aggregation import Aggregation, Norms
from fl_audit.engines.jax.local_training import LocalTraining
from fl_audit.tasks.jax.jax_classifier import Array, Weights
from fl_audit.tasks.learning_task import Examples

# In 2025 `shard_map` moved and one of its arguments was renamed.
if hasattr(jax, "shard_map"):
    _on_each_device = partial(jax.shard_map, check_vma=False)
else:
    from jax.experimental.shard_map import shard_map

    _on_each_device = partial(shard_map, check_rep=False)

_BATCHES_AT_ONCE = 4
"""The number of batches of a client, padding included, in one call of a compiled function."""

CLIENTS_PER_BLOCK_ON_CPU = 4

NO_KEY = np.zeros(4, np.uint32)
"""A key for rounds that draw no noise."""


def _rows_of(clients: Sequence[Examples], batch_size: int) -> int:
    """Examples of a padded batch: `batch_size` or a lower power of two, so few shapes compile."""
    longest = max(map(len, clients), default=1)
    return min(batch_size, 1 << (longest - 1).bit_length())


class Blocks:
    """The compiled functions that train, clip and sum blocks of clients on all devices."""

    def __init__(
        self,
        training: LocalTraining,
        aggregation: Aggregation,
        *,
        devices: Sequence[Any],
        clients_per_block: int,
        batch_size: int,
        padding_label: int,
        precision: str = "float32",
        side_by_side: bool | None = None,
    ) -> None:
        """Functions are compiled at their first calls. `precision` has no effect on a CPU.

        With `side_by_side` a block's clients train together by `jax.vmap`, else one by one; by
        default one by one only on a CPU.
        """
        self._precision = precision
        self._training = training
        self._aggregation = aggregation
        self._size = clients_per_block
        self._batch_size = batch_size
        self._padding_label = padding_label
        self._devices = list(devices)
        is_cpu = devices[0].platform == "cpu"
        self._over_clients = (
            _one_by_one if (is_cpu if side_by_side is None else not side_by_side) else jax.vmap
        )
        # Donated buffers are overwritten; older JAX cannot overwrite on several CPU devices.
        trained = () if is_cpu else (1,)
        mesh = Mesh(np.array(self._devices), ("block",))
        each, same = PartitionSpec("block"), PartitionSpec()
        self._split, self._copied = (NamedSharding(mesh, spec) for spec in (each, same))
        on_devices = partial(_on_each_device, mesh=mesh, out_specs=each)

        def begin(model: Weights, numbers: Array) -> Any:
            return self._over_clients(lambda number: training.begin(model))(numbers)

        def updates(model: Weights, trained: Any) -> Any:
            return jax.vmap(lambda client: training.end(model, client)[0])(trained)

        self._begin = jax.jit(on_devices(_first_of(begin), in_specs=(same, each)))
        self._steps = jax.jit(
            on_devices(_first_of(self._steps_of_block), in_specs=(same, each, each, each, each)),
            donate_argnums=trained,
        )
        self._end = jax.jit(on_devices(_first_of(self._end_block), in_specs=(same, each, each)))
        self._vectors = jax.jit(
            on_devices(_first_of(self._sum_vectors), in_specs=(same, each, each))
        )
        self._updates = jax.jit(on_devices(_first_of(updates), in_specs=(same, each)))
        self._add = jax.jit(self._added, donate_argnums=0)

    def sum_of(
        self,
        weights: Sequence[Float32Array],
        norms: Norms,
        clients: Sequence[Examples],
        vectors: Iterator[Sequence[Float32Array]],
        key: Array = NO_KEY,
    ) -> Any:
        """The `Summed` of all participants of a round, on the first device.

        Participants are numbered in the order of summation: those that train, fewest examples
        first, then the vectors.
        """
        first = self._devices[0]
        model = jax.device_put(list(weights), self._copied)
        limits = jax.device_put((model, norms, key), self._copied)
        total = jax.device_put(self._aggregation.nothing(list(weights)), first)
        rows = _rows_of(clients, self._batch_size)
        before = 0
        for group in _in_groups(sorted(clients, key=len), self._size * len(self._devices)):
            trained = self._trained(model, group, rows)
            sums = self._end(limits, trained, self._numbers(before, len(group), self._size))
            total = self._add(total, jax.device_put(sums, first))
            before += len(group)
        for group in _in_groups(vectors, len(self._devices)):
            updates = self._stacked(group)
            sums = self._vectors(limits, updates, self._numbers(before, len(group), 1))
            total = self._add(total, jax.device_put(sums, first))
            before += len(group)
        return total

    def updates(
        self, weights: Sequence[Float32Array], clients: Sequence[Examples]
    ) -> Iterator[tuple[IntArray, Float32Array]]:
        """Yields clients' positions and updates, as `engines.engine.ClientUpdates` does."""
        model = jax.device_put(list(weights), self._copied)
        order = np.argsort([len(client) for client in clients], kind="stable")
        rows = _rows_of(clients, self._batch_size)
        for members in _in_groups(order, self._size * len(self._devices)):
            trained = self._trained(model, [clients[at] for at in members], rows)
            leaves = [np.asarray(leaf) for leaf in self._updates(model, trained)]
            flat = [leaf.reshape(-1, math.prod(leaf.shape[2:])) for leaf in leaves]
            yield members, np.concatenate(flat, axis=1)[: len(members)]

    def planned_bytes(self, weights: Sequence[Float32Array], client: Examples) -> int:
        """The device memory that XLA plans for the steps of a block of clients like `client`."""
        model = jax.device_put(list(weights), self._copied)
        count = self._size * len(self._devices)
        shape = BlockShape(count, _BATCHES_AT_ONCE, self._batch_size)
        few = client.take(np.arange(self._batch_size))
        block = pad_block([few] * count, shape, self._padding_label)
        trained = self._begin(model, self._numbers(0, count, self._size))
        arrays = self._on_devices(block, slice(0, _BATCHES_AT_ONCE))
        plan = self._steps.lower(model, trained, *arrays).compile().memory_analysis()
        given = plan.argument_size_in_bytes + plan.output_size_in_bytes - plan.alias_size_in_bytes
        return int(given + plan.temp_size_in_bytes)

    def _trained(self, model: Weights, group: Sequence[Examples], rows: int) -> Any:
        """The training states of a group's clients after all their batches."""
        count = self._size * len(self._devices)
        needed = BlockShape.least(group, self._batch_size).batches
        batches = -(-needed // _BATCHES_AT_ONCE) * _BATCHES_AT_ONCE
        shape = BlockShape(count, batches, rows)
        block = pad_block(group, shape, self._padding_label)
        trained = self._begin(model, self._numbers(0, len(group), self._size))
        for start in range(0, batches, _BATCHES_AT_ONCE):
            part = slice(start, start + _BATCHES_AT_ONCE)
            trained = self._steps(model, trained, *self._on_devices(block, part))
        return trained

    def _on_devices(self, block: PaddedBlock, part: slice) -> Any:
        arrays = (block.inputs, block.labels, block.num_examples)
        blocks = (len(self._devices), self._size)
        shaped = [array[:, part] for array in arrays]
        shaped = [array.reshape(blocks + array.shape[1:]) for array in shaped]
        return jax.device_put(shaped, self._split)

    def _numbers(self, first: int, count: int, size: int) -> Array:
        """Participants' numbers from `first` on, padded with -1, of shape (devices, size)."""
        places = np.arange(len(self._devices) * size, dtype=np.int32)
        numbers = np.where(places < count, first + places, -1).astype(np.int32)
        return jax.device_put(numbers.reshape(len(self._devices), size), self._split)

    def _stacked(self, group: Sequence[Sequence[Float32Array]]) -> Weights:
        """Vectors as blocks of one, and zeros for devices without a vector."""
        missing = len(self._devices) - len(group)
        stacked = []
        for leaves in zip(*group, strict=True):
            filled = [*leaves, *[np.zeros_like(leaves[0])] * missing]
            stacked.append(np.stack(filled)[:, None])
        placed: Weights = jax.device_put(stacked, self._split)
        return placed

    # The functions of one block, which each device compiles.

    def _steps_of_block(
        self, model: Weights, trained: Any, inputs: Array, labels: Array, num_examples: Array
    ) -> Any:
        def steps(client: Any, *batches: Array) -> Any:
            with jax.default_matmul_precision(self._precision):
                return self._training.steps(model, client, *batches)

        return self._over_clients(steps)(trained, inputs, labels, num_examples)

    def _end_block(self, limits: tuple[Weights, Norms, Array], trained: Any, numbers: Array) -> Any:
        model, norms, key = limits
        updates, totals = jax.vmap(lambda client: self._training.end(model, client))(trained)
        return self._aggregation.clipped_sum(norms, updates, totals, numbers, key)

    def _sum_vectors(
        self, limits: tuple[Weights, Norms, Array], updates: Any, numbers: Array
    ) -> Any:
        _, norms, key = limits
        totals = jnp.zeros((numbers.shape[0], 2), jnp.float32)
        return self._aggregation.clipped_sum(norms, updates, totals, numbers, key)

    def _added(self, total: Any, sums: Any) -> Any:
        """The total plus the sums of a group's blocks, one after another."""

        def added(leaf: Array, of_blocks: Array) -> Array:
            for at in range(len(self._devices)):
                leaf = leaf + of_blocks[at]
            return leaf

        return tree_map(added, total, sums)


def _one_by_one(function: Any) -> Any:
    """Like `jax.vmap`, but one client after another."""
    return lambda *arguments: lax.map(lambda each: function(*each), arguments)


def _first_of(function: Any) -> Any:
    """Adapts a function of one block to a device's share, where `parts` have a first axis of 1."""

    def on_part(same: Any, *parts: Any) -> Any:
        result = function(same, *tree_map(lambda part: part[0], parts))
        return tree_map(lambda leaf: leaf[None], result)

    return on_part


def _in_groups(items: Any, size: int) -> Iterator[Any]:
    group = []
    for item in items:
        group.append(item)
        if len(group) == size:
            yield group
            group = []
    if group:
        yield group


def default_clients_per_block(dim: int, device: Any) -> int:
    """The default number of clients that train at once on a device."""
    if device.platform == "cpu":
        return CLIENTS_PER_BLOCK_ON_CPU
    return clients_in_memory(dim, device.memory_stats()["bytes_limit"])
