"""Reads log folders (docs/logs.md).

`read_log` reads a folder once, and `read_listed` reads which canaries were included. The module
`log_scores` scores a log's canaries with the same attackers as in runs, and `measured_canary_check`
tests whether canaries reached the aggregates.
"""

import functools
import re
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
from scipy import special

from fl_audit.array_types import Float32Array, FloatArray, IntArray
from fl_audit.attacks.arrays import flatten
from fl_audit.attacks.directions import RoundDirections, sum_of_cosines
from fl_audit.attacks.likelihood_null import FAMILY_WITH_NULL
from fl_audit.attacks.own_rounds import OwnRounds
from fl_audit.attacks.round_cosines import (
    AggregateFiles,
    LoggedRounds,
    RoundCosines,
    logged_concentrations,
)
from fl_audit.attacks.uploads import CanaryUploads, PoolOfUploads
from fl_audit.canaries.pool import CanaryPool, read_pool
from fl_audit.checks import StatedRounds, logged_aggregates, read_mechanism, read_variables
from fl_audit.errors import InputError, refuse_misspelt
from fl_audit.formats.folders import LogFolder
from fl_audit.formats.noise_correlation import read_correlation
from fl_audit.formats.npy_file import read_array
from fl_audit.formats.participation_files import canaries_text, read_canaries, read_participation
from fl_audit.formats.round_logs import CosineLog, LoggedTotal
from fl_audit.formats.text_files import reading, write_text

# Which canaries were included, and their rounds (canaries.csv).


_FALSE_REFUSAL = 1e-6
"""The largest probability of refusing rounds that were sampled for all canaries alike."""


@dataclass(frozen=True, eq=False)
class ListedCanaries:
    included: npt.NDArray[np.bool_]
    own_rounds: OwnRounds | None


def read_listed(folder: LogFolder, pool: CanaryPool) -> ListedCanaries:
    """Reads a log's canaries.csv; without it, inclusion follows from the pool's coins."""
    if not folder.canaries.exists():
        return ListedCanaries(pool.included, None)
    rows = read_canaries(folder.canaries)
    ids = [str(canary) for canary in range(pool.count)]
    if rows.keys() != set(ids):
        raise InputError(
            f"{folder.canaries}: must list canaries 0 to {pool.count - 1} of pool.json, a row "
            f"each; got {len(rows)} rows"
        )
    included = np.array([rows[canary].included for canary in ids], dtype=bool)
    rounds = [own for canary in ids if (own := rows[canary].rounds) is not None]
    if not rounds:
        return ListedCanaries(included, None)
    _check_once_in_each(str(folder.canaries), rounds)
    _check_independent_of_coins(str(folder.canaries), included, rounds)
    arms = tuple(rows[canary].arm for canary in ids)
    return ListedCanaries(included, OwnRounds(tuple(rounds), arms if any(arms) else ()))


def _check_once_in_each(path: str, rounds: Sequence[IntArray]) -> None:
    """Refuses a canary that is listed twice in a round."""
    for canary, own in enumerate(rounds):
        numbers, counts = np.unique(own, return_counts=True)
        if (counts > 1).any():
            twice = int(numbers[np.argmax(counts > 1)]) + 1
            raise InputError(
                f"{path}, canary_id '{canary}': round {twice} is listed twice; list each round once"
            )


def _check_independent_of_coins(
    path: str, included: npt.NDArray[np.bool_], rounds: Sequence[IntArray]
) -> None:
    """Refuses rounds that depend on the coins, such as rounds of included canaries alone.

    If only included canaries had rounds, scores would differ without any leak. If the rounds of all
    canaries were drawn alike, whether a canary has a round is independent of its coin.
    """
    has_rounds = np.array([len(own) > 0 for own in rounds])
    among_included = np.sum(included & has_rounds)
    among_excluded = np.sum(~included & has_rounds)
    chance = hypergeometric_p_value(len(included), included.sum(), has_rounds.sum(), among_included)
    if chance < _FALSE_REFUSAL:
        raise InputError(
            f"{path}: {among_included} included and {among_excluded} excluded canaries have "
            "rounds: list for every canary, excluded ones too, the rounds in which it would "
            "participate if included; or state no rounds"
        )


def hypergeometric_p_value(total: int, included: int, sampled: int, observed: int) -> float:
    """The two-sided p-value of `observed` included canaries among `sampled` of `total` canaries.

    The distribution is hypergeometric; scipy.stats has it too, and takes half a second to import.

    >>> hypergeometric_p_value(total=4, included=2, sampled=2, observed=2)  # 1 of 6 pairs
    0.333...
    """
    possible = np.arange(max(0, sampled - (total - included)), min(sampled, included) + 1)
    log_chances = (
        _log_choose(included, possible)
        + _log_choose(total - included, sampled - possible)
        - _log_choose(total, sampled)
    )
    tails = [log_chances[possible <= observed], log_chances[possible >= observed]]
    return 2 * float(min(np.exp(tail).sum() for tail in tails))


