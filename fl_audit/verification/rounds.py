"""Compares the logs of a run's rounds with its config, its models and each other.

No row can be recomputed without the data. But rows about one aggregate have to be consistent, and
all aggregates together have to lead from the initial to the final model.
"""

import math
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from fl_audit.accounting import noise_on_sum
from fl_audit.array_types import BoolArray, Float32Array, FloatArray
from fl_audit.checks import RunAggregates
from fl_audit.checks.noise_rows import RESOLUTION, THRESHOLDS, NoiseRows, sketch
from fl_audit.config.design import RunDesign
from fl_audit.config.run_tables import ServerSgd
from fl_audit.formats.folders import RunFolder
from fl_audit.formats.metrics_file import RoundMetrics, metrics_text
from fl_audit.formats.model_file import read_model
from fl_audit.formats.text_files import read_foreign
from fl_audit.inner_products import euclidean_norm
from fl_audit.mechanisms import GaussianAdaptive
from fl_audit.report.finished_run import FinishedRun
from fl_audit.verification.findings import Verified
from fl_audit.verification.score_files import RunScores

_ROUNDING = 1e-4
"""A generous bound on the relative rounding of norms and sketches in float32."""


def verify_metrics(
    of_logs: RunScores,
    rows: Sequence[RoundMetrics],
    design: RunDesign,
    bounds: Sequence[float | None],
    verified: Verified,
) -> None:
    """Compares cohorts, noise, a fixed clip norm and live lower bounds with metrics.csv."""
    mechanism, path = of_logs.config.mechanism, of_logs.folder.metrics
    is_adaptive = isinstance(mechanism, GaussianAdaptive)
    clip_norm = None if is_adaptive else getattr(mechanism, "clip_norm", None)
    if read_foreign(path) != metrics_text(rows).encode():
        verified.add(path, "has other columns or text than a run writes")
    # Missing rows are found when the report is built.
    for index, (row, bound) in enumerate(zip(rows, bounds, strict=False)):
        cohort = design.schedule.cohort(index)
        sizes = {"num_clients": len(cohort.clients), "num_canaries": len(cohort.canaries)}
        noise = float(noise_on_sum(design.release.noise, sum(sizes.values())))
        follows: dict[str, float | None] = {
            **sizes,
            "clip_norm": row.clip_norm if clip_norm is None else clip_norm,
            "noise_stddev": noise * row.clip_norm if noise else 0.0,
            "epsilon_lower_bound": bound,
        }
        for name, value in follows.items():
            logged = getattr(row, name)
            is_same = logged == value
            if value is not None and logged is not None:
                is_same = math.isclose(logged, value, rel_tol=1e-6)
            if not is_same:
                verified.add(path, f"round {index + 1} has {name} {logged}; recomputed: {value}")
                return


def verify_aggregates(run: FinishedRun, of_logs: RunScores, verified: Verified) -> None:
    """Compares the logs about aggregates with each other, with metrics.csv and with the models."""
    aggregates = run.aggregates
    if aggregates is not None:
        _verify_norms(run, aggregates, _gram(run, of_logs), verified)
    server = run.config.server
    if not isinstance(server, ServerSgd):
        return
    weights = server.weights_in_model(run.record.rounds_done)
    folder, dim = run.folder, run.record.dim
    final = read_model(folder.model, dim)
    way = final - read_model(folder.initial_model, dim)
    # The allowed error: the rounding of each step to float32, and of logged measurements.
    error = 1e-6 * len(weights) ** 0.5 * euclidean_norm(final)
    lengths = weights * run.rounds.aggregate_norm
    error += 1e-3 * euclidean_norm(lengths)
    _verify_cosines(of_logs, way, lengths, error, verified)
    if (gram := _gram(run, of_logs)) is not None:
        length = euclidean_norm(way)
        if abs(math.sqrt(max(0.0, float(weights @ gram @ weights))) - length) > error:
            _add_sum(folder, folder.kept_directions, verified)
    if aggregates is None or aggregates.noise is None or run.record.release.correlation is not None:
        return
    sketches = aggregates.stddev[:, None] * NoiseRows(aggregates.noise, dim).sketches
    off = euclidean_norm(weights @ sketches - sketch(way))
    if off > error:  # NaN without noise
        _add_sum(folder, folder.round_noise, verified)


def _gram(run: FinishedRun, of_logs: RunScores) -> FloatArray | None:
    """All aggregates' inner products, by kept products of directions; None if some are missing."""
    products = None if of_logs.kept is None else of_logs.kept.exact_products
    norms = run.rounds.aggregate_norm
    if products is None or len(products) != len(norms):
        return None
    return np.asarray(products * np.outer(norms, norms))


