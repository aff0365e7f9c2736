"""The runtime `local`: rounds in this Python process, clients one by one or in blocks."""

import contextlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tensorflow as tf
import tensorflow_federated as tff

from fl_audit.array_types import Float32Array
from fl_audit.engines.cohort import RoundData
from fl_audit.engines.engine import as_vector, shows_uploads
from fl_audit.engines.prepare import PreparedRun
from fl_audit.engines.tff.algorithms import build_process, build_process_over_results
from fl_audit.engines.tff.canary_clients import DataSets
from fl_audit.engines.tff.canary_process import model_weights
from fl_audit.engines.tff.compiled import LocalContext, local_runtime
from fl_audit.engines.tff.tff_engine import ClientInputs, TffEngine, participants_of
from fl_audit.engines.tff.trained_blocks import (
    NotVectorizedError,
    TrainedBlocks,
    clients_per_block_of,
)
from fl_audit.errors import InputError
from fl_audit.resources import num_cores
from fl_audit.tasks.tf.networks import as_classifier


@dataclass(frozen=True)
class Local(TffEngine):
    """The runtime `local`: the process as plain TensorFlow in this Python process."""

    context: LocalContext
    shows_uploads: bool  # whether rounds record what canaries upload
    client_inputs: ClientInputs

    def session(self) -> contextlib.AbstractContextManager[None]:
        return local_runtime(self.context)

    def participants(self, state: Any, data: RoundData) -> Iterable[Any]:
        return participants_of(self.client_inputs, self.mechanism, state, data)

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


def client_inputs_of(run: PreparedRun) -> ClientInputs:
    """The inputs of a run's process: of blocks of clients, or of clients one by one."""
    size = clients_per_block_of(run)
    if size > 1:
        try:
            return TrainedBlocks.from_run(run, size)
        except NotVectorizedError as error:
            if run.config.clients_per_block:
                raise InputError(f"clients_per_block: must be 1 for this model: {error}") from error
    return DataSets.from_run(run)


def process_of(run: PreparedRun, inputs: ClientInputs) -> tff.templates.IterativeProcess:
    """The process of a run, over these inputs."""
    build = build_process if isinstance(inputs, DataSets) else build_process_over_results
    classifier, cohort = as_classifier(run.task.classifier), run.schedule.expected_cohort
    return build(classifier, run.config, cohort, run.num_rounds)


def at_once(inputs: ClientInputs) -> str:
    """The number of clients in a block, for a runtime's description; empty without blocks."""
    size = inputs.clients_per_block
    return f", {size} clients at once" if size > 1 else ""


def make(run: PreparedRun, worker_log: Path, why: str) -> Local:
    """The local runtime of a run, with its process compiled."""
    runtime = local_of(run)
    runtime.context.compile(runtime.process.next)
    return runtime


def local_of(run: PreparedRun) -> Local:
    """The local runtime of a run; its process is compiled when it is first used."""
    inputs = client_inputs_of(run)
    return Local(
        description=f"local, on the {_device()}{at_once(inputs)}",
        process=process_of(run, inputs),
        mechanism=run.config.mechanism,
        context=LocalContext(num_threads=clients_in_parallel(num_cores())),
        shows_uploads=shows_uploads(run),
        client_inputs=inputs,
    )


def clients_in_parallel(cores: int) -> int:
    """The number of client threads: one per core; a single one on a GPU, with TF32 turned off."""
    if _device() == "CPU":
        return cores
    # TF32 products keep only ten bits of each factor: results of blocks and of single clients, and
    # so cosines, would differ by a thousandth.
    tf.config.experimental.enable_tensor_float_32_execution(False)
    return 1


def _device() -> str:
    return "GPU" if tf.config.list_physical_devices("GPU") else "CPU"