def _log_choose(n: int, k: IntArray | int) -> FloatArray:
    return np.asarray(-special.betaln(n - k + 1, k + 1) - np.log1p(n))


def write_listed(
    folder: LogFolder,
    pool: CanaryPool,
    rounds: Sequence[Sequence[int]],
    num_rounds: int,
    arms: Sequence[str] = (),
) -> None:
    """Writes a log's canaries.csv, with each canary's rounds (from 1) and arm, if any."""
    if len(rounds) != pool.count:
        raise InputError(
            f"canary_rounds: must have the rounds of {pool.count} canaries, got {len(rounds)}"
        )
    for canary, own in enumerate(rounds):
        if any(not 1 <= number <= num_rounds for number in own):
            raise InputError(
                f"canary_rounds: the rounds of canary {canary} must be in 1 to {num_rounds} "
                f"(num_rounds), got {list(own)[:5]}"
            )
    counted_from_0 = [np.array(own, np.int64) - 1 for own in rounds]
    _check_once_in_each("canary_rounds", counted_from_0)
    _check_independent_of_coins("canary_rounds", pool.included, counted_from_0)
    if arms and len(arms) != pool.count:
        raise InputError(
            f"canary_arms: must have the arms of {pool.count} canaries, got {len(arms)}"
        )
    if any(not arm or set(arm) & set(',"\r\n') for arm in arms):
        raise InputError("canary_arms: must be names without commas, quotes and line ends")
    write_text(folder.canaries, canaries_text(pool.included, counted_from_0, arms))


# The log.


_AGGREGATE = re.compile(r"round_0*([1-9]\d*)\.npy")

_SAME = 0.01
"""The largest change of a cosine by rounding, in standard deviations of the null."""

Progress = Callable[[list[Path]], Iterable[Path]]
"""A function that iterates over files, and may show its progress."""


@dataclass(frozen=True, eq=False)
class SeenLog:
    """The content of a log.

    The first use of `cosines` reads the files of aggregates. `uploads` is None if no uploads are
    logged.
    """

    folder: LogFolder
    pool: CanaryPool
    listed: ListedCanaries
    cosines: RoundCosines
    num_rounds: int
    uploads: CanaryUploads | None

    @property
    def missing_rounds(self) -> list[int]:
        """The rounds, from 1, without scores in the log of cosines; none without that log."""
        path = self.folder.round_cosines
        if not path.exists():
            return []
        is_missing = ~CosineLog.read(path, self.pool.count).written()
        return [int(number) for number in np.flatnonzero(is_missing) + 1]

    @property
    def is_empty(self) -> bool:
        return not self.num_rounds and self.uploads is None


def read_log(folder: LogFolder, progress: Progress) -> SeenLog:
    """Opens a log folder, which has a `pool.json`; writes nothing.

    Raises InputError if a file is missing, damaged, or contradicts `pool.json`.
    """
    with reading(folder.path):
        names = [path.name for path in folder.path.iterdir()]
    refuse_misspelt(f"{folder.path}: file", names, folder.optional)
    pool = read_pool(folder.pool)
    check_pool(folder)
    listed = read_listed(folder, pool)
    cosines, num_rounds = _rounds(folder, pool, listed.own_rounds, progress)
    uploads = read_uploads(folder, pool, listed.own_rounds)
    return SeenLog(folder, pool, listed, cosines, num_rounds, uploads)


def pool_of_uploads(pool: CanaryPool, own: OwnRounds | None) -> PoolOfUploads:
    """A log's pool, in the form that `CanaryUploads` takes."""
    return PoolOfUploads(pool, pool.family, pool.seed, pool.dim, own)


def read_uploads(
    folder: LogFolder, pool: CanaryPool, own: OwnRounds | None
) -> CanaryUploads | None:
    """The uploads of a log; None if no uploads are logged."""
    if not folder.upload_cosines.exists():
        return None
    uploads = CanaryUploads.opened("r", folder, pool_of_uploads(pool, own), "rounds", pool.count)
    return None if uploads.is_empty else uploads


