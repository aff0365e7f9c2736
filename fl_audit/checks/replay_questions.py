"""The questions of a replay: what one client changes, what the state keeps, and what the noise is.

`replay` asks them of rounds that can be repeated: with the same randomness the noise of two rounds
cancels, and what is left is what the changed thing does.
"""

import itertools
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from fl_audit.array_types import FloatArray
from fl_audit.checks.aggregates import FALSE_ALARM, log_p_autocorrelation, strongest_autocorrelation
from fl_audit.checks.replay_streams import stream_finding
from fl_audit.checks.trial_rounds import (
    Answer,
    Finding,
    Promise,
    Trial,
    TrialRounds,
    Trials,
    failed,
    most_of,
    untold,
)
from fl_audit.errors import InputError

# The noise of a round by itself: releases that have all but it in common.
#
# Nothing of the clients' updates is left in their differences, so that the tests are exact where
# the checks of aggregates can only be bounds: the squared length of a variable is chi-square.


_ENOUGH, _ENOUGH_OF_VARIABLE = 4096, 64
"""The numbers of the whole model, and of its smallest variable, that noise is looked at in."""

_MOST_NUMBERS = 1 << 24
"""The number of numbers in all releases that differ in their seed."""

_MOST_VALUES = 1 << 14
"""The number of coordinates whose values are compared with one another."""

_LIKELIEST_VALUE = 2.0**-20
"""A bound on the probability of the likeliest number of a normal law in float32."""


@dataclass(frozen=True, eq=False)
class NoisyRounds:
    """Releases of one round that differ in their seed alone.

    Attributes:
      words: Which round it is, to follow "in".
      releases: The releases, of shape (seeds, dim), two seeds at least.
      stddev: The promised standard deviation of the noise on a coordinate, positive.
    """

    words: str
    releases: FloatArray
    stddev: float


