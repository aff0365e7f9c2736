"""Scores from a log folder, by the attackers of runs; docs/logs.md defines the format."""

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from fl_audit.array_types import Float32Array, FloatArray
from fl_audit.attacks.aggregate_files import AggregateFiles
from fl_audit.attacks.arrays import flatten
from fl_audit.attacks.audit_table import Audit
from fl_audit.attacks.compared_vectors import ComparedVectors
from fl_audit.attacks.context import AttackContext
from fl_audit.attacks.listed_canaries import read_listed
from fl_audit.attacks.logged_sum import LoggedSum
from fl_audit.attacks.make import compared_by, make_attackers, scores_of
from fl_audit.attacks.own_rounds import OwnRounds
from fl_audit.attacks.round_cosines import FinishedRounds, RoundCosines
from fl_audit.attacks.round_directions import RoundDirections
from fl_audit.attacks.statistic import Sight
from fl_audit.attacks.statistics import statistics_for
from fl_audit.canaries.pool import CanaryPool, read_pool
from fl_audit.errors import InputError
from fl_audit.formats.concentration_log import ConcentrationLog
from fl_audit.formats.cosine_log import CosineLog
from fl_audit.formats.log_folder import LogFolder
from fl_audit.formats.npy_file import read_array
from fl_audit.formats.score_file import ScoreFile

_AGGREGATE = re.compile(r"round_(\d+)\.npy")

Progress = Callable[[list[Path]], Iterable[Path]]
"""A function that goes through files, and may show how far it has come."""


@dataclass(frozen=True, eq=False)
class ScoredLog:
    """The scores of a log.

    Attributes:
      pool: The pool whose canaries were scored.
      num_rounds: The number of aggregates that were scored.
      scores: The scores by statistic, of the statistics that the log allows.
      compared: What is known of the vectors that canaries were compared with, by statistic.
    """

    pool: CanaryPool
    num_rounds: int
    scores: Mapping[str, ScoreFile]
    compared: Mapping[str, ComparedVectors]


@dataclass(frozen=True, eq=False)
class SeenScores:
    """The scores by what was seen.

    Attributes:
      scores: The scores by statistic, each float64 of shape (num_canaries,), the weakest attacker's
        first; empty where nothing was seen.
      compared: What is known of the vectors that canaries were compared with, by statistic.
    """

    scores: Mapping[str, FloatArray]
    compared: Mapping[str, ComparedVectors]


def score_log(folder: LogFolder, progress: Progress) -> ScoredLog:
    """Scores every canary of a log against all that the log shows; writes nothing.

    Memory grows neither with the number of rounds nor with that of canaries times dim.

    Args:
      folder: The folder of the log, which has a `pool.json`.
      progress: The function that goes through the files of aggregates.

    Raises:
      InputError: A file is missing, damaged, or contradicts `pool.json`, and the message names it;
        or the folder shows nothing that could be scored.
    """
    pool = read_pool(folder.pool)
    listed = read_listed(folder, pool)
    cosines, num_rounds = read_rounds(folder, pool, listed.own_rounds, progress)
    initial, final = (
        _read_vector(path, pool.dim) if path.exists() else None
        for path in (folder.initial, folder.final)
    )
    seen = score_seen(
        pool, cosines, num_rounds, own_rounds=listed.own_rounds, initial=initial, final=final
    )
    if not seen.scores:
        raise InputError(
            f"{folder.path}: shows nothing to score: needs {folder.aggregates.name}/"
            f"round_000001.npy, {folder.round_cosines.name} or {folder.final.name}"
        )
    return ScoredLog(pool, num_rounds, score_files(listed.included, seen.scores), seen.compared)


