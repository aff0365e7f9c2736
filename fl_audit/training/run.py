"""One run: trains a prepared config in a claimed folder and fills it with scores.

What `train` has done survives kill -9 up to the last checkpoint.
"""

import dataclasses
import importlib.metadata
import sys
from typing import Any

from fl_audit.run_folder import STATISTICS, RunFolder, RunRecord, write_record
from fl_audit.score_file import ScoreFile, write_score_file
from fl_audit.training.checkpoint import Checkpoint, load_checkpoint
from fl_audit.training.cosine_log import CosineLog
from fl_audit.training.interruption import stop_request
from fl_audit.training.loop import RoundLoop
from fl_audit.training.metrics_log import read_rows
from fl_audit.training.prepare import PreparedRun
from fl_audit.training.process import flatten_weights, model_weights
from fl_audit.training.runtimes import Runtime

_PACKAGES = (
    "fl-audit",
    "numpy",
    "tensorflow",
    "tensorflow-federated",
    "tensorflow-privacy",
    "dp-accounting",
)


def train(run: PreparedRun, runtime: Runtime, folder: RunFolder) -> None:
    """Trains, scores and fills a claimed folder; goes on where a checkpoint stands.

    Args:
      run: of `prepare`.
      runtime: of `make_runtime`.
      folder: that holds this run's identity.

    Raises:
      Interrupted: SIGTERM or SIGINT came; the state is saved.
      InputError: the folder's checkpoint does not belong to this run.
    """
    if sys.stderr.isatty():
        print(f"runtime: {runtime.description}", file=sys.stderr)
    with stop_request() as stop:
        with runtime.session():
            checkpoint = _starting_point(folder, runtime.process.initialize())
        loop = RoundLoop(run, folder, runtime, checkpoint.completed_rounds, stop)
        while checkpoint.completed_rounds < run.schedule.num_rounds:
            with runtime.session():
                checkpoint = loop.run_rounds(checkpoint)
        loop.close()
    _write_results(run, folder, runtime, checkpoint.state, loop.cosine_log)


def _starting_point(folder: RunFolder, initial_state: Any) -> Checkpoint:
    if folder.checkpoint.exists():
        return load_checkpoint(folder.checkpoint, initial_state)
    return Checkpoint(0, initial_state)


def _write_results(
    run: PreparedRun, folder: RunFolder, runtime: Runtime, state: Any, cosine_log: CosineLog
) -> None:
    """Writes the score files, then the record."""
    final = flatten_weights(model_weights(state))
    initial = flatten_weights(run.task.classifier.initial_weights)
    scores = {
        "final": run.family.cosines(final),
        "final_minus_initial": run.family.cosines(final - initial),
        "max": cosine_log.maxima(),
        "sum": cosine_log.sums(),
    }
    ids = tuple(str(canary) for canary in range(run.config.canaries.count))
    for statistic in STATISTICS:
        scored = ScoreFile(ids, run.included, scores[statistic])
        write_score_file(folder.scores(statistic), scored)
    write_record(folder, _record(run, folder, runtime))


def _record(run: PreparedRun, folder: RunFolder, runtime: Runtime) -> RunRecord:
    rows = read_rows(folder.metrics)
    return RunRecord(
        task=run.task.name,
        runtime=runtime.description,
        dim=run.task.classifier.dim,
        num_clients=len(run.task.population.client_ids),
        num_canaries=len(run.included),
        num_included=int(run.included.sum()),
        rounds=run.schedule.num_rounds,
        delta=run.delta,
        client_participations=run.schedule.client_participations,
        canary_participations=run.schedule.canary_participations,
        sampling_probability=run.schedule.sampling_probability,
        sample_size=run.schedule.sample_size,
        sampled_from=run.schedule.sampled_from,
        **dataclasses.asdict(run.noise),
        denominator=run.schedule.expected_cohort,
        accuracy=float(rows[-1]["accuracy"]),
        accuracy_description=run.task.classifier.accuracy_description,
        training_seconds=sum(float(row["seconds_training"]) for row in rows),
        scoring_seconds=sum(float(row["seconds_scoring"]) for row in rows),
        versions={name: importlib.metadata.version(name) for name in _PACKAGES},
    )