def num_seeds(sizes: Sequence[int]) -> int:
    """The number of seeds with which noise that is 10 % short is seen, where few are enough.

    That takes some 4,000 numbers in the whole model; a small variable gets 64, at up to 9 seeds.
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
) -> Finding:
    """Whether noise is as long as promised in every variable, by the chi-square law.

    The squared distance of several releases from their mean is chi-square with as many degrees of
    freedom as there are numbers in all but one of them.

    Args:
      name: The name of the finding.
      expected: What is promised, in words.
      rounds: The rounds that are looked at.
      sizes: The sizes of the model's variables; a variable that noise and clients leave alone is
        not among them.
      may_be_longer: Whether only noise that is too short fails.
    """
    from scipy import stats  # here, for it takes half a second

    widths = np.array([*sizes, sum(sizes)], np.float64)
    sides = 1 if may_be_longer else 2
    tests = sides * len(widths) * len(rounds)
    dof = np.array([(len(one.releases) - 1) * widths for one in rounds])
    squared = np.array([_squared(one, sizes) for one in rounds])
    tail = stats.chi2.logcdf(squared, dof)
    if not may_be_longer:
        tail = np.minimum(tail, stats.chi2.logsf(squared, dof))
    log_p = np.where(np.isfinite(squared), tail, -np.inf) + math.log(tests)
    group, at = divmod(int(np.argmin(log_p)), len(widths))
    ratio = math.sqrt(squared[group, at] / dof[group, at])
    is_whole = at == len(widths) - 1
    low, high = stats.chi2.ppf(FALSE_ALARM / tests, dof[0]), stats.chi2.ppf(0.95, dof[0])
    seen = np.sqrt(low / high)
    measured = f"{ratio:.3g} times as long as promised"
    measured += "" if is_whole else f" in variable {at + 1}"
    measured += "" if len(rounds) == 1 else f", in {rounds[group].words}"
    if not squared.any():
        measured = "the same noise, or none, under another seed"
    measured += f"; less than {seen[-1]:.2g} of it would have been seen"
    if len(sizes) > 1:
        measured += f", in a variable less than {seen[:-1].min():.2g}"
    return Finding(
        name,
        expected,
        measured,
        min(0.0, float(log_p[group, at])),
        None if is_whole else at + 1,
        ratio,
        detectable_ratio=float(seen[-1]),
    )


def _squared(rounds: NoisyRounds, sizes: Sequence[int]) -> FloatArray:
    """The squared distances from the mean, of each variable and the whole, over the variance."""
    normal = (rounds.releases - rounds.releases.mean(axis=0)) / rounds.stddev
    by_coordinate = np.einsum("sd,sd->d", normal, normal)
    parts = [float(part.sum()) for part in np.split(by_coordinate, np.cumsum(sizes)[:-1])]
    return np.array([*parts, sum(parts)])


def echo_finding(difference: FloatArray, stddev: float) -> Finding:
    """Whether a stretch of the noise repeats another.

    Args:
      difference: The difference of two releases that differ in their seed alone, of shape (dim,).
      stddev: The promised standard deviation of the noise on a coordinate of a release.
    """
    normal = difference / (math.sqrt(2) * stddev)
    strongest = strongest_autocorrelation(normal.astype(np.float32), 1.0, 0.0)
    expected = "no stretch of the noise repeats another"
    if strongest is None:
        return Finding("noise_echo", expected, "nothing to look at", 0.0, None, 0.0)
    pairs = np.array(float(strongest.num_pairs))
    log_p = float(log_p_autocorrelation(np.array(strongest.product), pairs, 0.0))
    return Finding(
        "noise_echo",
        expected,
        f"correlation {strongest.product / strongest.num_pairs:.3g} at {strongest.lag} coordinates",
        min(0.0, log_p + math.log(strongest.num_lags)),
        None,
        strongest.product / strongest.num_pairs,
    )


def resolution_finding(noise: FloatArray, release: FloatArray) -> Finding:
    """Whether noise by itself has as many different values as float32 gives it, or more.

    A new value is one of n earlier ones with probability at most n times that of the likeliest
    value; the number of repetitions is therefore at most binomial. Where the sum or the release is
    rounded as the noise is, its low digits show nothing.

    Args:
      noise: Releases of a round without clients, of shape (seeds, dim).
      release: One with clients, of shape (dim,).
    """
    from scipy import stats  # here, for it takes half a second

    name, expected = "noise_resolution", "noise has the resolution of the sum that it is added to"
    values = noise.ravel()[:_MOST_VALUES]
    repeated = len(values) - len(np.unique(values))
    chance = len(values) * _LIKELIEST_VALUE
    log_p = float(stats.binom.logsf(repeated - 1, len(values), chance)) if repeated else 0.0
    share = repeated / max(1, len(values))
    words = f"{repeated} of {len(values)} numbers are not new"
    if log_p < math.log(FALSE_ALARM) and _is_as_coarse(release, values):
        words, log_p = f"{words}; releases with clients are rounded alike", 0.0
    return Finding(name, expected, words, log_p, None, share)


def _is_as_coarse(release: FloatArray, noise: FloatArray) -> bool:
    """Whether a release is in half precision, or on a grid as coarse as the noise's."""
    if half_precision(release):
        return True
    for epsilon in (2.0**-23, 2.0**-46):  # of float32, and finer grids of float64
        error = epsilon * float(np.abs(noise).max())
        step, of_noise = grid_step(release, error), grid_step(noise, error)
        if step is not None and of_noise is not None:
            return step > 0.99 * of_noise
    return False


def half_precision(numbers: FloatArray) -> float:
    """The relative error of numbers that are all float16, or else all bfloat16; 0 for others."""
    with np.errstate(over="ignore"):
        if np.array_equal(numbers, numbers.astype(np.float16)):
            return 2.0**-10
        single = numbers.astype(np.float32)
    cut = (single.view(np.uint32) & np.uint32(0xFFFF0000)).view(np.float32)
    return 2.0**-7 if np.array_equal(numbers, cut) else 0.0


