"""A run of fl_audit in which one thing is wrong: the aggregator that is put in, or the schedule."""

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

from fl_audit.accounting import NoisyRounds, account
from fl_audit.config import Mechanism
from fl_audit.formats.run_folder import RunFolder, read_record
from fl_audit.report.checks import checks_report
from fl_audit.report.finished_run import read_finished_run
from fl_audit.report.report_json import checks_to_json
from fl_audit.training.algorithm import process as process_module
from fl_audit.training.algorithm.round import flatten_weights
from fl_audit.training.run.prepare import PreparedRun, canaries_csv
from fl_audit.training.run.taken_folder import write_identity
from fl_audit.training.run.train import train
from fl_audit.training.runtimes.local import LocalBlocks
from fl_audit.training.runtimes.make import make_runtime
from fl_audit.verdict import ScoredStatistic, scored_statistic

MakeAggregator = Callable[[Mechanism, float], tff.aggregators.UnweightedAggregationFactory]
"""From the mechanism of a config and the expected cohort, as `make_aggregator`."""

Aggregates = list[npt.NDArray[np.float32]]


@dataclass(frozen=True, eq=False)
class AuditedRun:
    """What one run left.

    Attributes:
      claimed_epsilon: that the correct mechanism guarantees to an included canary at `delta`.
      delta: of the audit.
      statistics: scores of the canaries.
      aggregates: noised aggregate of each round, float32 of shape (dim,), as the model moves.
      clip_norms: of each round.
      accuracy: of the final model on held-out data.
      checks: of the mechanism, as report.json has them.
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
    """A learning process whose aggregates somebody writes down.

    Attributes:
      process: that runs the rounds.
      aggregates: of all rounds so far, as the model moves.
    """

    process: tff.templates.IterativeProcess
    aggregates: Aggregates = field(default_factory=list)

    @property
    def initialize(self) -> Any:
        """The process's."""
        return self.process.initialize

    def next(self, state: Any, client_data: Any) -> Any:
        """The process's, listened to."""
        output = self.process.next(state, client_data)
        self.aggregates.append(flatten_weights(output.metrics["finalizer"]["aggregate"]))
        return output


def compiled_runtime(run: PreparedRun, make_aggregator: MakeAggregator) -> LocalBlocks:
    """The runtime that `fl-audit run` would take, over another aggregator.

    Everything else is built by fl_audit itself: where it asks for its aggregator, it gets this one.

    Args:
      run: of the config.
      make_aggregator: put in the place of fl_audit's own.
    """
    with mock.patch.object(process_module, "make_aggregator", make_aggregator):
        runtime = make_runtime(run, Path("worker.log"))  # the local runtime has no worker
    assert isinstance(runtime, LocalBlocks), runtime.description
    return runtime


def audited_run(run: PreparedRun, runtime: LocalBlocks, path: Path) -> AuditedRun:
    """Trains, and reads what the run wrote.

    Args:
      run: that may differ from the runtime's in its canaries, its schedule and its seed, as long as
        model and denominator are the same.
      runtime: of `compiled_runtime`; may serve any number of runs.
      path: of a new folder.
    """
    folder = RunFolder(path)
    overheard = Overheard(runtime.process)
    trained_blocks = dataclasses.replace(runtime.trained_blocks, family=run.family)
    runtime = dataclasses.replace(runtime, process=overheard, trained_blocks=trained_blocks)
    write_identity(folder, run.config, canaries_csv(run))
    train(run, runtime, folder)
    record = read_record(folder)
    finished = read_finished_run(folder)
    return AuditedRun(
        claimed_epsilon=account(NoisyRounds.of(record)).canary.epsilon or math.inf,
        delta=record.delta,
        statistics=tuple(
            scored_statistic(s, finished.scores[s.name].canary_scores(), finished.facts)
            for s in finished.statistics
        ),
        aggregates=overheard.aggregates,
        clip_norms=np.genfromtxt(folder.metrics, delimiter=",", names=True)["clip_norm"],
        accuracy=record.accuracy,
        checks=checks_to_json(checks_report(finished)),
    )