def score_seen(
    pool: CanaryPool,
    cosines: RoundCosines,
    num_rounds: int,
    *,
    own_rounds: OwnRounds | None,
    initial: Float32Array | None,
    final: Float32Array | None,
) -> SeenScores:
    """Scores every canary by what was seen, under the threat models that need no keys.

    Args:
      pool: The canaries.
      cosines: The cosines of the rounds that were seen.
      num_rounds: The number of rounds that were seen; 0 for none.
      own_rounds: The rounds of every canary; None where they are not known.
      initial: The model before the first round, float32 of shape (dim,); None where it is not
        known.
      final: The model after the last round, float32 of shape (dim,); None where it is not known.
    """
    shown: dict[Sight, bool] = {
        "round_cosines": num_rounds > 0,
        "canary_rounds": own_rounds is not None,
        "initial_model": initial is not None,
        "final_model": final is not None,
    }
    seen = {sight for sight, is_shown in shown.items() if is_shown}
    audit = Audit()
    statistics = [s for s in statistics_for("vectors", audit) if s.needs <= seen]
    context = AttackContext(
        canaries=pool,
        num_canaries=pool.count,
        num_rounds=num_rounds,
        audit=audit,
        initial=initial,
        given_cosines=cosines,
        family=pool.family,
        canary_rounds=own_rounds,
        seed=pool.seed,
    )
    attackers = make_attackers(context, statistics)
    scores = scores_of(attackers, final)
    return SeenScores(
        scores={statistic.name: scores[statistic.name] for statistic in statistics},
        compared=compared_by(attackers, final),
    )


def score_files(
    included: npt.NDArray[np.bool_], scores: Mapping[str, FloatArray]
) -> dict[str, ScoreFile]:
    """The scores with the coins, by statistic; canaries are named by their number from 0."""
    ids = tuple(map(str, range(len(included))))
    return {name: ScoreFile(ids, included, values) for name, values in scores.items()}


def read_rounds(
    folder: LogFolder, pool: CanaryPool, own: OwnRounds | None, progress: Progress
) -> tuple[RoundCosines, int]:
    """The cosines that are logged, else those of logged aggregates, and the number of rounds.

    Args:
      folder: The folder of the log.
      pool: The canaries.
      own: The rounds of every canary; None where they are not known.
      progress: The function that goes through the files of aggregates.

    Raises:
      InputError: A file is damaged.
    """
    if folder.round_cosines.exists():
        log = CosineLog.read(folder.round_cosines, pool.count)
        return logged_rounds(folder, pool, log), int(log.written().sum())
    paths = _aggregates(folder)
    several = own is not None and own.most > 1

    def read(path: Path) -> Float32Array:
        return _read_vector(path, pool.dim)

    return AggregateFiles(pool, paths, read, progress, keep_directions=several), len(paths)


def logged_rounds(folder: LogFolder, pool: CanaryPool, log: CosineLog) -> FinishedRounds:
    """The rounds of a log of cosines, with what the folder says of the aggregates themselves.

    Args:
      folder: The folder of the log.
      pool: The canaries.
      log: The cosines.

    Raises:
      InputError: A file that describes the aggregates is damaged.
    """
    path = folder.round_concentrations
    concentrations = ConcentrationLog.read(path, log.num_rounds) if path.exists() else None
    scored = set(np.flatnonzero(log.written()).tolist())
    total = LoggedSum(folder.direction_sum, pool.dim).compared(pool.family, scored)
    directions = None
    if folder.round_directions.exists():
        directions = RoundDirections.read(
            folder.round_directions, log.num_rounds, pool.seed, pool.dim
        )
    return FinishedRounds(log, concentrations, total, directions)


def _aggregates(folder: LogFolder) -> dict[int, Path]:
    """The files of aggregates by number, without hidden files, which are still being written."""
    if not folder.aggregates.exists():
        return {}
    paths: dict[int, Path] = {}
    try:
        found = sorted(path for path in folder.aggregates.iterdir() if path.name[0] != ".")
    except OSError as error:
        raise InputError(f"{folder.aggregates}: cannot be read: {error.strerror}") from error
    for path in found:
        match = _AGGREGATE.fullmatch(path.name)
        if not match:
            raise InputError(f"{path}: must be named round_NUMBER.npy, such as round_000001.npy")
        number = int(match[1])
        if number in paths:
            raise InputError(f"{path}: is round {number} again, after {paths[number].name}")
        paths[number] = path
    return {number: paths[number] for number in sorted(paths)}


def _read_vector(path: Path, dim: int) -> Float32Array:
    return flatten(read_array(path, "an NPY file"), dim, str(path))
