"""The log folder: which file holds what, and scores from it.

A production system in any language writes it, or `RoundScorer` does; docs/logs.md is its format.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from fl_audit.attacks.arrays import flatten
from fl_audit.attacks.over_rounds import OverRounds, over_logged_rounds, over_rounds
from fl_audit.attacks.statistics import FINAL, FINAL_MINUS_INITIAL, MAX, SUM
from fl_audit.canaries.pool import CanaryPool, read_pool
from fl_audit.errors import InputError
from fl_audit.formats.cosine_log import CosineLog
from fl_audit.formats.csv_file import read_csv
from fl_audit.formats.run_folder import RunFolder
from fl_audit.formats.score_file import ScoreFile

_AGGREGATE = re.compile(r"round_(\d+)\.npy")

Progress = Callable[[list[Path]], Iterable[Path]]
"""Goes through files, and may show how far it has come."""


@dataclass(frozen=True)
class LogFolder(RunFolder):
    """Paths inside one log's folder; what it shares with a run's folder has the same name."""

    @property
    def pool(self) -> Path:
        """The pool: format_version, family, seed, count and dim (JSON)."""
        return self.path / "pool.json"

    @property
    def aggregates(self) -> Path:
        """Folder of the rounds' noised aggregates, `round_000001.npy` and so on."""
        return self.path / "aggregates"

    @property
    def initial(self) -> Path:
        """The model before the first round: float32, dim numbers (NPY); may be missing."""
        return self.path / "initial.npy"

    @property
    def final(self) -> Path:
        """The model after the last round: float32, dim numbers (NPY); may be missing."""
        return self.path / "final.npy"


@dataclass(frozen=True, eq=False)
class ScoredLog:
    """What a log comes to.

    Attributes:
      pool: whose canaries were scored.
      num_rounds: aggregates that were scored.
      scores: by statistic; only those that the log allows.
    """

    pool: CanaryPool
    num_rounds: int
    scores: Mapping[str, ScoreFile]


def score_log(folder: LogFolder, progress: Progress) -> ScoredLog:
    """Scores every canary of a log against all that the log shows; writes nothing.

    Memory grows neither with the number of rounds nor with that of canaries times dim.

    Args:
      folder: with a `pool.json`.
      progress: goes through the files of aggregates.

    Raises:
      InputError: naming the file: it is missing, damaged, or contradicts `pool.json`; or the folder
        shows nothing that could be scored.
    """
    pool = read_pool(folder.pool)
    included = _read_included(folder.canaries, pool) if folder.canaries.exists() else pool.included
    rounds = _read_rounds(folder, pool, progress)
    models = (
        _read_vector(path, pool.dim) if path.exists() else None
        for path in (folder.initial, folder.final)
    )
    scores = {**round_scores(rounds), **model_scores(pool, *models)}
    if not scores:
        raise InputError(
            f"{folder.path}: shows nothing to score: needs {folder.aggregates.name}/"
            f"round_000001.npy, {folder.round_cosines.name} or {folder.final.name}"
        )
    return ScoredLog(pool, rounds.num_rounds, score_files(included, scores))


def round_scores(rounds: OverRounds) -> dict[str, npt.NDArray[np.float64]]:
    """Scores of an attacker who sees every round's aggregate; none without a round."""
    if rounds.num_rounds == 0:
        return {}
    return {MAX.name: rounds.maximum, SUM.name: rounds.total}


def model_scores(
    pool: CanaryPool, initial: npt.NDArray[np.float32] | None, final: npt.NDArray[np.float32] | None
) -> dict[str, npt.NDArray[np.float64]]:
    """Scores of an attacker who sees the final model, and maybe knows the initial one."""
    if final is None:
        return {}
    scores = {FINAL.name: pool.cosines(final)}
    if initial is not None:
        scores[FINAL_MINUS_INITIAL.name] = pool.cosines(final - initial)
    return scores


def score_files(
    included: npt.NDArray[np.bool_], scores: Mapping[str, npt.NDArray[np.float64]]
) -> dict[str, ScoreFile]:
    """Scores with the coins, canaries named by their number from 0."""
    ids = tuple(map(str, range(len(included))))
    return {name: ScoreFile(ids, included, values) for name, values in scores.items()}


def _read_rounds(folder: LogFolder, pool: CanaryPool, progress: Progress) -> OverRounds:
    """The rounds' cosines: those that are logged, else of the aggregates that are."""
    if folder.round_cosines.exists():
        return over_logged_rounds(CosineLog.read(folder.round_cosines, pool.count))
    return over_rounds(_cosines(_aggregates(folder), pool, progress), pool.count)


def _cosines(
    paths: list[Path], pool: CanaryPool, progress: Progress
) -> Iterator[npt.NDArray[np.float32]]:
    """In float32, as a log of cosines keeps them."""
    for path in progress(paths):
        yield pool.cosines(_read_vector(path, pool.dim)).astype(np.float32)


def _aggregates(folder: LogFolder) -> list[Path]:
    """The files of aggregates by round; hidden files are such as are still being written."""
    if not folder.aggregates.exists():
        return []
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
    return [paths[number] for number in sorted(paths)]


def _read_vector(path: Path, dim: int) -> npt.NDArray[np.float32]:
    try:
        array: npt.NDArray[Any] = np.load(path, allow_pickle=False)
    except (OSError, ValueError, EOFError) as error:
        raise InputError(f"{path}: is not an NPY file: {error}") from error
    if not isinstance(array, np.ndarray):
        raise InputError(f"{path}: must be an NPY file of one array, is an NPZ file")
    return flatten(array, dim, str(path))


def _read_included(path: Path, pool: CanaryPool) -> npt.NDArray[np.bool_]:
    """The column `included` of canaries.csv, in the order of the canaries."""
    flags: dict[str, bool] = {}
    for number, row in enumerate(read_csv(path, ("canary_id", "included")), start=1):
        canary, flag = row["canary_id"], row["included"]
        if flag not in ("0", "1"):
            raise InputError(f"{path}, row {number}: included must be 0 or 1, got {flag!r}")
        if canary in flags:
            raise InputError(f"{path}, row {number}: canary_id {canary!r} is there twice")
        flags[canary] = flag == "1"
    ids = [str(canary) for canary in range(pool.count)]
    if flags.keys() != set(ids):
        raise InputError(
            f"{path}: must list canaries 0 to {pool.count - 1} of pool.json, a row each; "
            f"got {len(flags)} rows"
        )
    return np.array([flags[canary] for canary in ids], dtype=bool)