def grid_step(vector: FloatArray, error: float) -> float | None:
    """The step of the grid on which all numbers of a vector lie; None where there is none.

    Args:
      vector: The numbers, of shape (dim,).
      error: The error of a number.
    """
    found = np.unique(np.append(np.abs(vector), 0.0))
    gaps = np.diff(found)
    gaps = gaps[gaps > 8 * error]
    if len(vector) < 8 or not len(gaps):
        return None
    step = float(gaps.min())
    if step < 64 * error or found[-1] > 1e9 * step:
        return None
    multiples = np.rint(found / step)
    step = float(found @ multiples / (multiples @ multiples))
    off = np.abs(found - np.rint(found / step) * step)
    return step if off.max() <= max(8 * error, 1e-6 * step) else None


# What one client changes in a release: at most the clip norm over the denominator.
#
# Two releases with the same noise are compared; their difference may be shorter than promised, and
# may be rounded to a grid as numbers of fixed point are. How the clients' parts come about is
# free.


_TOLERANCE = 1e-3
"""The share by which float32 may make a client's part longer."""

_MOST_NAMED = 3
"""The number of clients that words name at most."""


@dataclass(frozen=True, eq=False)
class Change:
    """What a release loses with a client.

    Attributes:
      trial: The round, and who is left out.
      vector: The release with the client less the one without, of shape (dim,).
      magnitude: The length of the releases, whose rounding a difference cannot undercut.
    """

    trial: Trial
    vector: FloatArray
    magnitude: float


@dataclass(frozen=True)
class _Judged:
    """A change against the promise.

    Attributes:
      outcome: `held`, `failed` or `could not tell`.
      ratio: The length of the change over the most that is promised.
      words: What was found beside the ratio; empty where nothing was.
      variable: The variable, from 1, in which most of it lies; None for the whole model.
    """

    outcome: str
    ratio: float
    words: str = ""
    variable: int | None = None


