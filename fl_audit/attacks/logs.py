"""Log folders: what one shows, and its scores by the attackers of runs (docs/logs.md).

`read_log` reads a folder once for all who look at it, `score_log` scores its canaries, and
`log_arrival` says whether they arrived.
"""

import functools
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
from scipy import special

from fl_audit.array_types import Float32Array, FloatArray, IndexArray
from fl_audit.attacks.arrays import flatten
from fl_audit.attacks.attacker import AttackContext
from fl_audit.attacks.audit_table import Audit
from fl_audit.attacks.directions import LOGGED_SUM, RoundDirections, sum_of_cosines
from fl_audit.attacks.one_upload import ONE_UPLOAD_MODEL
from fl_audit.attacks.own_rounds import OwnRounds, RoundLengths, arrival_in_rounds
from fl_audit.attacks.round_cosines import AggregateFiles, FinishedRounds, RoundCosines
from fl_audit.attacks.statistics import ComparedVectors, Sight, write_compared_vectors
from fl_audit.attacks.threat_models import (
    STATISTICS,
    compared_by,
    make_attackers,
    scores_of,
    statistics_for,
)
from fl_audit.attacks.uploads import CanaryUploads, PoolOfUploads
from fl_audit.canaries.pool import CanaryPool, pair_names, read_pool
from fl_audit.checks import (
    Arrival,
    ToldRounds,
    Variables,
    logged_aggregates,
    read_mechanism,
    read_variables,
)
from fl_audit.errors import InputError, refuse_misspelt
from fl_audit.formats.folders import LogFolder
from fl_audit.formats.noise_correlation import read_correlation
from fl_audit.formats.npy_file import read_array
from fl_audit.formats.participation_files import canaries_text, read_canaries
from fl_audit.formats.round_chain import ChainWriter, Scored, digests_of
from fl_audit.formats.round_logs import ConcentrationLog, CosineLog, LoggedTotal, open_log
from fl_audit.formats.score_file import ScoreFile, write_score_file
from fl_audit.formats.text_files import write_text

# canaries.csv: which canaries were included, and in which rounds each took part.


_FALSE_REFUSAL = 1e-6
"""The chance with which rounds that were dealt to all are refused."""


@dataclass(frozen=True, eq=False)
class ListedCanaries:
    """The coins and rounds of a pool's canaries.

    Attributes:
      included: Whether each took part in training, bool of shape (num_canaries,).
      own_rounds: The rounds of each canary; None where they are not known.
    """

    included: npt.NDArray[np.bool_]
    own_rounds: OwnRounds | None


def read_listed(folder: LogFolder, pool: CanaryPool) -> ListedCanaries:
    """Reads a log's canaries.csv; where there is none, the pool's coins say who was included.

    Args:
      folder: The folder of the log.
      pool: The canaries.

    Raises:
      InputError: The file does not list the pool, or a value in it is wrong.
    """
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
    _check_dealt_to_all(str(folder.canaries), included, rounds)
    return ListedCanaries(included, OwnRounds(tuple(rounds)))


def _check_dealt_to_all(
    path: str, included: npt.NDArray[np.bool_], rounds: Sequence[IndexArray]
) -> None:
    """Refuses rounds that know the coins, most of all none where a canary is excluded.

    Scores in rounds that only the included have would differ without any leak. Who has rounds is
    independent of the coins where all were dealt theirs before.
    """
    has_rounds = np.array([len(own) > 0 for own in rounds])
    among_included = np.sum(included & has_rounds)
    among_excluded = np.sum(~included & has_rounds)
    chance = chance_of_split(len(included), included.sum(), has_rounds.sum(), among_included)
    if chance < _FALSE_REFUSAL:
        raise InputError(
            f"{path}: {among_included} included canaries have rounds and {among_excluded} excluded "
            "ones: every canary must have the rounds that it takes part in if included; or leave "
            "out the column rounds"
        )


