"""Which runtime runs a round, and what it is given of the round's participants."""

import abc
import contextlib
import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf
import tensorflow_federated as tff

from fl_audit.config import FedSgd
from fl_audit.errors import InputError
from fl_audit.mechanisms import Mechanism, canary_norm
from fl_audit.training.algorithm.optimizers import client_optimizer
from fl_audit.training.algorithm.process import build_process, build_process_over_results
from fl_audit.training.algorithm.round import model_weights
from fl_audit.training.data.cohort_data import DataSets, RoundData
from fl_audit.training.run.prepare import PreparedRun
from fl_audit.training.runtimes.block_size import default_clients_per_block
from fl_audit.training.runtimes.blocks import BlockTrainer, NotVectorizedError
from fl_audit.training.runtimes.local_runtime import LocalContext, NotLocalError, local_runtime
from fl_audit.training.runtimes.local_training import MeanGradient, OptimizerSteps
from fl_audit.training.runtimes.native_runtime import native_runtime
from fl_audit.training.runtimes.trained_blocks import TrainedBlocks

# TFF's worker never forgets a client's data set: it grew by about 70 KB a client and round,
# which would be 24 GB over 2,048 rounds of 167 clients. A new worker takes a second or two.
_ROUNDS_PER_WORKER = 100


class Runtime(abc.ABC):
    """A learning process and what runs it.

    Attributes:
      description: which runtime, how, and why it was chosen; a line for people.
      process: the learning process.
      rounds_per_session: how many rounds a session may last; None for any number.
    """

    description: str
    process: tff.templates.IterativeProcess
    rounds_per_session: int | None = None

    @abc.abstractmethod
    def session(self) -> contextlib.AbstractContextManager[None]:
        """Inside the block, TFF's computations run on this runtime."""

    @abc.abstractmethod
    def participants(self, state: Any, data: RoundData) -> Iterable[Any]:
        """What `process.next` takes of a round's participants.

        Args:
          state: of the process at the round's start.
          data: of the participants.
        """


@dataclass(frozen=True)
class Native(Runtime):
    """TFF's own C++ runtime, in a worker process.

    Attributes:
      mechanism: decides how long canaries are.
      data_sets: makes participants.
      worker_log: where the worker's output is appended.
    """

    description: str
    process: tff.templates.IterativeProcess
    mechanism: Mechanism
    data_sets: DataSets
    worker_log: Path
    rounds_per_session: int | None = _ROUNDS_PER_WORKER

    def session(self) -> contextlib.AbstractContextManager[None]:
        """Starts a worker, and ends it with the block."""
        return native_runtime(self.worker_log, os.cpu_count() or 1)

    def participants(self, state: Any, data: RoundData) -> Iterable[Any]:
        """A list, as TFF counts clients before it begins."""
        norm = canary_norm(self.mechanism, state.aggregator)
        return list(self.data_sets.of(data, norm))


@dataclass(frozen=True)
class Local(Runtime):
    """The process compiled to plain TensorFlow, one client after another.

    Attributes:
      mechanism: decides how long canaries are.
      data_sets: makes participants.
      context: holds the compiled process.
    """

    description: str
    process: tff.templates.IterativeProcess
    mechanism: Mechanism
    data_sets: DataSets
    context: LocalContext

    def session(self) -> contextlib.AbstractContextManager[None]:
        """Costs nothing."""
        return local_runtime(self.context)

    def participants(self, state: Any, data: RoundData) -> Iterable[Any]:
        """Made one by one."""
        return self.data_sets.of(data, canary_norm(self.mechanism, state.aggregator))


