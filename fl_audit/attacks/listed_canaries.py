"""A log's canaries.csv: which canaries were included, and each one's rounds."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy import special

from fl_audit.array_types import FloatArray, IndexArray
from fl_audit.attacks.own_rounds import OwnRounds
from fl_audit.canaries.pool import CanaryPool
from fl_audit.errors import InputError
from fl_audit.formats.folders import LogFolder
from fl_audit.formats.participation_files import canaries_text, read_canaries
from fl_audit.formats.text_files import write_text

_FALSE_REFUSAL = 1e-6
"""The probability of refusing rounds that were sampled for all canaries alike."""


@dataclass(frozen=True, eq=False)
class ListedCanaries:
    included: npt.NDArray[np.bool_]
    own_rounds: OwnRounds | None


def read_listed(folder: LogFolder, pool: CanaryPool) -> ListedCanaries:
    """Reads a log's canaries.csv; if there is none, inclusion follows from the pool's coins."""
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
    return ListedCanaries(included, OwnRounds(tuple(rounds)))


def _check_once_in_each(path: str, rounds: Sequence[IndexArray]) -> None:
    """Refuses a round that a canary is listed in twice."""
    for canary, own in enumerate(rounds):
        numbers, counts = np.unique(own, return_counts=True)
        if (counts > 1).any():
            twice = int(numbers[np.argmax(counts > 1)]) + 1
            raise InputError(
                f"{path}, canary_id '{canary}': round {twice} is listed twice; must be each once"
            )


def _check_independent_of_coins(
    path: str, included: npt.NDArray[np.bool_], rounds: Sequence[IndexArray]
) -> None:
    """Refuses a column of rounds that depends on the coins, such as empty ones for all excluded.

    Scores in rounds that only the included have would differ without any leak. Having rounds is
    independent of the coins if every canary's rounds were sampled before.
    """
    has_rounds = np.array([len(own) > 0 for own in rounds])
    among_included = np.sum(included & has_rounds)
    among_excluded = np.sum(~included & has_rounds)
    chance = hypergeometric_p_value(len(included), included.sum(), has_rounds.sum(), among_included)
    if chance < _FALSE_REFUSAL:
        raise InputError(
            f"{path}: {among_included} included canaries have rounds and {among_excluded} excluded "
            "ones: every canary must have the rounds that it takes part in if included; or leave "
            "out the column rounds"
        )


def hypergeometric_p_value(total: int, included: int, sampled: int, observed: int) -> float:
    """The two-sided p-value of `observed` included ones among `sampled` of `total` canaries.

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


def _log_choose(n: int, k: IndexArray | int) -> FloatArray:
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