@dataclass(frozen=True, eq=False)
class Ruler:
    """The measure of differences between two releases of one mechanism.

    Attributes:
      sizes: The sizes of the model's variables.
      promise: What the mechanism promises.
      epsilon: The relative error of a number of a release.
    """

    sizes: Sequence[int]
    promise: Promise
    epsilon: float

    def lengths(self, vector: FloatArray) -> FloatArray:
        """The length of each variable, and last of the whole, of shape (variables + 1,)."""
        return np.array([np.linalg.norm(part) for part in (*self.parts(vector), vector)])

    def parts(self, vector: FloatArray) -> list[FloatArray]:
        """The variables of a vector."""
        return np.split(vector, np.cumsum(self.sizes)[:-1])

    def rounding(self, magnitude: float) -> float:
        """The length of an error that rounding makes in a difference of two releases."""
        return self.epsilon * magnitude

    def judge(self, change: Change) -> _Judged:
        """Compares what a client changes with the most that it may."""
        if not np.isfinite(change.vector).all():
            return _Judged("failed", math.inf, "numbers that are not finite")
        most = most_of(change.trial.cohort[change.trial.left], self.promise)
        length, rounding = float(np.linalg.norm(change.vector)), self.rounding(change.magnitude)
        ratio = length / most if most else math.inf if length > rounding else 0.0
        if length <= most * (1 + _TOLERANCE) + rounding:
            return _Judged("held", ratio)
        step = grid_step(change.vector, rounding / math.sqrt(len(change.vector)))
        if step is not None and self._is_rounded(change, most, step):
            grid = f"with its rounding to a grid of {step * self.promise.denominator:.3g}"
            return _Judged("held" if ratio <= 2 else "could not tell", ratio, grid)
        lengths = self.lengths(change.vector)
        at = int(np.argmax(lengths[:-1] / np.sqrt(self.sizes)))
        is_there = len(self.sizes) > 1 and lengths[at] >= 0.9 * lengths[-1]
        return _Judged("failed", ratio, self.explained(change, most), at + 1 if is_there else None)

    def _is_rounded(self, change: Change, most: float, step: float) -> bool:
        """Whether a client's part is short enough but for its rounding to neighbours on a grid.

        Rounding up or down at random is independent between coordinates and right on average. What
        lies along the client's own update is therefore its part, but for a normal number with a
        standard deviation below the step; what lies across is at most as long as such rounding.
        Where it is not the last that is left out, the others' numbers may be rounded anew.
        """
        trial = change.trial
        own = trial.cohort[trial.left]
        times = 1 if trial.left == len(trial.cohort) - 1 else len(trial.cohort)
        pairs = zip(self.parts(change.vector), self.parts(own), strict=True)
        along = math.hypot(*(part @ one / (np.linalg.norm(one) or 1.0) for part, one in pairs))
        across = math.sqrt(max(0.0, float(change.vector @ change.vector) - along**2))
        spread = step * math.sqrt(times)
        is_short = along <= most * (1 + _TOLERANCE) + 4 * spread * math.sqrt(len(self.sizes))
        return is_short and across <= spread * (math.sqrt(len(own) / 2) + 4)

    def explained(self, change: Change, most: float) -> str:
        """Who counts how often, where a change is a sum of updates; else nothing."""
        cohort = change.trial.cohort
        if len({id(client) for client in cohort}) < len(cohort):
            return ""  # copies of one update cannot be told apart
        counts, rest = _counts(change.vector, cohort)
        if rest > 0.01 * np.linalg.norm(change.vector):
            return ""
        share = counts / (most or 1.0)
        words = [f"client {i + 1} counts {share[i]:.3g} times" for i in [change.trial.left]]
        moved = [i for i in np.argsort(-np.abs(share)) if i != change.trial.left]
        moved = [i for i in moved if abs(share[i]) > 0.01][:_MOST_NAMED]
        return ", ".join([*words, *(f"client {i + 1} by {share[i]:+.3g} with it" for i in moved)])


def at_most(
    name: str,
    expected: str,
    trials: Iterable[Trial],
    change_of: Callable[[Trial], Change],
    ruler: Ruler,
) -> tuple[Finding, list[Change]]:
    """Looks at what one client changes in each of some rounds.

    Args:
      name: The name of the finding.
      expected: What is promised, in words.
      trials: The rounds.
      change_of: Computes a round with and without the client.
      ruler: The measure.

    Returns:
      The finding, and the changes that were seen.
    """
    judged: list[tuple[Trial, _Judged]] = []
    changes: list[Change] = []
    for trial in trials:
        try:
            changes.append(change_of(trial))
        except InputError:
            raise
        except Exception as error:  # whatever a server refuses
            words = f"{type(error).__name__}: {error}"
            judged.append((trial, _Judged("could not tell", 0.0, words)))
        else:
            judged.append((trial, ruler.judge(changes[-1])))
    return _worst(name, expected, judged), changes


def _worst(name: str, expected: str, judged: Sequence[tuple[Trial, _Judged]]) -> Finding:
    """The finding on all comparisons: one that failed, else one that was not told, else all."""
    for outcome in ("failed", "could not tell", "held"):
        of_kind = [pair for pair in judged if pair[1].outcome == outcome]
        if of_kind:
            break
    trial, worst = max(of_kind, key=lambda pair: pair[1].ratio)
    most = f"{worst.ratio:.3g} times what one client may change"
    extra = f" ({worst.words})" if worst.words else ""
    if outcome == "held":
        told = f"at most {most}{extra}, in {len(judged)} comparisons"
        return Finding(name, expected, told, 0.0, None, worst.ratio)
    if outcome == "could not tell":
        why = f"{trial.words}: {most if worst.ratio else 'the server refuses it'}{extra}"
        return untold(name, expected, why)
    place = "" if worst.variable is None else f", in variable {worst.variable}"
    words = f"{trial.words}: {most}{place}{extra}"
    return Finding(name, expected, words, -math.inf, worst.variable, worst.ratio)


