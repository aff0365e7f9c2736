"""A run of fl_audit in which either the aggregator or the schedule is replaced by a wrong one."""

import dataclasses
import math
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import numpy.typing as npt
import tensorflow_federated as tff

from fl_audit.accounting import account
from fl_audit.config import Mechanism
from fl_audit.engines.engine import Engine, as_vector
from fl_audit.engines.prepare import PreparedRun, canaries_csv
from fl_audit.engines.runtimes import make_runtime
from fl_audit.engines.tff import algorithms as process_module
from fl_audit.engines.tff.canary_process import released_aggregate
from fl_audit.engines.tff.local import Local
from fl_audit.formats.folders import RunFolder
from fl_audit.formats.run_record import read_record
from fl_audit.json_records import to_json
from fl_audit.report.checks import checks_of_run
from fl_audit.report.finished_run import read_finished_run
from fl_audit.run.folder_and_checkpoints import write_identity
from fl_audit.run.train import train
from fl_audit.verdict import ScoredStatistic, scored_statistic

MakeAggregator = Callable[[Mechanism, float, int], tff.aggregators.UnweightedAggregationFactory]
"""A function with the signature of `make_aggregator`: mechanism, expected cohort, rounds."""

Aggregates = list[npt.NDArray[np.float32]]


@dataclass(frozen=True, eq=False)
class AuditedRun:
    """The results of one run.

    Attributes:
      claimed_epsilon: Epsilon that the correct mechanism guarantees to an included canary at
        `delta`.
      delta: The delta of the audit.
      statistics: Scores of the canaries by statistic.
      aggregates: Noised aggregate of each round, in the sign in which it moves the model, float32
        of shape (dim,).
      clip_norms: Clip norm of each round, float64 of shape (rounds,).
      accuracy: Accuracy of the final model on held-out data.
      checks: Checks of the mechanism, as in report.json.
    """

    claimed_epsilon: float
    delta: float
    statistics: tuple[ScoredStatistic, ...]
    aggregates: Aggregates
    clip_norms: npt.NDArray[np.float64]
    accuracy: float
    checks: dict[str, Any]


@dataclass
class Overheard:
    """A learning process whose aggregates are recorded.

    Attributes:
      process: The process that runs the rounds.
      aggregates: Aggregates of all rounds so far, in the sign in which they move the model.
    """

    process: tff.templates.IterativeProcess
    aggregates: Aggregates = field(default_factory=list)

    @property
    def initialize(self) -> Any:
        """The `initialize` of the process."""
        return self.process.initialize

    def next(self, state: Any, client_data: Any) -> Any:
        """Runs the process's round and records its aggregate."""
        output = self.process.next(state, client_data)
        self.aggregates.append(as_vector(released_aggregate(output.metrics)))
        return output


def compiled_runtime(run: PreparedRun, make_aggregator: MakeAggregator) -> Local:
    """The runtime that `fl-audit run` would use, with another aggregator.

    Everything else is built by fl_audit itself.

    Args:
      run: The prepared run of the config.
      make_aggregator: Replaces fl_audit's own function of that name.
    """
    with mock.patch.object(process_module, "make_aggregator", make_aggregator):
        runtime = make_runtime(run, Path("worker.log"))  # the local runtime has no worker
    assert isinstance(runtime, Local), runtime.description
    return runtime


def audited_run(run: PreparedRun, runtime: Local, path: Path) -> AuditedRun:
    """Trains, and reads what the run wrote.

    Args:
      run: The run, which may differ from the runtime's in its canaries, its schedule and its seed,
        as long as model and denominator are the same.
      runtime: The result of `compiled_runtime`, which may serve any number of runs.
      path: Path of a new folder for the run.
    """
    overheard = Overheard(runtime.process)
    folder = fill_folder(run, dataclasses.replace(runtime, process=overheard), path)
    record = read_record(folder)
    finished = read_finished_run(folder)
    return AuditedRun(
        claimed_epsilon=account(record.release, record.delta).canary.epsilon or math.inf,
        delta=record.delta,
        statistics=tuple(
            scored_statistic(s, finished.scores[s.name].canary_scores(), finished.facts)
            for s in finished.statistics
        ),
        aggregates=overheard.aggregates,
        clip_norms=np.genfromtxt(folder.metrics, delimiter=",", names=True)["clip_norm"],
        accuracy=record.accuracy,
        checks=to_json(checks_of_run(finished)),
    )


def fill_folder(run: PreparedRun, engine: Engine, path: Path) -> RunFolder:
    """Trains a run into a new folder, with its own canaries.

    Args:
      run: The run.
      engine: The engine, or the result of `compiled_runtime`, see `audited_run`.
      path: Path of a new folder for the run.
    """
    if isinstance(engine, Local):
        inputs = dataclasses.replace(engine.client_inputs, family=run.family)
        engine = dataclasses.replace(engine, client_inputs=inputs)
    folder = RunFolder(path)
    path.mkdir(parents=True, exist_ok=True)
    write_identity(folder, run.config, canaries_csv(run))
    train(run, engine, folder)
    return folder