@dataclass(frozen=True)
class LocalBlocks(Runtime):
    """As `Local`, with clients trained in blocks.

    Attributes:
      mechanism: decides how long canaries are.
      trained_blocks: trains, and makes participants.
      context: holds the compiled process.
    """

    description: str
    process: tff.templates.IterativeProcess
    mechanism: Mechanism
    trained_blocks: TrainedBlocks
    context: LocalContext

    def session(self) -> contextlib.AbstractContextManager[None]:
        """Costs nothing."""
        return local_runtime(self.context)

    def participants(self, state: Any, data: RoundData) -> Iterable[Any]:
        """Trained block by block."""
        norm = canary_norm(self.mechanism, state.aggregator)
        return self.trained_blocks.of(model_weights(state), data, norm)


def make_runtime(run: PreparedRun, worker_log: Path) -> Runtime:
    """The runtime that a config asks for; `auto` takes `local` where it can run the process.

    Args:
      run: of `prepare`.
      worker_log: where a worker's output would be appended.

    Raises:
      InputError: the config asks for `local`, and it cannot run the process; or for clients in
        blocks where they cannot train so.
    """
    if run.config.runtime == "native":
        if run.config.clients_per_block is not None:
            raise InputError("clients_per_block: is for runtime 'local'; leave it out for 'native'")
        return _native(run, worker_log, "asked for")
    try:
        return _local(run)
    except NotLocalError as error:
        if run.config.runtime == "local":
            raise InputError(f"runtime: must be 'native' for this process: {error}") from error
        return _native(run, worker_log, f"local cannot run this process: {error}")


def block_trainer(run: PreparedRun) -> BlockTrainer:
    """Trains blocks of a run's clients as each of them trains.

    Raises:
      NotVectorizedError: the model cannot train so.
    """
    client = run.config.client
    if isinstance(client, FedSgd):
        return BlockTrainer(run.task.classifier, MeanGradient())
    return BlockTrainer(run.task.classifier, OptimizerSteps(client_optimizer(client)))


def _data_sets(run: PreparedRun) -> DataSets:
    none = run.task.held_out.take(np.zeros(0, np.int64))
    return DataSets(run.config.client.batch_size, run.family, none)


def _native(run: PreparedRun, worker_log: Path, why: str) -> Native:
    process = build_process(run.task.classifier, run.config, run.schedule.expected_cohort)
    description = f"native, on CPUs ({why})"
    return Native(description, process, run.config.mechanism, _data_sets(run), worker_log)


def _local(run: PreparedRun) -> Local | LocalBlocks:
    asked_for = run.config.clients_per_block
    size = asked_for or default_clients_per_block(run.task.classifier.dim)
    if size > 1:
        try:
            return _in_blocks(run, size)
        except NotVectorizedError as error:
            if asked_for:
                raise InputError(f"clients_per_block: must be 1 for this model: {error}") from error
    return _one_by_one(run)


def _one_by_one(run: PreparedRun) -> Local:
    process = build_process(run.task.classifier, run.config, run.schedule.expected_cohort)
    context = _context_with(process)
    description = f"local, on the {_device()}"
    return Local(description, process, run.config.mechanism, _data_sets(run), context)


def _in_blocks(run: PreparedRun, size: int) -> LocalBlocks:
    trained_blocks = TrainedBlocks(
        block_trainer(run),
        size,
        run.config.client.batch_size,
        run.task.classifier.padding_label,
        run.family,
    )
    parts = (run.task.classifier, run.config, run.schedule.expected_cohort)
    process = build_process_over_results(*parts)
    context = _context_with(process)
    description = f"local, on the {_device()}, {size} clients at once"
    return LocalBlocks(description, process, run.config.mechanism, trained_blocks, context)


def _context_with(process: tff.templates.IterativeProcess) -> LocalContext:
    on_gpu = _device() == "GPU"
    if on_gpu:
        # Products would keep ten bits of each factor: blocks and single clients would differ by
        # a thousandth, and cosines with them.
        tf.config.experimental.enable_tensor_float_32_execution(False)
    context = LocalContext(num_threads=1 if on_gpu else os.cpu_count() or 1)
    context.compile(process.next)
    return context


def _device() -> str:
    return "GPU" if tf.config.list_physical_devices("GPU") else "CPU"