def _counts(difference: FloatArray, clients: Sequence[FloatArray]) -> tuple[FloatArray, float]:
    """How much of a difference lies along each client's update, by least squares.

    Returns:
      The length of each client's part, negative where it points away from its update, and the
      length of what is no sum of the clients' updates.
    """
    norms = np.array([float(np.linalg.norm(client)) or 1.0 for client in clients])
    gram = np.array([[one @ other for other in clients] for one in clients])
    products = np.array([client @ difference for client in clients])
    scaled = np.linalg.lstsq(gram / np.outer(norms, norms), products / norms, rcond=1e-9)[0]
    rest = difference.copy()
    for weight, client in zip(scaled / norms, clients, strict=True):
        rest -= weight * client
    return scaled, float(np.linalg.norm(rest))


def _by_variable(
    change: FloatArray, clients: Sequence[FloatArray], ruler: Ruler
) -> tuple[FloatArray, float, str]:
    """The lengths of the clients' parts with a count for each variable, and what is left."""
    squared, rests, small = np.zeros(len(clients)), [], []
    of_clients = [ruler.parts(client) for client in clients]
    for variable, part in enumerate(ruler.parts(change)):
        if len(part) < 2 * len(clients):
            small.append(str(variable + 1))
            continue
        counts, rest = _counts(part, [parts[variable] for parts in of_clients])
        squared += counts**2
        rests.append(rest)
    if not rests:
        return squared, float(np.linalg.norm(change)), ""
    words = f"; not told apart in variables {', '.join(small)}, which are small" if small else ""
    return np.sqrt(squared), math.hypot(*rests), words


def every_client(change: FloatArray, clients: Sequence[FloatArray], ruler: Ruler) -> Finding:
    """Whether each client of a round counts at most once, by what the round is a sum of.

    Each variable is a sum of the clients' variables, where it has at least twice as many numbers as
    there are clients; else the whole is looked at alone.

    Args:
      change: The release of the round less that of a round without its clients, of shape (dim,).
      clients: The updates.
      ruler: The measure.
    """
    name, expected = "every_client", "every client counts at most once, within the clip norm"
    if len(change) < 2 * len(clients):
        return untold(name, expected, f"{len(change)} numbers cannot tell {len(clients)} clients")
    most = np.array([most_of(client, ruler.promise) for client in clients])
    whole, rest = _counts(change, clients)
    tolerance = 0.01 * most.max(initial=0.0) * math.sqrt(len(clients))
    tolerance += ruler.rounding(float(np.linalg.norm(change)))
    left_out = ""
    if rest > tolerance:
        whole, rest, left_out = _by_variable(change, clients, ruler)
    if rest > max(tolerance, 0.1 * float(np.linalg.norm(change))):
        share = rest / float(np.linalg.norm(change))
        why = f"{100 * share:.2g} % of the release is no sum of scaled updates"
        return untold(name, expected, f"{why}, so that the clients cannot be told apart")
    # What rounding leaves across the updates lies along each of them by chance, too.
    allowed = 1.01 * most + 6 * rest / math.sqrt(len(change)) * math.sqrt(len(ruler.sizes))
    ratio = np.abs(whole) / np.where(most > 0, most, ruler.promise.denominator**-1)
    wrong = np.flatnonzero(np.abs(whole) > allowed)
    if not len(wrong):
        held = f"at most {ratio.max():.3g} times what one client may, of {len(clients)}{left_out}"
        return Finding(name, expected, held, 0.0, None, float(ratio.max()))
    shown = [f"client {i + 1} {ratio[i]:.3g} times" for i in wrong[:_MOST_NAMED]]
    more = f" and {len(wrong) - _MOST_NAMED} more" if len(wrong) > _MOST_NAMED else ""
    words = f"{len(wrong)} of {len(clients)} clients count more than they may: "
    return Finding(
        name, expected, words + ", ".join(shown) + more, -math.inf, None, float(ratio[wrong].max())
    )