def chance_of_split(total: int, included: int, drawn: int, observed: int) -> float:
    """Twice the smaller tail at `observed` of the included among `drawn` of `total` canaries.

    The law is hypergeometric; scipy.stats has it too, and takes half a second to import.

    >>> chance_of_split(total=4, included=2, drawn=2, observed=2)  # 1 of 6 pairs
    0.333...
    """
    possible = np.arange(max(0, drawn - (total - included)), min(drawn, included) + 1)
    log_chances = (
        _log_choose(included, possible)
        + _log_choose(total - included, drawn - possible)
        - _log_choose(total, drawn)
    )
    tails = [log_chances[possible <= observed], log_chances[possible >= observed]]
    return 2 * float(min(np.exp(tail).sum() for tail in tails))


def _log_choose(n: int, k: IndexArray | int) -> FloatArray:
    return np.asarray(-special.betaln(n - k + 1, k + 1) - np.log1p(n))


def write_listed(
    folder: LogFolder,
    pool: CanaryPool,
    rounds: Sequence[Sequence[int]],
    num_rounds: int,
    arms: Sequence[str] = (),
) -> None:
    """Writes a log's canaries.csv; the file appears whole.

    Args:
      folder: The folder of the log.
      pool: The canaries.
      rounds: The rounds of each canary, included or not, from 1.
      num_rounds: The number of rounds that there is room for.
      arms: The arm of each canary; nothing where there are none.

    Raises:
      InputError: There are rounds or arms of more or fewer canaries, a round is out of range, or an
        arm has a name that a CSV file cannot hold.
    """
    if len(rounds) != pool.count:
        raise InputError(
            f"canary_rounds: must have the rounds of {pool.count} canaries, got {len(rounds)}"
        )
    for canary, own in enumerate(rounds):
        if any(not 1 <= number <= num_rounds for number in own):
            raise InputError(
                f"canary_rounds: those of canary {canary} must be in 1 to {num_rounds} "
                f"(num_rounds), got {list(own)[:5]}"
            )
    if arms and len(arms) != pool.count:
        raise InputError(
            f"canary_arms: must have the arms of {pool.count} canaries, got {len(arms)}"
        )
    if any(not arm or set(arm) & set(',"\r\n') for arm in arms):
        raise InputError("canary_arms: must be names without commas, quotes and line ends")
    counted_from_0 = [[number - 1 for number in own] for own in rounds]
    write_text(folder.canaries, canaries_text(pool.included, counted_from_0, arms))


# What a log shows.


_AGGREGATE = re.compile(r"round_(\d+)\.npy")

_SAME = 0.01
"""The most by which rounding changes a cosine, in standard deviations of an excluded one's."""

Progress = Callable[[list[Path]], Iterable[Path]]
"""A function that goes through files, and may show how far it has come."""


@dataclass(frozen=True, eq=False)
class SeenLog:
    """What a log shows.

    Attributes:
      folder: The folder of the log.
      pool: The canaries.
      listed: The coins and the rounds of the canaries.
      cosines: The cosines of the rounds. Files of aggregates are read once, by whoever asks first.
      num_rounds: The number of rounds that are shown.
      uploads: The canaries' own uploads; None where there are none.
    """

    folder: LogFolder
    pool: CanaryPool
    listed: ListedCanaries
    cosines: RoundCosines
    num_rounds: int
    uploads: CanaryUploads | None

    @property
    def is_empty(self) -> bool:
        """Whether there is neither an aggregate nor an upload."""
        return not self.num_rounds and self.uploads is None


def read_log(folder: LogFolder, progress: Progress) -> SeenLog:
    """Opens a log; writes nothing.

    Args:
      folder: The folder of the log, which has a `pool.json`.
      progress: The function that goes through the files of aggregates.

    Raises:
      InputError: A file is missing, damaged, or contradicts `pool.json`, and the message names it.
    """
    refuse_misspelt(f"{folder.path}: file", _names(folder.path), folder.optional)
    pool = read_pool(folder.pool)
    check_pool(folder)
    listed = read_listed(folder, pool)
    cosines, num_rounds = _rounds(folder, pool, listed.own_rounds, progress)
    uploads = read_uploads(folder, pool, listed.own_rounds)
    return SeenLog(folder, pool, listed, cosines, num_rounds, uploads)


