"""Compares the logs of a run's rounds with its config, its models and each other.

No row can be recomputed without the data. But rows about one aggregate have to be consistent, and
all aggregates together have to lead from the initial to the final model.
"""

import math
from pathlib import Path

import numpy as np

from fl_audit.array_types import BoolArray, Float32Array, FloatArray
from fl_audit.checks import RunAggregates
from fl_audit.checks.noise_rows import NoiseRows, sketch
from fl_audit.config import Config
from fl_audit.config.run_tables import ServerSgd
from fl_audit.formats.folders import RunFolder
from fl_audit.formats.model_file import read_model
from fl_audit.inner_products import euclidean_norm
from fl_audit.mechanisms import GaussianAdaptive
from fl_audit.participation import Schedule
from fl_audit.report.finished_run import FinishedRun
from fl_audit.run.observers import read_metrics
from fl_audit.verification.findings import Verified
from fl_audit.verification.scores import RunScores

_ROUNDING = 1e-4
"""A generous bound on the relative rounding of norms and sketches in float32."""


def verify_cohorts(
    folder: RunFolder, config: Config, schedule: Schedule, verified: Verified
) -> None:
    """Compares cohorts and a fixed clip norm with those of the logged rounds."""
    mechanism = config.mechanism
    is_adaptive = isinstance(mechanism, GaussianAdaptive)
    clip_norm = None if is_adaptive else getattr(mechanism, "clip_norm", None)
    for row in read_metrics(folder.metrics):
        cohort = schedule.cohort(row.round - 1)
        follows = {"num_clients": len(cohort.clients), "num_canaries": len(cohort.canaries)}
        if clip_norm is not None:
            follows["clip_norm"] = clip_norm
        for name, value in follows.items():
            logged = getattr(row, name)
            if not math.isclose(logged, value, rel_tol=1e-6):
                words = f"round {row.round} has {name} {logged:g}, and {value:g} follows"
                verified.add(folder.metrics, words)
                return


def verify_aggregates(run: FinishedRun, of_logs: RunScores, verified: Verified) -> None:
    """Compares the logs about aggregates."""
    aggregates = run.aggregates
    if aggregates is not None:
        _verify_norms(run, aggregates, verified)
    weights = _weights_in_model(run.config, run.record.rounds_done)
    if weights is None:
        return
    folder, dim = run.folder, run.record.dim
    final = read_model(folder.model, dim)
    way = final - read_model(folder.initial_model, dim)
    # Rounding of each step in float32, and of the logged measurements.
    error = 1e-6 * len(weights) ** 0.5 * euclidean_norm(final)
    lengths = weights * run.rounds.aggregate_norm
    error += 1e-3 * euclidean_norm(lengths)
    _verify_cosines(of_logs, way, lengths, error, verified)
    if aggregates is None or aggregates.noise is None or run.record.release.correlation is not None:
        return
    sketches = aggregates.stddev[:, None] * NoiseRows(aggregates.noise, dim).sketches
    off = euclidean_norm(weights @ sketches - sketch(way))
    if off > error:  # NaN without noise
        _add_sum(folder, folder.round_noise, verified)


def _weights_in_model(config: Config, rounds: int) -> FloatArray | None:
    """The share of each round's aggregate in the final model; None if the server is not linear."""
    server = config.server
    if not isinstance(server, ServerSgd):
        return None
    steps = np.arange(
        rounds, 0, -1
    )  # an aggregate affects this many steps, with weights that decay by the momentum
    fading = (1 - server.momentum**steps) / (1 - server.momentum)
    return np.asarray(server.learning_rate * fading, np.float64)


def _verify_cosines(
    of_logs: RunScores, way: Float32Array, lengths: FloatArray, error: float, verified: Verified
) -> None:
    """Compares the change of the model with the logged aggregates, along every canary.

    Its inner product with a canary is the sum of the canary's cosines, each times the length of the
    round's contribution to the final model.
    """
    family, rounds = of_logs.vectors, of_logs.rounds
    if family is None or rounds is None:
        return
    rows = [row for _, row in rounds.numbered_rows()]
    if len(rows) < len(lengths):
        return
    summed = lengths @ np.stack(rows)
    allowed = 1e3 * of_logs.rounding * error
    if not (np.abs(family.inner_products(way) - summed) <= allowed).all():
        _add_sum(of_logs.folder, of_logs.folder.round_cosines, verified)


def _add_sum(folder: RunFolder, log: Path, verified: Verified) -> None:
    verified.add(
        folder.model,
        f"is not {folder.initial_model.name} and the sum of the logged rounds' aggregates "
        f"({log.name}, {folder.metrics.name})",
    )


def _verify_norms(run: FinishedRun, aggregates: RunAggregates, verified: Verified) -> None:
    """Compares the measures of single rounds with each other, and with metrics.csv."""
    folder, squares = run.folder, aggregates.measured[:, :, 0]
    norms = np.sqrt(squares.sum(axis=1))
    if (
        run.record.release.correlation is None
    ):  # otherwise the measurements are of whitened aggregates
        differ = ~np.isclose(norms, run.rounds.aggregate_norm, rtol=_ROUNDING, atol=0)
        what = f"has a norm that is not the one in {folder.metrics.name}"
        _add_round(folder.aggregates, differ, what, verified)
    products = np.abs(aggregates.measured[1:, :, 1])
    limits = (1 + _ROUNDING) * np.sqrt(squares[1:] * squares[:-1])
    too_large = np.append(False, (products > limits).any(axis=1))
    _add_round(folder.aggregates, too_large, "has a product above that of the norms", verified)
    if aggregates.noise is None:
        return
    rows = NoiseRows(aggregates.noise, run.record.dim)
    lengths = np.linalg.norm(rows.sketches, axis=1) * aggregates.stddev
    _add_round(
        folder.round_noise,
        lengths > (1 + _ROUNDING) * norms,
        f"has a sketch longer than the aggregate in {folder.aggregates.name}",
        verified,
    )
    counts = rows.exceeding
    impossible = (counts > run.record.dim) | (np.diff(counts, axis=1, append=0) > 0)
    what = "counts coordinates above thresholds as no vector has them"
    _add_round(folder.round_noise, impossible.any(axis=1), what, verified)


def _add_round(path: Path, wrong: BoolArray, what: str, verified: Verified) -> None:
    """Adds the first wrong round; `wrong` is bool of shape (rounds,)."""
    if wrong.any():
        verified.add(path, f"round {np.flatnonzero(wrong)[0] + 1} {what}")