def _rounds(
    folder: LogFolder, pool: CanaryPool, own: OwnRounds | None, progress: Progress
) -> tuple[RoundCosines, int]:
    """The cosines, from files of aggregates or, without files, logged; and the number of rounds."""
    log = None
    if folder.round_cosines.exists():
        log = CosineLog.read(folder.round_cosines, pool.count)
    paths = _aggregates(folder)
    if log is not None and not paths:
        return logged_rounds(folder, pool, log), int(log.written().sum())
    check = None if log is None else _same_rounds(folder, pool, log, paths)
    numbers = max(paths, default=0)
    correlation = read_correlation(folder, numbers) if numbers else None
    keep = own is not None and needs_directions(folder, pool.family, own, correlation is not None)
    stated_noise = read_mechanism(folder)
    variables = read_variables(folder, pool.dim)
    measure = None
    if stated_noise is not None:
        over_all = read_correlation(folder, max(len(stated_noise), numbers))
        measure = functools.partial(StatedRounds, stated_noise, variables, over_all)
    read = functools.partial(read_vector, dim=pool.dim)
    files = AggregateFiles(
        pool, paths, read, progress, keep_directions=keep, check=check, measure=measure
    )
    return files, len(paths)


def needs_directions(folder: LogFolder, family: str, own: OwnRounds, is_correlated: bool) -> bool:
    """Whether some statistic's null distribution follows from the directions of all rounds.

    That of `own_rounds` does where weighted sums are compared; that of `likelihood_ratio` for
    canaries of a log that states how rounds are drawn.
    """
    stated = read_participation(folder.participation)
    is_pattern_stated = bool(own.arms) or (stated is not None and stated.sampling != "none")
    return (
        own.most > 1
        or is_correlated
        or (family == FAMILY_WITH_NULL and own.most > 0 and is_pattern_stated)
    )


def check_pool(folder: LogFolder) -> None:
    """Refuses a pool, or rounds of canaries, that changed after the audit began."""
    chain = folder.checked_chain()
    pool = (folder.pool.name, folder.canaries.name)
    for name in [] if chain is None else chain.changed_files(folder.path, pool):
        raise InputError(
            f"{folder.path / name}: has changed since the canaries of {folder.round_cosines.name} "
            "were scored; restore the original, or start a new audit"
        )


def _same_rounds(
    folder: LogFolder, pool: CanaryPool, log: CosineLog, paths: Collection[int]
) -> Callable[[int, FloatArray], None]:
    """Refuses logged cosines of other rounds than those whose aggregates are in the folder.

    Returns a function that refuses a round, counted from 1, if the cosines with its aggregate
    differ from the logged ones.
    """
    contradiction = f"{folder.round_cosines}: does not match {folder.aggregates.name}/"
    advice = "delete the older of the two"
    logged = set((np.flatnonzero(log.written()) + 1).tolist())
    if only := sorted(logged ^ set(paths)):
        holder = folder.round_cosines if only[0] in logged else folder.aggregates
        raise InputError(
            f"{contradiction}: they have {len(logged)} and {len(paths)} rounds, and only "
            f"{holder.name} has round {only[0]}; {advice}"
        )

    def check(number: int, cosines: FloatArray) -> None:
        row = log.row(number - 1)
        if row is None or np.abs(row - cosines).max() > _SAME * pool.dim**-0.5:
            raise InputError(f"{contradiction}: the cosines of round {number} differ; {advice}")

    return check


def logged_rounds(folder: LogFolder, pool: CanaryPool, log: CosineLog) -> LoggedRounds:
    """The rounds of a log of cosines, with the folder's measurements of the aggregates."""
    scored = set(np.flatnonzero(log.written()).tolist())
    logged = LoggedTotal(folder.direction_sum, pool.dim)
    total = sum_of_cosines(pool.family, logged.total) if logged.rounds == scored else None
    directions = None
    if folder.round_directions.exists():
        directions = RoundDirections.opened(
            "r", folder.round_directions, log.num_rounds, pool.seed, pool.dim
        )
    measured = logged_aggregates(folder, pool.dim)
    return LoggedRounds(
        log, logged_concentrations(folder.round_concentrations, log), total, directions, measured
    )


def _aggregates(folder: LogFolder) -> dict[int, Path]:
    """The files of aggregates by round, without hidden files, which are still being written."""
    if not folder.aggregates.exists():
        return {}
    paths: dict[int, Path] = {}
    with reading(folder.aggregates):
        files = sorted(path for path in folder.aggregates.iterdir() if path.name[0] != ".")
    for path in files:
        match = _AGGREGATE.fullmatch(path.name)
        if not match:
            raise InputError(
                f"{path}: must be named round_NUMBER.npy, such as round_000001.npy; rounds count "
                "from 1"
            )
        number = int(match[1])
        if number in paths:
            raise InputError(f"{path}: is round {number} again, after {paths[number].name}")
        paths[number] = path
    return {number: paths[number] for number in sorted(paths)}


def read_vector(path: Path, dim: int) -> Float32Array:
    """Reads an aggregate or a model, float32 of shape (dim,)."""
    return flatten(read_array(path, "an NPY file"), dim, str(path))