def pool_of_uploads(pool: CanaryPool, own: OwnRounds | None) -> PoolOfUploads:
    """The pool of a log as logs of uploads need it.

    Args:
      pool: The canaries.
      own: The rounds of every canary; None where they are not known.
    """
    return PoolOfUploads(pool, pool.family, pool.seed, pool.dim, own)


def read_uploads(
    folder: LogFolder, pool: CanaryPool, own: OwnRounds | None
) -> CanaryUploads | None:
    """The uploads of a log; None where there are none.

    Args:
      folder: The folder of the log.
      pool: The canaries.
      own: The rounds of every canary; None where they are not known.

    Raises:
      InputError: A file is damaged or of another shape.
    """
    if not folder.upload_cosines.exists():
        return None
    uploads = CanaryUploads.read(folder, pool_of_uploads(pool, own), pool.count)
    return None if uploads.is_empty else uploads


def _names(folder: Path) -> list[str]:
    try:
        return sorted(path.name for path in folder.iterdir())
    except OSError as error:
        raise InputError(f"{folder}: cannot be read: {error.strerror}") from error


def _rounds(
    folder: LogFolder, pool: CanaryPool, own: OwnRounds | None, progress: Progress
) -> tuple[RoundCosines, int]:
    """The cosines that are logged, else those of logged aggregates, and the number of rounds."""
    log = None
    if folder.round_cosines.exists():
        log = CosineLog.read(folder.round_cosines, pool.count)
    paths = _aggregates(folder)
    if log is not None and not paths:
        return logged_rounds(folder, pool, log), int(log.written().sum())
    check = None if log is None else _same_rounds(folder, pool, log, paths)
    several = own is not None and own.most > 1

    def read(path: Path) -> Float32Array:
        return read_vector(path, pool.dim)

    told = read_mechanism(folder)
    variables = read_variables(folder, pool.dim) or Variables((pool.dim,))
    measure = None
    if told is not None:
        correlation = read_correlation(folder, max(len(told), *paths))
        measure = functools.partial(ToldRounds, told, variables, correlation)
    files = AggregateFiles(
        pool, paths, read, progress, keep_directions=several, check=check, measure=measure
    )
    return files, len(paths)


def check_pool(folder: LogFolder) -> None:
    """Refuses a pool, or rounds of canaries, that were changed after the audit had begun.

    Raises:
      InputError: They were, and the message names the file.
    """
    known = folder.together()
    pool = (folder.pool.name, folder.canaries.name)
    for name in [] if known is None else known.changed(folder.path, pool):
        raise InputError(
            f"{folder.path / name}: has changed since the canaries of {folder.round_cosines.name} "
            "were scored; put back the file that it was, or start a new audit"
        )


def _same_rounds(
    folder: LogFolder, pool: CanaryPool, log: CosineLog, paths: Collection[int]
) -> Callable[[int, FloatArray], None]:
    """Refuses logged cosines of other rounds than those of the aggregates, or of other aggregates.

    Returns:
      A check of one round, from 1, and of the cosines that its aggregate gives.
    """
    beside = f"{folder.round_cosines}: is about other rounds than {folder.aggregates.name}/"
    advice = "delete the older one of the two"
    logged = set((np.flatnonzero(log.written()) + 1).tolist())
    if only := sorted(logged ^ set(paths)):
        holder = folder.round_cosines if only[0] in logged else folder.aggregates
        raise InputError(
            f"{beside}: they have {len(logged)} and {len(paths)} rounds, and only {holder.name} "
            f"has round {only[0]}; {advice}"
        )

    def check(number: int, cosines: FloatArray) -> None:
        row = log.row(number - 1)
        if row is None or np.abs(row - cosines).max() > _SAME * pool.dim**-0.5:
            raise InputError(f"{beside}: round {number} has other cosines; {advice}")

    return check


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
    logged = LoggedTotal(folder.direction_sum, pool.dim, LOGGED_SUM)
    total = sum_of_cosines(pool.family, logged.total) if logged.rounds == scored else None
    directions = None
    if folder.round_directions.exists():
        directions = RoundDirections.read(
            folder.round_directions, log.num_rounds, pool.seed, pool.dim
        )
    measured = logged_aggregates(folder, pool.dim)
    return FinishedRounds(log, concentrations, total, directions, measured)


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


