"""What an actor of Ray's does: the client work of a run's shards, whose data it reads itself.

An engine's actors are a class below `ClientWorker`, in a module that imports no framework: an actor
is told whether it has GPUs before anything looks for them.
"""

import abc
import os
import platform
import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy.typing as npt

from fl_audit.engines.cohort import RoundData, prefetched
from fl_audit.engines.prepare import PreparedRun, prepare
from fl_audit.engines.ray.cluster import end_with_parent, node_of_this_process
from fl_audit.engines.ray.tree_sum import Subtree, TreeSum
from fl_audit.errors import InputError
from fl_audit.participation import Cohort
from fl_audit.version import __version__

Arrays = list[npt.NDArray[Any]]


@dataclass(frozen=True, eq=False)
class Sent:
    """What a round sends to every actor, once to each node.

    Attributes:
      round_index: The index of the round, from 0.
      prepared: What the engine sends to clients beside the model, as parts in its own order.
      weights: The model's weights; none where they are among `prepared`.
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
      cpus: The CPUs that each actor has.
      gpus: The GPUs that each actor has, or the share of one.
      parts: Serialized functions that the engine's actors run, by name; none where they make them
        of the config.
    """

    version: str
    config: str
    cpus: int
    gpus: float
    parts: Mapping[str, bytes]


class ClientWorker(abc.ABC):
    """An actor; it is loaded by a call, so that what is wrong comes back as it is."""

    def __init__(self) -> None:
        """Ends with Ray."""
        end_with_parent()

    def load(self, setup: WorkerSetup) -> str:
        """Loads the task and what trains it; returns the node where the actor is.

        Args:
          setup: What the actor is to do.

        Raises:
          InputError: The task's data cannot be read here, or the package is of another version.
        """
        if not setup.gpus:
            os.environ["CUDA_VISIBLE_DEVICES"] = ""
        if setup.version != __version__:
            raise InputError(
                f"ray: {platform.node()} has fl-audit {__version__} and this program is "
                f"{setup.version}; must be the same on every node"
            )
        from fl_audit.config.file import parse_config

        run = prepare(parse_config(tomllib.loads(setup.config), "the run's config"))
        self._read = run.cohort_data.round_data
        self._load_engine(run, setup)
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
          The highest subtree whose sum this is, and the sum as parts in the engine's order.
        """
        tree = TreeSum[Any](sent.num_shards, self._merged)
        shard_sum = self._shard_sum_of(sent)
        with prefetched(lambda shard: self._read(shard, sent.round_index), shards) as read:
            for index, data in zip(subtree.shards(sent.num_shards), read, strict=True):
                tree.add(Subtree(0, index), shard_sum(data))
        reached, total = tree.single
        return reached, self._arrays(total)

    def merge(self, earlier: Arrays, later: Arrays) -> Arrays:
        """The sum of two sums that lie here, as parts in the engine's order."""
        return self._arrays(self._merged(earlier, later))

    @abc.abstractmethod
    def _load_engine(self, run: PreparedRun, setup: WorkerSetup) -> None:
        """Loads what trains the clients of a run."""

    @abc.abstractmethod
    def _shard_sum_of(self, sent: Sent) -> Callable[[RoundData], Any]:
        """A function from a shard's participants to their sum, in a form that `_merged` takes."""

    @abc.abstractmethod
    def _merged(self, earlier: Any, later: Any) -> Any:
        """The sum of two sums, each in the form of a shard's or as arrays."""

    @abc.abstractmethod
    def _arrays(self, total: Any) -> Arrays:
        """A sum as arrays."""
