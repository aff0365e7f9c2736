"""The runtime `local`: rounds in this Python process, clients one by one or in blocks."""

import contextlib
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import tensorflow as tf
import tensorflow_federated as tff

from fl_audit.config import Mechanism
from fl_audit.cores import num_cores
from fl_audit.engines.cohort import RoundData
from fl_audit.engines.prepare import PreparedRun
from fl_audit.engines.tff.algorithms import (
    build_process,
    build_process_over_results,
)
from fl_audit.engines.tff.blocks import (
    NotVectorizedError,
    TrainedBlocks,
    block_trainer,
    default_clients_per_block,
)
from fl_audit.engines.tff.compiled import LocalContext, local_runtime
from fl_audit.engines.tff.data_sets import DataSets
from fl_audit.engines.tff.rounds import model_weights
from fl_audit.engines.tff.runtime import Runtime, data_sets_of
from fl_audit.errors import InputError
from fl_audit.mechanisms import canary_norm
from fl_audit.tasks.tf.networks import as_classifier


@dataclass(frozen=True)
class Local(Runtime):
    """The runtime that runs the process as plain TensorFlow, one client after another.

    Attributes:
      mechanism: The mechanism table, which decides the length of canaries.
      data_sets: The maker of participants' data sets.
      context: The TFF context that holds the compiled process.
    """

    description: str
    process: tff.templates.IterativeProcess
    mechanism: Mechanism
    data_sets: DataSets
    context: LocalContext

    def session(self) -> contextlib.AbstractContextManager[None]:
        """A block in which TFF's computations run in this process."""
        return local_runtime(self.context)

    def participants(self, state: Any, data: RoundData) -> Iterable[Any]:
        """The participants, made one by one."""
        return self.data_sets.of(data, canary_norm(self.mechanism, state.aggregator))


@dataclass(frozen=True)
class LocalBlocks(Runtime):
    """The runtime `local` with clients trained in blocks.

    Attributes:
      mechanism: The mechanism table, which decides the length of canaries.
      trained_blocks: The trainer of blocks, which makes participants of its results.
      context: The TFF context that holds the compiled process.
    """

    description: str
    process: tff.templates.IterativeProcess
    mechanism: Mechanism
    trained_blocks: TrainedBlocks
    context: LocalContext

    def session(self) -> contextlib.AbstractContextManager[None]:
        """A block in which TFF's computations run in this process."""
        return local_runtime(self.context)

    def participants(self, state: Any, data: RoundData) -> Iterable[Any]:
        """The participants, trained block by block."""
        norm = canary_norm(self.mechanism, state.aggregator)
        return self.trained_blocks.of(model_weights(state), data, norm)


def trained_blocks_of(run: PreparedRun) -> TrainedBlocks | None:
    """The trainer of the blocks that a config asks for; None where clients train one by one.

    Args:
      run: The run, made by `prepare`.

    Raises:
      InputError: The config asks for clients in blocks, but the model cannot be trained so.
    """
    asked_for = run.config.clients_per_block
    classifier = run.task.classifier
    size = asked_for or default_clients_per_block(classifier.dim)
    if size == 1:
        return None
    try:
        trainer = block_trainer(run)
    except NotVectorizedError as error:
        if asked_for:
            raise InputError(f"clients_per_block: must be 1 for this model: {error}") from error
        return None
    batch_size = run.config.client.batch_size
    return TrainedBlocks(trainer, size, batch_size, classifier.padding_label, run.family)


def process_of(
    run: PreparedRun, trained_blocks: TrainedBlocks | None
) -> tff.templates.IterativeProcess:
    """The process of a run, over the results of clients where they train in blocks."""
    build = build_process if trained_blocks is None else build_process_over_results
    classifier, cohort = as_classifier(run.task.classifier), run.schedule.expected_cohort
    return build(classifier, run.config, cohort, run.num_rounds)


def make_local(run: PreparedRun) -> Local | LocalBlocks:
    """The local runtime of a run, its process compiled.

    Args:
      run: The run, made by `prepare`.

    Raises:
      NotLocalError: The runtime cannot run the run's process.
      InputError: The config asks for clients in blocks, but the model cannot be trained so.
    """
    runtime = local_of(run)
    runtime.context.compile(runtime.process.next)
    return runtime


def local_of(run: PreparedRun) -> Local | LocalBlocks:
    """The local runtime of a run, whose process is compiled when it is first used.

    Args:
      run: The run, made by `prepare`.

    Raises:
      InputError: The config asks for clients in blocks, but the model cannot be trained so.
    """
    blocks = trained_blocks_of(run)
    process, mechanism = process_of(run, blocks), run.config.mechanism
    context = LocalContext(num_threads=clients_side_by_side(num_cores()))
    description = f"local, on the {_device()}"
    if blocks is None:
        return Local(description, process, mechanism, data_sets_of(run), context)
    description += f", {blocks.clients_per_block} clients at once"
    return LocalBlocks(description, process, mechanism, blocks, context)


def clients_side_by_side(cores: int) -> int:
    """How many clients work side by side on so many cores; on a GPU one, in full precision."""
    if _device() == "CPU":
        return cores
    # Products would keep ten bits of each factor: blocks and single clients would differ by a
    # thousandth, and cosines with them.
    tf.config.experimental.enable_tensor_float_32_execution(False)
    return 1


def _device() -> str:
    return "GPU" if tf.config.list_physical_devices("GPU") else "CPU"
