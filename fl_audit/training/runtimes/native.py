"""The runtime `native`, which is TFF's own C++ runtime."""

import contextlib
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tensorflow_federated as tff

from fl_audit.config import Mechanism
from fl_audit.cores import num_cores
from fl_audit.mechanisms import canary_norm
from fl_audit.training.algorithm.process import build_process
from fl_audit.training.data.cohort_data import DataSets, RoundData
from fl_audit.training.run.prepare import PreparedRun
from fl_audit.training.runtimes.native_runtime import native_runtime
from fl_audit.training.runtimes.runtime import Runtime, data_sets_of

# TFF's worker never forgets a client's data set: it grew by about 70 KB a client and round,
# which would be 24 GB over 2,048 rounds of 167 clients. A new worker takes a second or two.
_ROUNDS_PER_WORKER = 100


@dataclass(frozen=True)
class Native(Runtime):
    """TFF's own C++ runtime, in a worker process.

    Attributes:
      mechanism: The mechanism table, which decides the length of canaries.
      data_sets: The maker of participants' data sets.
      worker_log: The file that the worker's output is appended to.
    """

    description: str
    process: tff.templates.IterativeProcess
    mechanism: Mechanism
    data_sets: DataSets
    worker_log: Path
    rounds_per_session: int | None = _ROUNDS_PER_WORKER

    def session(self) -> contextlib.AbstractContextManager[None]:
        """A block that starts a worker and ends it."""
        return native_runtime(self.worker_log, num_cores())

    def participants(self, state: Any, data: RoundData) -> Iterable[Any]:
        """The participants as a list, because TFF counts clients before it begins."""
        norm = canary_norm(self.mechanism, state.aggregator)
        return list(self.data_sets.of(data, norm))


def make_native(run: PreparedRun, worker_log: Path, why: str) -> Native:
    """The native runtime of a run; it can run any process.

    Args:
      run: The run, made by `prepare`.
      worker_log: The file that the worker's output is appended to.
      why: The reason for which this runtime was chosen, for its description.
    """
    process = build_process(run.task.classifier, run.config, run.schedule.expected_cohort)
    description = f"native, on CPUs ({why})"
    return Native(description, process, run.config.mechanism, data_sets_of(run), worker_log)
