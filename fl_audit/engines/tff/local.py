"""The runtime `local`: rounds in this Python process, clients one by one or in blocks."""

import contextlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tensorflow as tf
import tensorflow_federated as tff

from fl_audit.array_types import Float32Array
from fl_audit.config import Mechanism
from fl_audit.engines.cohort import RoundData
from fl_audit.engines.engine import as_vector, shows_uploads
from fl_audit.engines.prepare import PreparedRun
from fl_audit.engines.tff.algorithms import build_process, build_process_over_results
from fl_audit.engines.tff.canary_clients import DataSets, with_noise_keys
from fl_audit.engines.tff.canary_process import model_weights
from fl_audit.engines.tff.compiled import LocalContext, local_runtime
from fl_audit.engines.tff.tff_engine import TffEngine, data_sets_of
from fl_audit.engines.tff.trained_blocks import (
    NotVectorizedError,
    TrainedBlocks,
    block_trainer,
    default_clients_per_block,
)
from fl_audit.errors import InputError
from fl_audit.mechanisms import canary_norm
from fl_audit.resources import num_cores
from fl_audit.tasks.tf.networks import as_classifier


@dataclass(frozen=True)
class InThisProcess(TffEngine):
    """A runtime that runs the process as plain TensorFlow in this Python process."""

    description: str
    process: tff.templates.IterativeProcess
    mechanism: Mechanism
    context: LocalContext
    shows_uploads: bool  # whether rounds record what canaries upload

    def session(self) -> contextlib.AbstractContextManager[None]:
        return local_runtime(self.context)

    @contextlib.contextmanager
    def seen_uploads(self, state: Any, data: RoundData) -> Iterator[dict[int, Float32Array]]:
        """A context in which a round records canaries' uploads, with the sign of `SeenRound`."""
        uploads: dict[int, Float32Array] = {}
        if not self.shows_uploads:
            yield uploads
            return
        shapes = [weights.shape for weights in model_weights(state)]
        first = len(data.trained)

        def see(place: int, work: Sequence[Any]) -> None:
            if place >= first:
                canary = int(data.vectors[place - first])
                uploads[canary] = -as_vector(_update_among(work, shapes))

        with self.context.watched(see):
            yield uploads


def _update_among(work: Sequence[Any], shapes: Sequence[tuple[int, ...]]) -> list[Float32Array]:
    """The arrays of a client's update, found among its results by their shapes."""
    part_shapes = [tuple(part.shape) for part in work]
    for start in range(len(part_shapes) - len(shapes) + 1):
        if part_shapes[start : start + len(shapes)] == list(shapes):
            return [part.numpy() for part in work[start : start + len(shapes)]]
    raise ValueError(f"no update of shapes {shapes} among parts of shapes {part_shapes}")


@dataclass(frozen=True)
class Local(InThisProcess):
    """The runtime `local` with clients trained one by one."""

    data_sets: DataSets

    def participants(self, state: Any, data: RoundData) -> Iterable[Any]:
        return self.data_sets.participants(data, self.mechanism, state)


@dataclass(frozen=True)
class LocalBlocks(InThisProcess):
    """The runtime `local` with clients trained in blocks."""

    trained_blocks: TrainedBlocks

    def participants(self, state: Any, data: RoundData) -> Iterable[Any]:
        norm = canary_norm(self.mechanism, state.aggregator)
        client_data = self.trained_blocks.results(model_weights(state), data, norm)
        return with_noise_keys(client_data, self.mechanism, state, data, lambda key: key)


def trained_blocks_of(run: PreparedRun) -> TrainedBlocks | None:
    """The trainer of a run's blocks; None if clients train one by one."""
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
    """The process of a run; if clients train in blocks, a process over their results."""
    build = build_process if trained_blocks is None else build_process_over_results
    classifier, cohort = as_classifier(run.task.classifier), run.schedule.expected_cohort
    return build(classifier, run.config, cohort, run.num_rounds)


def make(run: PreparedRun, worker_log: Path, why: str) -> Local | LocalBlocks:
    """The local runtime of a run, with its process compiled."""
    runtime = local_of(run)
    runtime.context.compile(runtime.process.next)
    return runtime


def local_of(run: PreparedRun) -> Local | LocalBlocks:
    """The local runtime of a run; its process is compiled when it is first used."""
    blocks = trained_blocks_of(run)
    process, mechanism = process_of(run, blocks), run.config.mechanism
    context = LocalContext(num_threads=clients_in_parallel(num_cores()))
    description = f"local, on the {_device()}"
    shows = shows_uploads(run)
    if blocks is None:
        return Local(description, process, mechanism, context, shows, data_sets_of(run))
    description += f", {blocks.clients_per_block} clients at once"
    return LocalBlocks(description, process, mechanism, context, shows, blocks)


def clients_in_parallel(cores: int) -> int:
    """The number of client threads: one per core; on a GPU one, and TF32 is turned off."""
    if _device() == "CPU":
        return cores
    # TF32 products keep only ten bits of each factor: results of blocks and of single clients, and
    # so cosines, would differ by a thousandth.
    tf.config.experimental.enable_tensor_float_32_execution(False)
    return 1


def _device() -> str:
    return "GPU" if tf.config.list_physical_devices("GPU") else "CPU"
