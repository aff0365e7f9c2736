"""The runtime `native`: TFF's own C++ runtime, in a worker that always ends with this program."""

import contextlib
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fl_audit.engines.cohort import RoundData
from fl_audit.engines.engine import shows_uploads
from fl_audit.engines.prepare import PreparedRun
from fl_audit.engines.tff.canary_clients import DataSets
from fl_audit.engines.tff.local import process_of
from fl_audit.engines.tff.native_worker import native_runtime
from fl_audit.engines.tff.tff_engine import TffEngine, participants_of
from fl_audit.errors import InputError
from fl_audit.resources import num_cores

# TFF's worker never frees a client's data set: its memory grew by about 70 KB per client and round,
# which would be 24 GB over 2,048 rounds of 167 clients. A new worker starts in a second or two.
_ROUNDS_PER_WORKER = 100


@dataclass(frozen=True)
class Native(TffEngine):
    """TFF's own C++ runtime, in a worker process, whose output is appended to `worker_log`."""

    data_sets: DataSets
    worker_log: Path
    rounds_per_session = _ROUNDS_PER_WORKER

    def session(self) -> contextlib.AbstractContextManager[None]:
        """Starts a worker, and ends it with the block."""
        return native_runtime(self.worker_log, num_cores())

    def participants(self, state: Any, data: RoundData) -> Iterable[Any]:
        """The participants as a list, because TFF counts clients before it reads them."""
        return list(participants_of(self.data_sets, self.mechanism, state, data))


def make(run: PreparedRun, worker_log: Path, why: str) -> Native:
    """The native runtime, which runs any process; `why` is for its description."""
    if shows_uploads(run):
        raise InputError(
            "runtime: 'native' shows no single uploads, which threat model 'one_upload' sees; must "
            "be 'local' or 'jax'"
        )
    data_sets, description = DataSets.from_run(run), f"native, on CPUs ({why})"
    process = process_of(run, data_sets)
    return Native(description, process, run.config.mechanism, data_sets, worker_log)
