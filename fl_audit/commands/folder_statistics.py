"""The statistics that a folder holds or allows, for `fl-audit estimate`."""

import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from tqdm import tqdm

from fl_audit.attacks import statistics
from fl_audit.attacks.log_folder import LogFolder, score_log
from fl_audit.canaries.pool import read_pool
from fl_audit.errors import InputError
from fl_audit.estimators.setting import Null
from fl_audit.formats.run_folder import read_record
from fl_audit.formats.score_file import ScoreFile, read_score_file
from fl_audit.verdict import ScoredStatistic

_NULLS: Mapping[str, Null] = {statistic.name: statistic.null for statistic in statistics.ALL}
"""In the order to show them. A score file of another statistic is compared with its excluded."""


@dataclass(frozen=True, eq=False)
class _Scores:
    """Scores by statistic, and what they are scores of."""

    scores: Mapping[str, ScoreFile]
    dim: int | None


def folder_statistics(path: Path, dim: int | None, null: Null | None) -> list[ScoredStatistic]:
    """Reads a folder's score files; scores a log that has none. Writes nothing.

    Args:
      path: of a log (docs/logs.md), or of a run of `fl-audit run`.
      dim: that is asked for; None takes the folder's.
      null: that is asked for; None takes what is known of each statistic.

    Raises:
      InputError: the folder holds neither, a file in it is damaged, or what is asked for
        contradicts it.
    """
    folder = LogFolder(path)
    found = _read_scores(folder) or _score(folder)
    if dim is not None and found.dim is not None and dim != found.dim:
        raise InputError(f"--dim: must be {found.dim}, as {path} says, or left out; got {dim}")
    known = dim if found.dim is None else found.dim
    return [
        ScoredStatistic(name, found.scores[name].canary_scores(), _null(name, known, null), known)
        for name in sorted(found.scores, key=lambda name: ([*_NULLS, name].index(name), name))
    ]


def _null(name: str, dim: int | None, asked: Null | None) -> Null:
    law: Null = _NULLS.get(name, "empirical")
    if asked == "closed_form" and law == "empirical":
        raise InputError(
            f"--null: the law of an excluded canary's {name} has no closed form; leave --null out, "
            "which takes what is known of each statistic"
        )
    return asked or ("empirical" if dim is None else law)


def _read_scores(folder: LogFolder) -> _Scores | None:
    """Of the score files that the folder holds; None without any."""
    names = [path.stem.removeprefix("scores_") for path in folder.path.glob("scores_*.csv")]
    if not names:
        return None
    return _Scores({name: read_score_file(folder.scores(name)) for name in names}, _dim(folder))


def _dim(folder: LogFolder) -> int | None:
    if folder.pool.exists():
        return read_pool(folder.pool).dim
    return read_record(folder).dim if folder.record.exists() else None


def _score(folder: LogFolder) -> _Scores:
    if not folder.pool.exists():
        raise InputError(
            f"{folder.path}: holds neither {folder.pool.name} (a log) nor scores_STATISTIC.csv"
        )
    scored = score_log(folder, _with_progress)
    if scored.num_rounds and sys.stderr.isatty():
        print(f"scored {scored.num_rounds} rounds", file=sys.stderr)
    return _Scores(scored.scores, scored.pool.dim)


def _with_progress(paths: list[Path]) -> Iterable[Path]:
    """Progress on standard error, if somebody looks."""
    bar: Iterable[Path] = tqdm(paths, desc="scoring", unit="round", disable=None, leave=False)
    return bar
