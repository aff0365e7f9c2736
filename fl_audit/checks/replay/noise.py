"""The noise of a replayed round, from releases that differ only in noise.

Clients' updates cancel in the differences. In each of the model's variables, the squared norm of a
difference over the variance of its coordinates is chi-square, so the tests are exact, whereas
checks of aggregates can only use bounds.

Correlated noise should be C^-1 z, where C is the accounted matrix and z independent noise. The
rounds that follow one state are computed twice, with different randomness. Updates and the state's
record of earlier noise are the same in both and cancel: the differences are rows of C^-1 (z - z'),
which whitening turns into independent Gaussian rows. Again the tests are exact, and detect a wrong
matrix for any number of clients.
"""

import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from fl_audit.accounting.release import Correlation
from fl_audit.accounting.toeplitz import Toeplitz
from fl_audit.array_types import FloatArray
from fl_audit.checks.check import FALSE_ALARM, Check, compared, failed, inconclusive
from fl_audit.checks.noise_bounds import QUANTILE, strongest_autocorrelation
from fl_audit.checks.replay.changes import Ruler, grid_step, half_precision
from fl_audit.checks.replay.trial_rounds import Answer, Trial, TrialRounds, Trials
from fl_audit.checks.whitening import Whitening, fresh_share

_FEWEST, _MOST = 8, 32
"""The least and the largest number of rounds that `num_stream_rounds` asks for."""

_MOST_OF_STREAMS = 1 << 25
"""The largest number of values in all differences of rounds."""

_SEEDS = (1_000_003, 2_000_003)
"""The first seeds of the two computations, far from the seeds of other questions."""

NAME = "noise_rounds"
EXPECTED = "after whitening by the accounted matrix, noise is independent between rounds"


