"""What became of the included canaries of a log, by the aggregates of their rounds."""

import numpy as np

from fl_audit.array_types import FloatArray
from fl_audit.attacks.arrivals import RoundLengths, arrival_in_rounds
from fl_audit.attacks.listed_canaries import read_listed
from fl_audit.attacks.log_folder import Progress, read_rounds
from fl_audit.canaries.pool import read_pool
from fl_audit.formats.log_folder import LogFolder
from fl_audit.formats.mapped_log import open_log
from fl_audit.mechanism_checks import Arrival


def log_arrival(folder: LogFolder, progress: Progress) -> Arrival | None:
    """What became of a log's included canaries; None where it does not say who was in which round.

    Args:
      folder: The folder of the log, which has a `pool.json`.
      progress: The function that goes through the files of aggregates.

    Raises:
      InputError: A file is damaged or contradicts `pool.json`.
    """
    pool = read_pool(folder.pool)
    listed = read_listed(folder, pool)
    if listed.own_rounds is None:
        return None
    rounds, num_rounds = read_rounds(folder, pool, listed.own_rounds, progress)
    if num_rounds == 0:
        return None
    return arrival_in_rounds(
        rounds.numbered_rows(),
        listed.own_rounds,
        listed.included,
        lambda: _lengths(folder, rounds.measured_lengths()),
        pool.dim,
    )


def _lengths(folder: LogFolder, measured: FloatArray) -> RoundLengths:
    """The lengths that the folder tells; those of aggregates as measured, where they were."""
    if not folder.round_lengths.exists():
        return RoundLengths(measured, np.full(len(measured), np.nan))
    told = np.array(open_log(folder.round_lengths, "r", np.float64, ("rounds", 2), "lengths"))
    num_rounds = max(len(told), len(measured))
    of_aggregate, of_canary = np.full((2, num_rounds), np.nan)
    of_aggregate[: len(told)], of_canary[: len(told)] = told.T
    known = np.flatnonzero(np.isfinite(measured))
    of_aggregate[known] = measured[known]
    return RoundLengths(of_aggregate, of_canary)