# What a round leaves in the state: the next rounds may release nothing more of its clients.


_ROUNDS = 2
"""The number of rounds that follow: what is kept for one round shows in the second."""


def memory_finding(
    rounds: TrialRounds,
    answers: Sequence[Answer],
    few: Sequence[FloatArray],
    ruler: Ruler,
) -> Finding:
    """Compares rounds of the smallest cohort after the recorded one and after one without clients.

    Noise may be longer or shorter then, as a clip norm that follows the updates makes it. What the
    clients have left beside that is released again; that is no loss where their own round's noise
    comes with it, as in momentum of noised sums.

    Args:
      rounds: The rounds of the server.
      answers: The round with all clients, the one without them with the same noise, and that with
        other noise.
      few: The smallest cohort.
      ruler: The measure.
    """
    name = "memory"
    expected = "later rounds release nothing more of a client, but together with its round's noise"
    along_noise = 0.0
    for after in range(1, _ROUNDS + 1):
        later = [_Later(rounds, answer, few, 2 * after) for answer in answers]
        if not all(np.isfinite(one.release).all() for one in later):
            return failed(name, expected, f"{_when(after)}: numbers that are not finite")
        rounding = 3 * ruler.rounding(float(np.linalg.norm(later[0].release)))
        kept, sums = later[0].beside(later[1], answers[0], answers[1])
        of_noise, noise = later[2].beside(later[1], answers[2], answers[1])
        answers = [one.answer for one in later]
        if np.linalg.norm(kept) <= rounding:
            continue
        square = float(noise @ noise)
        weight = float(of_noise @ noise) / square if square else 0.0
        bare = float(np.linalg.norm(kept - weight * sums))
        unexplained = float(np.linalg.norm(of_noise - weight * noise))
        if bare <= rounding + 1e-3 * float(np.linalg.norm(kept)):
            along_noise = weight
        elif unexplained <= rounding + 1e-3 * float(np.linalg.norm(of_noise)):
            most = bare / ruler.promise.sensitivity
            words = f"{_when(after)} a change of {most:.3g} times what one client may change"
            return failed(name, expected, words)
        else:
            why = f"{_when(after)} the round's noise comes back, but not as a multiple of itself"
            return untold(name, expected, why)
    words = f"so, in {_ROUNDS} rounds that follow"
    if along_noise:
        words = f"{words}: what comes back has its noise with it, last {along_noise:.3g} times"
    return Finding(name, expected, words, 0.0, None, 1.0)


class _Later:
    """A round of the smallest cohort that follows another, under two seeds."""

    def __init__(
        self, rounds: TrialRounds, before: Answer, few: Sequence[FloatArray], seed: int
    ) -> None:
        self.answer = rounds.go_on(before.state, few, seed)
        self.release = self.answer.release
        self._under_other_seed = lambda: rounds.go_on(before.state, few, seed + 1).release

    def beside(
        self, quiet: "_Later", before: Answer, before_quiet: Answer
    ) -> tuple[FloatArray, FloatArray]:
        """What it has more than a quiet round, and what the rounds before it had more.

        Noise may be a multiple of the quiet round's, as a clip norm that follows the updates makes
        it. What the noise of two seeds has grown by is taken off both.

        Args:
          quiet: The round that follows a quiet one, under the same seeds.
          before: The round that this one follows.
          before_quiet: The quiet one.
        """
        more, last = self.release - quiet.release, before.release - before_quiet.release
        if not more.any():
            return more, last
        other = quiet._under_other_seed()
        noise = quiet.release - other
        square = float(noise @ noise)
        of_other = self._under_other_seed() - other
        grown = float((more - of_other) @ noise) / square if square else 0.0
        return more - grown * quiet.release, last - grown * before_quiet.release


