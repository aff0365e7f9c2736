"""The work of a Ray actor: it reads the data of clients, trains them and sums their updates.

An engine's actors are of a subclass of `ClientWorker`, in a module that imports no framework:
whether the actor has GPUs must be set before a framework looks for them.
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
    """The data of a round for every actor, sent once per node."""

    round_index: int  # from 0
    prepared: Arrays  # further inputs of clients besides the weights, in the engine's order
    weights: Arrays  # empty if `prepared` has them
    canary_norm: float  # of an update, for canaries that are vectors
    num_shards: int


@dataclass(frozen=True)
class WorkerSetup:
    """Everything that an actor needs to load a run."""

    version: str  # the version of fl_audit in the program that runs the rounds
    config: str  # resolved, as TOML
    cpus: int  # of each actor
    gpus: float  # of each actor; may be a fraction
    parts: Mapping[str, bytes]  # serialized functions; empty if actors build theirs from the config


class ClientWorker(abc.ABC):
    """An actor; it loads the task in `load`, not in `__init__`, so that errors are not wrapped."""

    def __init__(self) -> None:
        end_with_parent()

    def load(self, setup: WorkerSetup) -> str:
        """Loads the task and its trainer; returns the actor's node."""
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
        """Sums the shards of a subtree, in the order of the tree.

        Returns:
          The subtree that these shards complete, `subtree` or a larger subtree, and the sum.
        """
        tree = TreeSum[Any](sent.num_shards, self._merged)
        shard_sum = self._shard_sum_of(sent)
        with prefetched(lambda shard: self._read(shard, sent.round_index), shards) as read:
            for index, data in zip(subtree.shards(sent.num_shards), read, strict=True):
                tree.add(Subtree(0, index), shard_sum(data))
        reached, total = tree.single
        return reached, self._arrays(total)

    def merge(self, earlier: Arrays, later: Arrays) -> Arrays:
        """The sum of two sums on this node, as arrays in the engine's order."""
        return self._arrays(self._merged(earlier, later))

    @abc.abstractmethod
    def _load_engine(self, run: PreparedRun, setup: WorkerSetup) -> None:
        """Loads the trainer of a run's clients."""

    @abc.abstractmethod
    def _shard_sum_of(self, sent: Sent) -> Callable[[RoundData], Any]:
        """A function from a shard's participants to their sum, for `_merged`."""

    @abc.abstractmethod
    def _merged(self, earlier: Any, later: Any) -> Any:
        """The sum of two sums, each as `_shard_sum_of` gives it or as arrays."""

    @abc.abstractmethod
    def _arrays(self, total: Any) -> Arrays:
        """A sum as arrays."""