def read_vector(path: Path, dim: int) -> Float32Array:
    """Reads an aggregate or a model, float32 of shape (dim,).

    Raises:
      InputError: The file is damaged or holds another number of values.
    """
    return flatten(read_array(path, "an NPY file"), dim, str(path))


# The scores of a log.


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


def score_log(log: SeenLog) -> ScoredLog:
    """Scores every canary of a log against all that the log shows; writes nothing.

    Memory grows neither with the number of rounds nor with that of canaries times dim.

    Args:
      log: The log.

    Raises:
      InputError: A file of aggregates is damaged; or the log shows nothing that could be scored.
    """
    folder, listed = log.folder, log.listed
    initial, final = (
        read_vector(path, log.pool.dim) if path.exists() else None
        for path in (folder.initial, folder.final)
    )
    seen = score_seen(
        log.pool,
        log.cosines,
        log.num_rounds,
        own_rounds=listed.own_rounds,
        uploads=log.uploads,
        initial=initial,
        final=final,
    )
    if not seen.scores:
        raise InputError(
            f"{folder.path}: shows nothing to score: needs {folder.aggregates.name}/"
            f"round_000001.npy, {folder.round_cosines.name}, {folder.upload_cosines.name} or "
            f"{folder.final.name}"
        )
    scores = score_files(log.pool, listed.included, seen.scores)
    return ScoredLog(log.pool, log.num_rounds, scores, seen.compared)


def score_seen(
    pool: CanaryPool,
    cosines: RoundCosines,
    num_rounds: int,
    *,
    own_rounds: OwnRounds | None,
    uploads: CanaryUploads | None,
    initial: Float32Array | None,
    final: Float32Array | None,
) -> SeenScores:
    """Scores every canary by what was seen, under the threat models that need no keys.

    Args:
      pool: The canaries.
      cosines: The cosines of the rounds that were seen.
      num_rounds: The number of rounds that were seen; 0 for none.
      own_rounds: The rounds of every canary; None where they are not known.
      uploads: The canaries' own uploads; None where nobody saw any.
      initial: The model before the first round, float32 of shape (dim,); None where it is not
        known.
      final: The model after the last round, float32 of shape (dim,); None where it is not known.
    """
    shown: dict[Sight, bool] = {
        "round_cosines": num_rounds > 0,
        "canary_rounds": own_rounds is not None,
        "initial_model": initial is not None,
        "final_model": final is not None,
        "uploads": uploads is not None,
    }
    seen = {sight for sight, is_shown in shown.items() if is_shown}
    audit = audit_of_log(uploads is not None)
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
        given_uploads=uploads,
    )
    attackers = make_attackers(context, statistics)
    scores = scores_of(attackers, final)
    return SeenScores(
        scores={statistic.name: scores[statistic.name] for statistic in statistics},
        compared=compared_by(attackers, final),
    )


def audit_of_log(has_uploads: bool) -> Audit:
    """The table [audit] of a log: the threat models that need no keys.

    Args:
      has_uploads: Whether the log shows canaries' own uploads.
    """
    models = Audit().threat_models
    return Audit(threat_models=(*models, ONE_UPLOAD_MODEL.name) if has_uploads else models)


def score_files(
    pool: CanaryPool, included: npt.NDArray[np.bool_], scores: Mapping[str, FloatArray]
) -> dict[str, ScoreFile]:
    """The scores with who was included, by statistic; canaries are named by their number from 0."""
    ids = tuple(map(str, range(len(included))))
    pairs = pair_names(pool.inclusion, pool.count)
    return {
        name: ScoreFile(ids, included, values, pool.inclusion, pair=pairs)
        for name, values in scores.items()
    }


