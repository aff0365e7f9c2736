"""The statistics that a folder holds or allows, for `fl-audit estimate`."""

import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from tqdm import tqdm

from fl_audit.attacks.audit_table import Audit
from fl_audit.attacks.log_folder import score_log
from fl_audit.attacks.registry import STATISTICS
from fl_audit.attacks.statistic import RunFacts
from fl_audit.canaries.pool import read_pool
from fl_audit.config.file import load_config
from fl_audit.errors import InputError
from fl_audit.estimators.setting import Null
from fl_audit.formats.log_folder import LogFolder
from fl_audit.formats.run_folder import RunFolder, read_record
from fl_audit.formats.score_file import ScoreFile, read_score_file
from fl_audit.formats.scored_folder import ScoredFolder
from fl_audit.verdict import ScoredStatistic


@dataclass(frozen=True, eq=False)
class _Scores:
    """Scores by statistic, and the number of parameters of the model, if known."""

    scores: Mapping[str, ScoreFile]
    dim: int | None


def folder_statistics(path: Path, dim: int | None, null: Null | None) -> list[ScoredStatistic]:
    """Reads a folder's score files, or scores a log that has none; writes nothing.

    Args:
      path: The folder of a log (docs/logs.md), or of a run of `fl-audit run`.
      dim: Number of trainable parameters; None takes the folder's.
      null: Null law for all statistics; None takes what is known of each statistic.

    Raises:
      InputError: The folder holds neither a log nor scores, a file in it is damaged, or `dim` or
        `null` contradicts it.
    """
    found = _read_scores(path) or _score(LogFolder(path))
    if dim is not None and found.dim is not None and dim != found.dim:
        raise InputError(f"--dim: must be {found.dim}, as {path} says, or left out; got {dim}")
    facts = RunFacts(_audit(RunFolder(path)), dim if found.dim is None else found.dim)
    order = STATISTICS.names
    return [
        ScoredStatistic(
            name, found.scores[name].canary_scores(), _null(name, facts, null), facts.dim
        )
        for name in sorted(found.scores, key=lambda name: ([*order, name].index(name), name))
    ]


def _audit(folder: RunFolder) -> Audit:
    """The audit table of a run's config; a log has the default one."""
    return load_config(folder.config).audit if folder.config.exists() else Audit()


def _null(name: str, facts: RunFacts, asked: Null | None) -> Null:
    """The null law asked for, or the statistic's own; "empirical" for an unknown statistic."""
    statistic = STATISTICS.get(name)
    if asked == "closed_form" and (statistic is None or statistic.law(facts).kind == "empirical"):
        raise InputError(
            f"--null: the law of an excluded canary's {name} has no closed form; leave --null out, "
            "which takes what is known of each statistic"
        )
    return asked or ("empirical" if statistic is None else statistic.null(facts).kind)


def _read_scores(path: Path) -> _Scores | None:
    """The scores in the folder's score files; None without any."""
    names = [file.stem.removeprefix("scores_") for file in path.glob("scores_*.csv")]
    if not names:
        return None
    scores = {name: read_score_file(ScoredFolder(path).scores(name)) for name in names}
    return _Scores(scores, _dim(LogFolder(path), RunFolder(path)))


def _dim(log: LogFolder, run: RunFolder) -> int | None:
    if log.pool.exists():
        return read_pool(log.pool).dim
    return read_record(run).dim if run.record.exists() else None


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
    """The paths with a progress bar on standard error, if that is a terminal."""
    bar: Iterable[Path] = tqdm(paths, desc="scoring", unit="round", disable=None, leave=False)
    return bar
