"""What became of the included canaries of a log, by the aggregates of their rounds."""

import numpy as np

from fl_audit.array_types import FloatArray
from fl_audit.attacks.arrivals import RoundLengths, arrival_in_rounds
from fl_audit.attacks.seen_log import SeenLog
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
