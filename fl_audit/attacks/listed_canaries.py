"""A log's canaries.csv: which canaries were included, and in which rounds each took part."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy import stats

from fl_audit.array_types import IndexArray
from fl_audit.attacks.own_rounds import OwnRounds
from fl_audit.canaries.pool import CanaryPool
from fl_audit.errors import InputError
from fl_audit.formats.atomic import write_text
from fl_audit.formats.canaries_file import canaries_text, read_canaries
from fl_audit.formats.log_folder import LogFolder

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
    independent of the coins where all were dealt theirs before (Fisher's exact test).
    """
    has_rounds = np.array([len(own) > 0 for own in rounds])
    counts = [
        [np.sum(included & has), np.sum(~included & has)] for has in (has_rounds, ~has_rounds)
    ]
    _, p_value = stats.fisher_exact(counts)
    if p_value < _FALSE_REFUSAL:
        (included_with, excluded_with), _ = counts
        raise InputError(
            f"{path}: {included_with} included canaries have rounds and {excluded_with} excluded "
            "ones: every canary must have the rounds that it takes part in if included; or leave "
            "out the column rounds"
        )


def write_listed(
    folder: LogFolder, pool: CanaryPool, rounds: Sequence[Sequence[int]], num_rounds: int
) -> None:
    """Writes a log's canaries.csv; the file appears whole.

    Args:
      folder: The folder of the log.
      pool: The canaries.
      rounds: The rounds of each canary, included or not, from 1.
      num_rounds: The number of rounds that there is room for.

    Raises:
      InputError: There are rounds of more or fewer canaries, or a round is out of range.
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
    counted_from_0 = [[number - 1 for number in own] for own in rounds]
    write_text(folder.canaries, canaries_text(pool.included, counted_from_0))