def _when(rounds: int) -> str:
    return "in the next round" if rounds == 1 else f"{rounds} rounds later"


# What a replay asks of the noise: of the round under many seeds, and of the round after it.


@dataclass(frozen=True, eq=False)
class NoiseQuestions:
    """The questions about noise.

    Attributes:
      rounds: The rounds of the server.
      trials: The maker of cohorts.
      recorded: The round as it is.
      ruler: The measure.
      without: The cohort of a trial without its client.
      begun: Two first states with other randomness, of a server whose state fixes noise to come;
        None of one that draws noise in its round.
    """

    rounds: TrialRounds
    trials: Trials
    recorded: Answer
    ruler: Ruler
    without: Callable[[Trial], list[FloatArray]]
    begun: tuple[Any, Any] | None = None

    def findings(self, touched: FloatArray) -> Iterator[Finding]:
        """The findings on noise, where the promise is about it.

        Args:
          touched: Whether any client changes a variable, of shape (variables,).
        """
        expected = "another seed gives noise as long as promised in every variable"
        promise = self.trials.promise
        stddev = promise.new_noise()
        if stddev is None or promise.noise_stddev is None:
            yield untold("noise_length", expected, "no law of fresh noise is promised")
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
            yield from self._of_one_round(expected, stddev, touched)

    def _of_one_round(self, expected: str, stddev: float, touched: FloatArray) -> Iterator[Finding]:
        """The findings on a round under many seeds, and on the round after it."""
        seeds = range(1, num_seeds(self.rounds.sizes))
        releases = np.array(
            [self.rounds.run(self.trials.few, seed).release for seed in (0, *seeds)]
        )
        other = self.rounds.run(self.trials.vectors, 1).release
        shows = self._shows_noise(releases, touched)
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

    def _shows_noise(self, releases: FloatArray, touched: FloatArray) -> FloatArray:
        """Which variables have noise or clients: a frozen one has neither."""
        parts = np.split(np.ptp(releases, axis=0), np.cumsum(self.rounds.sizes)[:-1])
        shows = np.array([part.any() for part in parts]) | touched
        return np.asarray(shows if shows.any() else ~shows)

    def _next_noise(self, coordinates: FloatArray, sizes: list[int], stddev: float) -> Finding:
        """Whether the next round's noise is new, for as much as a client counts there."""
        name, expected = "noise_next", "the next round draws new noise, as long as promised there"
        # A clip norm that follows the updates is longer after long ones.
        longer = self.rounds.run([20 * vector for vector in self.trials.vectors]).state
        most = max(self.trials.promise.sensitivity, self._longest_after(None))
        states = (self.recorded.state, longer)
        share, state = max(
            ((self._longest_after(state) / most / 1.001, state) for state in states),
            key=lambda pair: pair[0],
        )
        if share < 1e-3:
            return untold(name, expected, "no client counts in the next round")
        seeds = range(2, 2 + num_seeds(sizes))
        after = [
            self.rounds.go_on(state, self.trials.few, seed).release[coordinates] for seed in seeds
        ]
        rounds = NoisyRounds("the next round", np.array(after), share * stddev)
        return length_finding(name, expected, [rounds], sizes, may_be_longer=True)

    def _longest_after(self, state: Any) -> float:
        """The most that a client alone changes in a round from a state; None for the first one."""
        start = self.rounds.state if state is None else state
        found = [0.0]
        for trial in itertools.islice(self.trials.alone(), 1, 4, 2):  # 1.2 and 10 clip norms
            one = self.rounds.go_on(start, trial.cohort, 2)
            none = self.rounds.go_on(start, self.without(trial), 2)
            magnitude = float(np.linalg.norm(one.release))
            length = float(np.linalg.norm(one.release - none.release))
            found.append(length - self.ruler.rounding(magnitude))
        return max(found)