def _verify_cosines(
    of_logs: RunScores, way: Float32Array, lengths: FloatArray, error: float, verified: Verified
) -> None:
    """Compares the change of the model with the logged aggregates, along every canary.

    The inner product of that change and a canary is the sum of the canary's cosines, each times the
    norm of the round's contribution to the final model (`lengths`).
    """
    family, rounds = of_logs.vectors, of_logs.rounds
    if family is None or rounds is None:
        return
    rows = [row for _, row in rounds.numbered_rows()]
    if len(rows) != len(lengths):
        return
    summed = lengths @ np.stack(rows)
    allowed = 1e3 * of_logs.rounding * error
    if not (np.abs(family.inner_products(way) - summed) <= allowed).all():
        _add_sum(of_logs.folder, of_logs.folder.round_cosines, verified)


def _add_sum(folder: RunFolder, log: Path, verified: Verified) -> None:
    verified.add(
        folder.model,
        f"is not the sum of {folder.initial_model.name} and the logged rounds' aggregates "
        f"({log.name}, {folder.metrics.name})",
    )


def _verify_norms(
    run: FinishedRun, aggregates: RunAggregates, gram: FloatArray | None, verified: Verified
) -> None:
    """Compares logged norms and inner products of aggregates with each other and other files."""
    folder, squares = run.folder, aggregates.measured[:, :, 0]
    norms = np.sqrt(squares.sum(axis=1))
    products = aggregates.measured[1:, :, 1]
    limits = (1 + _ROUNDING) * np.sqrt(squares[1:] * squares[:-1])
    too_large = np.append(False, (np.abs(products) > limits).any(axis=1))
    what = "has an inner product above the product of the norms"
    _add_round(folder.aggregates, too_large, what, verified)
    if run.record.release.correlation is None:  # else `norms` are of whitened aggregates
        differ = ~np.isclose(norms, run.rounds.aggregate_norm, rtol=_ROUNDING, atol=0)
        what = f"has another norm than in {folder.metrics.name}"
        _add_round(folder.aggregates, differ, what, verified)
        if gram is not None:
            off = np.abs(products.sum(axis=1) - gram.diagonal(-1)) > 1e-3 * norms[1:] * norms[:-1]
            what = f"has another inner product than in {folder.kept_directions.name}"
            _add_round(folder.aggregates, np.append(False, off), what, verified)
    if aggregates.noise is not None and (aggregates.stddev > 0).all():
        rows = NoiseRows(aggregates.noise, run.record.dim)
        is_on_grid = run.record.release.noise.grid is not None
        _verify_noise(folder, rows, norms / aggregates.stddev, is_on_grid, verified)


def _verify_noise(
    folder: RunFolder, rows: NoiseRows, norms: FloatArray, is_on_grid: bool, verified: Verified
) -> None:
    """Compares sketches and counts (noise_rows.py) with aggregates' norms, in units of noise."""

    def add(wrong: BoolArray, what: str) -> None:
        _add_round(folder.round_noise, wrong, what, verified)

    unknown = np.isnan(rows.rows[:, 2:]).any(axis=1)
    add(unknown & (2 * RESOLUTION * norms < math.sqrt(rows.dim)), "lacks measures of its noise")
    lengths = np.linalg.norm(rows.sketches, axis=1)
    of_aggregate = f"has a sketch longer than the aggregate in {folder.aggregates.name}"
    add(lengths > (1 + _ROUNDING) * norms, of_aggregate)
    counts = rows.exceeding
    between = -np.diff(counts, axis=1, append=0)
    impossible = (counts[:, 0] > rows.dim) | (between < 0).any(axis=1)
    if not is_on_grid:  # on a grid other counts are possible
        least, most = between @ THRESHOLDS**2, between[:, :-1] @ THRESHOLDS[1:] ** 2
        impossible |= least > (1 + _ROUNDING) * norms**2
        impossible |= (counts[:, -1] == 0) & (most < (1 - _ROUNDING) * norms**2)
    add(impossible, "has counts of coordinates above thresholds that are impossible for its norm")


def _add_round(path: Path, wrong: BoolArray, what: str, verified: Verified) -> None:
    """Adds a finding on the first wrong round; `wrong` is bool of shape (rounds,)."""
    if wrong.any():
        verified.add(path, f"round {np.flatnonzero(wrong)[0] + 1} {what}")
