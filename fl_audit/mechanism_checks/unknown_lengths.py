"""What becomes of canaries where no client's length is known: do they stand out, and evenly?"""

import math

import numpy as np
from scipy import special

from fl_audit.mechanism_checks.presentations import (
    ALARM,
    ARRIVAL_FALSE_ALARM,
    ARRIVED,
    LOST,
    Arrival,
    Coefficient,
    Presentations,
    coefficient,
)

_PROMISE = "the length of a client in each round (canary_length, or round_lengths.npy)"


def without_lengths(included: Presentations, excluded: Presentations) -> Arrival:
    """What became of them where no length is promised: whether they stand out, and evenly."""
    unknown = "what length the mechanism allows a client is not known"
    found = coefficient(included.as_cosines, 0)
    if found is None:
        return Arrival("cannot_tell", None, "no round of an included canary was seen")
    seen = f"in their rounds included canaries score {_deviations(found, included.dim)}"
    of_excluded = coefficient(excluded.as_cosines, 0)
    if of_excluded is not None and of_excluded.differs_by(0, 0, ALARM):
        reason = (
            f"{seen}, and excluded ones, which send nothing, "
            f"{_deviations(of_excluded, excluded.dim)}: the coins or the rounds are not those of "
            "the training"
        )
        return Arrival("not_arrived", None, reason, fault=reason)
    if found.ratio < -found.deviation(ALARM):
        reason = f"{seen}: the aggregate has the wrong sign; it must be how the model moves"
        return Arrival("not_arrived", None, reason, fault=reason)
    if found.ratio < found.deviation(ARRIVED):
        reason = f"{seen}, which chance does too, and {unknown}"
        return Arrival("cannot_tell", None, reason)
    if included.knows_tails and _is_uneven(included.first):
        fault = f"{seen}, but unevenly within rounds: some may be lost ({LOST})"
        return Arrival("cannot_tell", None, f"{fault}, and {unknown}", fault=fault)
    return Arrival("arrived", None, f"{seen} above chance; {unknown}", _PROMISE)


def _deviations(found: Coefficient, dim: int) -> str:
    root = math.sqrt(dim)
    return f"{root * found.ratio:.3g} ± {root * found.standard_error:.2g} standard deviations"


def _is_uneven(shown: Presentations) -> bool:
    """Whether canaries of a round differ by more than chance, at the level of alarms.

    All of them are of one length in a round, whatever it is, and of another in the next.
    """
    _, of_round, counts = np.unique(shown.rounds, return_inverse=True, return_counts=True)
    means = np.bincount(of_round, shown.cosines) / counts
    crowd = np.minimum((1 + shown.others) * means[of_round] ** 2, 1)
    squares = shown.dim * (shown.cosines - means[of_round]) ** 2 / (1 + crowd)
    freedom = len(shown) - len(counts)
    return freedom > 0 and bool(special.chdtrc(freedom, squares.sum()) < ARRIVAL_FALSE_ALARM)
