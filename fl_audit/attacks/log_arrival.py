"""Whether a log's included canaries arrived in its aggregates (docs/arrival.md)."""

import numpy as np

from fl_audit.array_types import FloatArray
from fl_audit.attacks.arrival import RoundLengths, arrival_in_rounds
from fl_audit.attacks.logs import SeenLog
from fl_audit.checks import Arrival
from fl_audit.formats.folders import LogFolder
from fl_audit.formats.round_logs import open_log


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
        lambda: logged_lengths(log.folder, rounds.measured_lengths()),
        dim=log.pool.dim,
        family=log.pool.family,
    )


def logged_lengths(folder: LogFolder, measured: FloatArray) -> RoundLengths:
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
      None where a round has no noise or is not told of, or where the rounds of canaries are not
        known. Of correlated noise it is the independent noise that is correlated.

    Raises:
      InputError: A file is damaged.
    """
    own = log.listed.own_rounds
    if own is None:
        return None
    scored = {index for index, _ in log.cosines.numbered_rows()}
    indices = np.array(sorted(scored & own.members().keys()), np.int64)
    aggregates = log.cosines.measured_aggregates()
    if aggregates is None or not len(indices):
        return None
    numbers = aggregates.numbers or range(1, len(aggregates.stddev) + 1)
    stddev_of = dict(zip(numbers, aggregates.stddev.tolist(), strict=True))
    _, clients = logged_lengths(log.folder, log.cosines.measured_lengths()).at(indices)
    stddevs = np.array([stddev_of.get(number, np.nan) for number in (indices + 1).tolist()])
    is_told = np.isfinite(clients) & (clients > 0) & np.isfinite(stddevs) & (stddevs > 0)
    return float(np.max(clients / stddevs)) if is_told.all() else None