def write_scores(
    folder: LogFolder,
    files: Mapping[str, ScoreFile],
    compared: Mapping[str, ComparedVectors],
    num_rounds: int,
    chain: ChainWriter,
) -> None:
    """Replaces the scores of a folder; the line of the chain with their digests is written last.

    Args:
      folder: The folder, with the log of cosines.
      files: The scores by statistic.
      compared: What is known of the vectors behind them, by statistic.
      num_rounds: The number of rounds that are scored.
      chain: The chain of the folder.
    """
    chain.add(Scored(rounds=0, files={}))
    for name in STATISTICS:
        folder.scores(name).unlink(missing_ok=True)
    folder.compared_vectors.unlink(missing_ok=True)
    for statistic, scored in files.items():
        write_score_file(folder.scores(statistic), scored)
    write_compared_vectors(folder.compared_vectors, compared)
    written = [folder.scores(statistic) for statistic in files]
    behind = [folder.compared_vectors, folder.direction_sum, folder.coordinate_lengths]
    told = [folder.path / name for name in folder.side_files()]
    files_of_scores = digests_of([*written, *behind, folder.autocorrelation, *told])
    chain.add(Scored(rounds=num_rounds, files=files_of_scores))
    chain.flush()


def log_arrival(log: SeenLog) -> Arrival | None:
    """What became of a log's included canaries; None where it does not say who was in which round.

    Args:
      log: The log.

    Raises:
      InputError: A file is damaged.
    """
    own = log.listed.own_rounds
    if own is None or log.num_rounds == 0:
        return None
    rounds = log.cosines
    return arrival_in_rounds(
        rounds.numbered_rows(),
        own,
        log.listed.included,
        lambda: _lengths(log.folder, rounds.measured_lengths()),
        dim=log.pool.dim,
        family=log.pool.family,
    )


def _lengths(folder: LogFolder, measured: FloatArray) -> RoundLengths:
    """The lengths that the folder tells; those of aggregates as measured, where they were."""
    if not folder.round_lengths.exists():
        return RoundLengths(measured, np.full(len(measured), np.nan))
    told = np.array(open_log(folder.round_lengths, "r", np.float64, ("rounds", 2), "lengths"))
    num_rounds = max(len(told), len(measured))
    of_aggregate, of_client = np.full((2, num_rounds), np.nan)
    of_aggregate[: len(told)], of_client[: len(told)] = told.T
    known = np.flatnonzero(np.isfinite(measured))
    of_aggregate[known] = measured[known]
    return RoundLengths(of_aggregate, of_client)


def told_shift(log: SeenLog) -> float | None:
    """By how many deviations of its noise a canary shifts its round, as the log tells of both.

    It is the length of a canary in the aggregate of its round over the standard deviation of the
    noise there, the largest of all rounds of canaries.

    Args:
      log: The log.

    Returns:
      None where a round has no noise or is not told of, where noise is correlated over rounds,
        where the rounds of canaries are not known, or where a canary has several, whose noise may
        depend on each other.

    Raises:
      InputError: A file is damaged.
    """
    own = log.listed.own_rounds
    if own is None or own.most != 1 or log.folder.noise_correlation.exists():
        return None
    scored = {index for index, _ in log.cosines.numbered_rows()}
    indices = np.array(sorted(scored & own.members().keys()), np.int64)
    found = log.cosines.measured_aggregates()
    if found is None or not len(indices):
        return None
    numbers = found.numbers or range(1, len(found.stddev) + 1)
    stddev_of = dict(zip(numbers, found.stddev.tolist(), strict=True))
    _, clients = _lengths(log.folder, log.cosines.measured_lengths()).at(indices)
    stddevs = np.array([stddev_of.get(number, np.nan) for number in (indices + 1).tolist()])
    is_told = np.isfinite(clients) & (clients > 0) & np.isfinite(stddevs) & (stddevs > 0)
    return float(np.max(clients / stddevs)) if is_told.all() else None
