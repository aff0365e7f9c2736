"""What an actor of Ray's does: the client work of a run's shards, whose data it reads itself."""

import os
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from fl_audit.engines.ray_cluster import end_with_parent, node_of_this_process
from fl_audit.engines.tff import environment
from fl_audit.engines.tff.ray.tree_sum import Subtree, TreeSum
from fl_audit.participation import Cohort

Arrays = list[npt.NDArray[Any]]

CLIENT_PARTS = ("work", "zero", "accumulate", "merge")
"""The parts of a MapReduceForm that an actor runs."""


@dataclass(frozen=True, eq=False)
class Sent:
    """What a round sends to every actor, once to each node.

    Attributes:
      round_index: The index of the round, from 0.
      prepared: What the process sends to its clients, as parts in TFF's order.
      weights: The model's weights, where clients train in blocks; else none.
      canary_norm: The length of the update of a canary that is a vector.
      num_shards: The number of the cohort's shards.
    """

    round_index: int
    prepared: Arrays
    weights: Arrays
    canary_norm: float
    num_shards: int


@dataclass(frozen=True)
class WorkerSetup:
    """What makes an actor one of a run.

    Attributes:
      version: The version of this package in the program that runs the rounds.
      config: The run's resolved config, as TOML.
      parts: TFF's serialized computations of `CLIENT_PARTS`, by name.
      num_threads: The number of clients that work side by side.
    """

    version: str
    config: str
    parts: Mapping[str, bytes]
    num_threads: int


class ClientWorker:
    """An actor; it is loaded by a call, so that what is wrong comes back as it is."""

    def __init__(self) -> None:
        """Ends with Ray, and lets TensorFlow be imported as the program itself does."""
        end_with_parent()
        environment.set_defaults()

    def load(self, setup: WorkerSetup, has_gpus: bool) -> str:
        """Loads the task and the parts of the process; returns the node where the actor is.

        Args:
          setup: What the actor is to do.
          has_gpus: Whether the actor may use GPUs.

        Raises:
          InputError: The task's data cannot be read here, or the package is of another version.
        """
        if not has_gpus:
            os.environ["CUDA_VISIBLE_DEVICES"] = ""
        _check_version(setup.version)
        from tensorflow_federated import framework
        from tensorflow_federated.proto.v0 import computation_pb2

        from fl_audit.config.file import parse_config
        from fl_audit.engines.prepare import prepare
        from fl_audit.engines.tff.compiled import ImportedComputation, LocalSum
        from fl_audit.engines.tff.engine import cohort_data_of, data_sets_of
        from fl_audit.engines.tff.local import clients_side_by_side, trained_blocks_of

        run = prepare(parse_config(tomllib.loads(setup.config), "the run's config"))
        self._read = cohort_data_of(run).round_data
        self._blocks = trained_blocks_of(run)
        self._data_sets = data_sets_of(run)
        parts = {
            name: ImportedComputation(
                framework.deserialize_computation(computation_pb2.Computation.FromString(text))
            )
            for name, text in setup.parts.items()
        }
        threads = clients_side_by_side(setup.num_threads)
        self._client_sum = LocalSum(parts.__getitem__, threads)
        self._merge = parts["merge"]
        return node_of_this_process()

    def total(
        self, sent: Sent, subtree: Subtree, shards: Sequence[Cohort]
    ) -> tuple[Subtree, Arrays]:
        """The sum over the shards of a subtree, in the order of the tree.

        Args:
          sent: What the round sends to its clients.
          subtree: The subtree.
          shards: Its shards.

        Returns:
          The highest subtree whose sum this is, and the sum as parts in TFF's order.
        """
        import tensorflow as tf

        from fl_audit.engines.cohort import prefetched

        prepared = [tf.constant(array) for array in sent.prepared]
        tree = TreeSum[list[Any]](sent.num_shards, lambda a, b: self._merge([*a, *b]))
        with prefetched(lambda shard: self._read(shard, sent.round_index), shards) as read:
            for index, data in zip(subtree.shards(sent.num_shards), read, strict=True):
                participants = self._participants(sent, data)
                tree.add(Subtree(0, index), self._client_sum(prepared, participants))
        reached, total = tree.single
        return reached, [np.asarray(leaf) for leaf in total]

    def merge(self, earlier: Arrays, later: Arrays) -> Arrays:
        """The sum of two sums that lie here, as parts in TFF's order."""
        import tensorflow as tf

        return [np.asarray(leaf) for leaf in self._merge([*map(tf.constant, [*earlier, *later])])]

    def _participants(self, sent: Sent, data: Any) -> Iterable[Any]:
        if self._blocks is None:
            return self._data_sets.client_data(data, sent.canary_norm)
        return self._blocks.results(sent.weights, data, sent.canary_norm)


def _check_version(expected: str) -> None:
    """Raises an `InputError` where another version of the package is installed here."""
    import platform

    from fl_audit.errors import InputError
    from fl_audit.version import __version__

    if expected != __version__:
        raise InputError(
            f"ray: {platform.node()} has fl-audit {__version__} and this program is {expected}; "
            "must be the same on every node"
        )
