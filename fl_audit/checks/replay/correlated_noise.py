"""Replay of correlated noise: whether it is the accounted matrix applied to independent noise z.

The rounds from one state on are computed twice, with other randomness. What clients send and the
state's record of earlier noise are the same in both, so that they cancel: the differences are rows
of C^-1 (z - z'), which whitening turns into independent Gaussian rows again. So the tests are exact
where the checks of aggregates can only be bounds, and a wrong matrix shows however many clients
there are.
"""

import itertools
import math
from collections.abc import Sequence

import numpy as np

from fl_audit.accounting.release import Correlation
from fl_audit.accounting.toeplitz import Toeplitz
from fl_audit.array_types import FloatArray
from fl_audit.checks.check import FALSE_ALARM
from fl_audit.checks.replay.trial_rounds import Finding, TrialRounds, failed, inconclusive
from fl_audit.checks.whitening import Whitening, fresh_share

_FEWEST, _MOST = 8, 32
"""The least and largest number of rounds that are tested: twice a matrix's bands, if within."""

_MOST_NUMBERS = 1 << 25
"""The number of numbers in all differences of rounds."""

_SEEDS = (1_000_003, 2_000_003)
"""The first seeds of the two computations, away from those of other questions."""

_QUANTILE = 1.6449
"""The standard deviations below which a normal variable is with a probability of 0.95."""

NAME = "noise_rounds"
EXPECTED = "whitened by the accounted matrix, noise is independent from round to round"


def num_stream_rounds(correlation: Correlation, rounds_before: int, dim: int) -> int:
    """The number of rounds whose noise is compared with each other.

    Two bands or a tree's rounds, as far as training and memory have room for them; 0 for none.
    """
    bands = correlation.bands if isinstance(correlation, Toeplitz) else correlation.period
    wanted = min(max(_FEWEST, 2 * bands), _MOST, correlation.num_rounds - rounds_before)
    return max(0, min(wanted, _MOST_NUMBERS // dim))


def stream_finding(
    rounds: TrialRounds,
    starts: tuple[object, object],
    few: Sequence[FloatArray],
    *,
    correlation: Correlation,
    stddev: float,
    rounds_before: int,
    touched: FloatArray,
) -> Finding:
    """Whether the noise of consecutive rounds is correlated as accounted.

    Args:
      starts: The states from which the two computations start; the same, or two that began with
        other randomness.
      touched: Whether any client changes a variable, of shape (variables,); a variable that neither
        clients nor noise change is frozen.
    """
    number = num_stream_rounds(correlation, rounds_before, rounds.dim)
    if number < 2:
        return inconclusive(NAME, EXPECTED, "there are fewer than two rounds to look at")
    try:
        ways = [
            _releases(rounds, start, few, seed, number)
            for start, seed in zip(starts, _SEEDS, strict=True)
        ]
    except Exception as error:  # a server may refuse a round in any way
        return inconclusive(NAME, EXPECTED, f"{type(error).__name__}: {error}")
    differences = ways[0] - ways[1]
    if not np.isfinite(differences).all():
        return failed(NAME, EXPECTED, "numbers that are not finite")
    if not differences.any():
        return failed(NAME, EXPECTED, "the same noise, or none, under other randomness")
    parts = np.split(differences, np.cumsum(rounds.sizes)[:-1], axis=1)
    moves = np.array([part.any() for part in parts]) | touched
    units = differences[:, np.repeat(moves, rounds.sizes)] / (math.sqrt(2) * stddev)
    sizes = list(itertools.compress(rounds.sizes, moves))
    return _judged(_whitened(units, correlation, rounds_before), sizes)


def _releases(
    rounds: TrialRounds, state: object, few: Sequence[FloatArray], seed: int, number: int
) -> FloatArray:
    """The releases of consecutive rounds from a state on, of shape (number, dim)."""
    releases = np.zeros((number, rounds.dim))
    for index in range(number):
        answer = rounds.go_on(state, few, seed + index)
        releases[index], state = answer.release, answer.state
    return releases


def _whitened(units: FloatArray, correlation: Correlation, rounds_before: int) -> FloatArray:
    """Rows of independent standard normal numbers, from differences over the noise of z.

    A matrix is the same from any round on. Before these rounds, differences are zero, also within
    a tree's nodes.
    """
    first = 0 if isinstance(correlation, Toeplitz) else rounds_before
    whitening = Whitening.from_correlation(correlation)
    nothing = np.zeros(units.shape[1], np.float32)
    for index in range(first):
        whitening.whiten(index, nothing, 1.0)
    rows = [
        whitening.whiten(first + at, unit.astype(np.float32), 1.0)
        / fresh_share(correlation, first + at)
        for at, unit in enumerate(units)
    ]
    return np.array(rows, np.float64)


def _judged(white: FloatArray, sizes: Sequence[int]) -> Finding:
    """The finding on rows that should be independent and standard normal, of shape (rounds, dim).

    Squared norms are chi-square, of a round and of a variable over all rounds. The product of a row
    with the direction of an earlier one is standard normal given that one.
    """
    from scipy import stats  # here, for it takes half a second

    number, dim = white.shape
    gram = white @ white.T
    by_coordinate = np.split(np.square(white).sum(axis=0), np.cumsum(sizes)[:-1])
    squared = np.array([*gram.diagonal(), *(part.sum() for part in by_coordinate)])
    dof = np.array([*[dim] * number, *(number * size for size in sizes)], np.float64)
    tails = np.minimum(stats.chi2.logcdf(squared, dof), stats.chi2.logsf(squared, dof))
    later, earlier = np.tril_indices(number, -1)
    normal = gram[later, earlier] / np.sqrt(np.maximum(gram.diagonal()[earlier], 1e-300))
    products = stats.norm.logsf(np.abs(normal))
    tests = 2 * (len(tails) + len(products))
    log_p = min(0.0, float(min(tails.min(), products.min())) + math.log(tests))
    worst, pair = int(np.argmin(tails)), int(np.argmin(products))
    ratio = math.sqrt(squared[worst] / dof[worst])
    place = f"round {worst + 1}" if worst < number else f"variable {worst - number + 1}"
    detectable = (stats.norm.isf(FALSE_ALARM / tests) + _QUANTILE) / math.sqrt(dim)
    words = (
        f"norm {ratio:.3g} × expected in {place}, correlation "
        f"{normal[pair] / math.sqrt(dim):.2g} of rounds {earlier[pair] + 1} and {later[pair] + 1}, "
        f"of {number}; one of {detectable:.2g} would have been seen"
    )
    variable = worst - number + 1 if worst >= number and tails.min() < products.min() else None
    return Finding(NAME, EXPECTED, words, log_p, variable, ratio)
