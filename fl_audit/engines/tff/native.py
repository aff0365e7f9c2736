"""The runtime `native`: TFF's own C++ runtime, in a worker that always ends with this program."""

import contextlib
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tensorflow_federated as tff

from fl_audit.config import Mechanism
from fl_audit.engines.cohort import RoundData
from fl_audit.engines.prepare import PreparedRun
from fl_audit.engines.tff.algorithms import build_process
from fl_audit.engines.tff.canary_clients import DataSets
from fl_audit.engines.tff.native_worker import native_runtime
from fl_audit.engines.tff.tff_engine import TffEngine, data_sets_of, refuse_uploads
from fl_audit.resources import num_cores
from fl_audit.tasks.tf.networks import as_classifier

# TFF's worker never frees a client's data set: its memory grew by about 70 KB per client and round,
# which would be 24 GB over 2,048 rounds of 167 clients. A new worker starts in a second or two.
_ROUNDS_PER_WORKER = 100


@dataclass(frozen=True)
class Native(TffEngine):
    """TFF's own C++ runtime, in a worker process, whose output is appended to `worker_log`."""

    description: str
    process: tff.templates.IterativeProcess
    mechanism: Mechanism
    data_sets: DataSets
    worker_log: Path
    rounds_per_session: int | None = _ROUNDS_PER_WORKER

    def session(self) -> contextlib.AbstractContextManager[None]:
        """Starts a worker, and ends it with the block."""
        return native_runtime(self.worker_log, num_cores())

    def participants(self, state: Any, data: RoundData) -> Iterable[Any]:
        """The participants as a list, because TFF counts clients before it reads them."""
        return list(self.data_sets.participants(data, self.mechanism, state))


def make(run: PreparedRun, worker_log: Path, why: str) -> Native:
    """The native runtime, which runs any process; `why` is for its description."""
    refuse_uploads(run, "native")
    process = build_process(
        as_classifier(run.task.classifier), run.config, run.schedule.expected_cohort, run.num_rounds
    )
    description = f"native, on CPUs ({why})"
    return Native(description, process, run.config.mechanism, data_sets_of(run), worker_log)