def num_stream_rounds(correlation: Correlation, rounds_before: int, dim: int) -> int:
    """The number of rounds whose noise is compared.

    It is twice the number of bands, or of rounds in a tree, but at least 8 and at most 32; fewer if
    fewer rounds of the training remain, or fit in memory.
    """
    bands = correlation.bands if isinstance(correlation, Toeplitz) else correlation.period
    wanted = min(max(_FEWEST, 2 * bands), _MOST, correlation.num_rounds - rounds_before)
    return max(0, min(wanted, _MOST_OF_STREAMS // dim))


def stream_finding(
    rounds: TrialRounds,
    starts: tuple[object, object],
    few: Sequence[FloatArray],
    *,
    correlation: Correlation,
    stddev: float,
    rounds_before: int,
    touched: FloatArray,
) -> Check:
    """Whether the noise of consecutive rounds is correlated as accounted.

    Args:
      starts: The states from which the two computations start: the same one twice, or two with
        different randomness.
      touched: Whether any client changes a variable, of shape (variables,); a variable that neither
        clients nor noise change is frozen.
    """
    number = num_stream_rounds(correlation, rounds_before, rounds.dim)
    if number < 2:
        return inconclusive(NAME, EXPECTED, "fewer than two rounds can be compared")
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
        return failed(NAME, EXPECTED, "the same noise, or none, under different randomness")
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
    """Independent standard normal rows, from differences in standard deviations of z - z'.

    A Toeplitz matrix is the same from any round on. A tree is whitened from its first round; the
    differences in rounds before the replayed one are zero.
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


def _judged(white: FloatArray, sizes: Sequence[int]) -> Check:
    """The finding on rows that should be independent and standard normal, of shape (rounds, dim).

    The squared norms of a round, and of a variable over all rounds, are chi-square. The product of
    a row with the direction of an earlier one is standard normal given that one.
    """
    from scipy import stats  # imported here: it takes half a second

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
    detectable = detectable_mean(tests, dim)
    words = (
        f"norm {ratio:.3g} × expected in {place}, correlation "
        f"{normal[pair] / math.sqrt(dim):.2g} between rounds {earlier[pair] + 1} and "
        f"{later[pair] + 1} of {number}; a correlation of {detectable:.2g} would have been detected"
    )
    variable = worst - number + 1 if worst >= number and tails.min() < products.min() else None
    return compared(NAME, EXPECTED, words, log_p=log_p, variable=variable, ratio=ratio)


def detectable_mean(tests: int, count: int) -> float:
    """The mean of `count` normal values, in standard deviations, that fails with probability 95 %.

    `tests` is the number of tests, with one for each sign.
    """
    from scipy import stats  # imported here: it takes half a second

    return float(stats.norm.isf(FALSE_ALARM / tests) + QUANTILE) / math.sqrt(count)


_ENOUGH, _ENOUGH_OF_VARIABLE = 4096, 64
"""The wanted number of noise values in the whole model, and in its smallest variable."""

_MOST_NUMBERS = 1 << 24
"""The largest number of values in all releases under different seeds."""

_MOST_VALUES = 1 << 14
"""The number of coordinates whose values are compared."""

_LIKELIEST_VALUE = 2.0**-20
"""A bound on the probability of any single float32 value under a normal distribution."""


@dataclass(frozen=True, eq=False)
class NoisyRounds:
    """Releases of one round under different seeds."""

    words: str  # the round, to follow "in"
    releases: FloatArray  # the releases, of shape (seeds, dim), two seeds at least
    stddev: float  # the promised standard deviation of the noise on a coordinate, positive


def num_seeds(sizes: Sequence[int]) -> int:
    """The number of seeds that detect noise 10 % below the promise in the whole model.

    That takes about 4,000 values of noise. Up to 9 seeds are used to have 64 values in the smallest
    variable; memory may limit the number of seeds, to 2 at the least.
    """
    dim, smallest = sum(sizes), min(size for size in sizes if size)
    wanted = 1 + max(-(-_ENOUGH // dim), min(-(-_ENOUGH_OF_VARIABLE // smallest), 8))
    return max(2, min(wanted, _MOST_NUMBERS // dim))


def length_finding(
    name: str,
    expected: str,
    rounds: Sequence[NoisyRounds],
    sizes: Sequence[int],
    *,
    may_be_longer: bool,
) -> Check:
    """Whether noise has the expected norm in every variable, by the chi-square distribution.

    The squared distance of n releases from their mean is chi-square with (n - 1) dim degrees of
    freedom. `sizes` omits variables that neither noise nor clients change. With `may_be_longer`
    only noise that is too short fails.
    """
    from scipy import stats  # imported here: it takes half a second

    widths = np.array([*sizes, sum(sizes)], np.float64)
    sides = 1 if may_be_longer else 2
    tests = sides * len(widths) * len(rounds)
    dof = np.array([(len(noisy.releases) - 1) * widths for noisy in rounds])
    squared = np.array([_squared(noisy, sizes) for noisy in rounds])
    tail = stats.chi2.logcdf(squared, dof)
    if not may_be_longer:
        tail = np.minimum(tail, stats.chi2.logsf(squared, dof))
    log_p = np.where(np.isfinite(squared), tail, -np.inf) + math.log(tests)
    group, at = divmod(int(np.argmin(log_p)), len(widths))
    ratio = math.sqrt(squared[group, at] / dof[group, at])
    is_whole = at == len(widths) - 1
    low, high = stats.chi2.ppf(FALSE_ALARM / tests, dof[0]), stats.chi2.ppf(0.95, dof[0])
    detectable = np.sqrt(low / high)
    measured = f"norm {ratio:.3g} × expected"
    measured += "" if is_whole else f" in variable {at + 1}"
    measured += "" if len(rounds) == 1 else f", in {rounds[group].words}"
    if not squared.any():
        measured = "the same noise, or none, under another seed"
    measured += f"; less than {detectable[-1]:.2g} × expected would have been detected"
    if len(sizes) > 1:
        measured += f", or less than {detectable[:-1].min():.2g} × in one variable"
    return compared(
        name,
        expected,
        measured,
        log_p=min(0.0, float(log_p[group, at])),
        variable=None if is_whole else at + 1,
        ratio=ratio,
        detectable_ratio=float(detectable[-1]),
    )


def _squared(rounds: NoisyRounds, sizes: Sequence[int]) -> FloatArray:
    """The squared distances from the mean, of each variable and the whole, over the variance."""
    normal = (rounds.releases - rounds.releases.mean(axis=0)) / rounds.stddev
    by_coordinate = np.einsum("sd,sd->d", normal, normal)
    parts = [float(part.sum()) for part in np.split(by_coordinate, np.cumsum(sizes)[:-1])]
    return np.array([*parts, sum(parts)])


def echo_finding(difference: FloatArray, stddev: float) -> Check:
    """Whether a part of the noise repeats another, in the difference of two releases."""
    normal = difference / (math.sqrt(2) * stddev)
    strongest = strongest_autocorrelation(normal.astype(np.float32), 1.0, 0.0)
    expected = "no stretch of the noise repeats another"
    if strongest is None:
        return compared("noise_echo", expected, "nothing to compare", ratio=0.0)
    where = f"at lag {strongest.lag}" if strongest.lag else "in reversed order"
    return compared(
        "noise_echo",
        expected,
        f"correlation {strongest.correlation:.3g} {where}",
        log_p=strongest.log_p,
        ratio=strongest.correlation,
    )


def resolution_finding(noise: FloatArray, release: FloatArray) -> Check:
    """Whether values of the noise repeat no more often than in float32, up to chance.

    A new value equals one of n earlier values with probability at most n times the likeliest
    value's, so the number of repetitions is stochastically at most binomial. If the release is
    rounded like the noise, the low digits show nothing.
    """
    from scipy import stats  # imported here: it takes half a second

    name, expected = "noise_resolution", "noise has the resolution of the sum to which it is added"
    values = noise.ravel()[:_MOST_VALUES]
    repeated = len(values) - len(np.unique(values))
    chance = len(values) * _LIKELIEST_VALUE
    log_p = float(stats.binom.logsf(repeated - 1, len(values), chance)) if repeated else 0.0
    share = repeated / max(1, len(values))
    words = f"{repeated} of {len(values)} numbers repeat earlier ones"
    if log_p < math.log(FALSE_ALARM) and _is_as_coarse(release, values):
        words, log_p = f"{words}, and releases with clients are rounded in the same way", 0.0
    return compared(name, expected, words, log_p=log_p, ratio=share)


def _is_as_coarse(release: FloatArray, noise: FloatArray) -> bool:
    """Whether a release is in half precision, or on a grid as coarse as the noise's."""
    if half_precision(release):
        return True
    for epsilon in (2.0**-23, 2.0**-46):  # for grids of float32, and finer ones of float64
        error = epsilon * float(np.abs(noise).max())
        step, of_noise = grid_step(release, error), grid_step(noise, error)
        if step is not None and of_noise is not None:
            return step > 0.99 * of_noise
    return False


def shows_noise(releases: FloatArray, touched: FloatArray, sizes: Sequence[int]) -> FloatArray:
    """Which variables noise or clients change, of shape (variables,); all if none changes."""
    parts = np.split(np.ptp(releases, axis=0), np.cumsum(sizes)[:-1])
    shows = np.array([part.any() for part in parts]) | touched
    return np.asarray(shows if shows.any() else ~shows)


# The questions about noise: in the round under many seeds, and in the next round.


@dataclass(frozen=True, eq=False)
class NoiseQuestions:
    """The questions about noise.

    Attributes:
      without: A function that returns a trial's cohort without the client to leave out.
      begun: Two first states with different randomness, for a server whose state determines future
        noise; None for a server that draws noise in each round.
    """

    rounds: TrialRounds
    trials: Trials
    recorded: Answer
    ruler: Ruler
    without: Callable[[Trial], list[FloatArray]]
    begun: tuple[Any, Any] | None = None

    def findings(self, touched: FloatArray) -> Iterator[Check]:
        """The findings on promised noise; `touched` marks variables changed by clients."""
        expected = "another seed gives noise of the expected norm in every variable"
        promise = self.trials.promise
        stddev = promise.new_noise()
        if stddev is None or promise.noise_stddev is None:
            yield inconclusive("noise_length", expected, "no fresh noise is promised")
            return
        resolution = float(np.finfo(np.float32).eps) * float(np.linalg.norm(self.recorded.release))
        if not resolution < stddev < np.inf:
            return
        if promise.correlation is not None and self.recorded.state is not None:
            state = self.rounds.state
            yield stream_finding(
                self.rounds,
                self.begun or (state, state),
                self.trials.few,
                correlation=promise.correlation,
                stddev=promise.noise_stddev,
                rounds_before=promise.rounds_before if self.begun is None else 0,
                touched=touched,
            )
        if self.begun is None:
            yield from self._round_findings(expected, stddev, touched)
        else:
            yield from self._echo_of_two_starts(self.begun, stddev)

    def _echo_of_two_starts(self, begun: tuple[Any, Any], stddev: float) -> Iterator[Check]:
        """Whether noise repeats itself in a round, from two rounds that differ in noise alone."""
        first, second = (self.rounds.go_on(state, self.trials.few, 1).release for state in begun)
        difference = first - second
        if np.isfinite(difference).all() and difference.any():
            yield echo_finding(difference[difference != 0], stddev)

    def _round_findings(self, expected: str, stddev: float, touched: FloatArray) -> Iterator[Check]:
        """The findings on a round under many seeds, and on the next round."""
        seeds = range(1, num_seeds(self.rounds.sizes))
        releases = np.array(
            [self.rounds.run(self.trials.few, seed).release for seed in (0, *seeds)]
        )
        other = self.rounds.run(self.trials.vectors, 1).release
        shows = shows_noise(releases, touched, self.rounds.sizes)
        coordinates = np.repeat(shows, self.rounds.sizes)
        releases = releases[:, coordinates]
        recorded = np.array([self.recorded.release, other])[:, coordinates]
        sizes = list(itertools.compress(self.rounds.sizes, shows))
        groups = (
            NoisyRounds("the smallest round", releases, stddev),
            NoisyRounds("the recorded round", recorded, stddev),
        )
        yield length_finding("noise_length", expected, groups, sizes, may_be_longer=False)
        difference = recorded[0] - recorded[1]
        if np.isfinite(difference).all() and difference.any():
            yield echo_finding(difference, stddev)
        if not self.trials.few:
            yield resolution_finding(releases, recorded[0])
        next_stddev = self.trials.promise.new_noise(later=1)
        if self.recorded.state is not None and next_stddev is not None:
            yield self._next_noise(coordinates, sizes, next_stddev)

    def _next_noise(self, coordinates: FloatArray, sizes: list[int], stddev: float) -> Check:
        """Whether the next round's noise is new, and in proportion to a client's effect there."""
        name, expected = "noise_next", "the next round draws new noise, of the norm expected there"
        # An adaptive clip norm is larger after long updates.
        longer = self.rounds.run([20 * vector for vector in self.trials.vectors]).state
        most = max(self.trials.promise.sensitivity, self._longest_after(None))
        states = (self.recorded.state, longer)
        share, state = max(
            ((self._longest_after(state) / most / 1.001, state) for state in states),
            key=lambda pair: pair[0],
        )
        if share < 1e-3:
            return inconclusive(name, expected, "no client changes the next round")
        seeds = range(2, 2 + num_seeds(sizes))
        after = [
            self.rounds.go_on(state, self.trials.few, seed).release[coordinates] for seed in seeds
        ]
        rounds = NoisyRounds("the next round", np.array(after), share * stddev)
        return length_finding(name, expected, [rounds], sizes, may_be_longer=True)

    def _longest_after(self, state: Any) -> float:
        """The largest effect of a client on a round from `state`; None for the replayed round."""
        start = self.rounds.state if state is None else state
        lengths = [0.0]
        for trial in itertools.islice(self.trials.alone(), 1, 4, 2):  # 1.2 and 10 clip norms
            alone = self.rounds.go_on(start, trial.cohort, 2)
            none = self.rounds.go_on(start, self.without(trial), 2)
            magnitude = float(np.linalg.norm(alone.release))
            length = float(np.linalg.norm(alone.release - none.release))
            lengths.append(length - self.ruler.rounding(magnitude))
        return max(lengths)
