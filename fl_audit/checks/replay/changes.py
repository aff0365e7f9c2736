"""The effect of one client on a release: at most the clip norm over the denominator.

`replay` repeats a round with the same randomness, so the noise of two releases cancels, and their
difference is the effect of the change. The difference may be shorter than the promised bound, and
may be rounded to a grid, as with fixed-point numbers. Clients' parts may be computed in any way.
"""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from fl_audit.array_types import FloatArray
from fl_audit.checks.check import Check, compared, failed, inconclusive
from fl_audit.checks.replay.trial_rounds import Answer, Promise, Trial, TrialRounds, most_of
from fl_audit.errors import InputError

_TOLERANCE = 1e-3
"""The largest relative error of float32 in the norm of a client's part."""

_MOST_NAMED = 3
"""The largest number of clients named in a finding."""


@dataclass(frozen=True, eq=False)
class Change:
    """The difference between a release with a client and one without."""

    trial: Trial
    vector: FloatArray  # the release with the client less the one without, of shape (dim,)
    magnitude: float  # the larger norm of the two releases; sets the difference's rounding error


@dataclass(frozen=True)
class _Judged:
    """A change compared with the promise."""

    outcome: str  # `held`, `failed` or `could not tell`
    ratio: float  # the norm of the change over the largest norm that is promised
    words: str = ""  # words besides the ratio; may be empty
    # the variable, from 1, with most of the change; None for the whole model
    variable: int | None = None


@dataclass(frozen=True, eq=False)
class Ruler:
    """Measures differences between two releases of one mechanism.

    `epsilon` is the relative rounding error of values in a release.
    """

    sizes: Sequence[int]
    promise: Promise
    epsilon: float

    def lengths(self, vector: FloatArray) -> FloatArray:
        """The norm of each variable and, last, of the whole, of shape (variables + 1,)."""
        return np.array([np.linalg.norm(part) for part in (*self.parts(vector), vector)])

    def parts(self, vector: FloatArray) -> list[FloatArray]:
        """The variables of a vector."""
        return np.split(vector, np.cumsum(self.sizes)[:-1])

    def rounding(self, magnitude: float) -> float:
        """The norm of the rounding error in a difference of two releases."""
        return self.epsilon * magnitude

    def times(self, length: float) -> str:
        """The norm of a difference in words; without a clip norm, a client may change anything."""
        most = self.promise.sensitivity
        if math.isinf(most):
            return f"{length:.3g} in norm"
        return f"{length / most:.3g} times what one client may change"

    def judge(self, change: Change) -> _Judged:
        if not np.isfinite(change.vector).all():
            return _Judged("failed", math.inf, "numbers that are not finite")
        most = most_of(change.trial.cohort[change.trial.left], self.promise)
        length, rounding = float(np.linalg.norm(change.vector)), self.rounding(change.magnitude)
        ratio = length / most if most else math.inf if length > rounding else 0.0
        if length <= most * (1 + _TOLERANCE) + rounding:
            return _Judged("held", ratio)
        step = grid_step(change.vector, rounding / math.sqrt(len(change.vector)))
        if step is not None and self._is_rounded(change, most, step):
            grid = f"including rounding to a grid of {step * self.promise.denominator:.3g}"
            return _Judged("held" if ratio <= 2 else "could not tell", ratio, grid)
        lengths = self.lengths(change.vector)
        at = int(np.argmax(lengths[:-1] / np.sqrt(self.sizes)))
        is_there = len(self.sizes) > 1 and lengths[at] >= 0.9 * lengths[-1]
        return _Judged("failed", ratio, self.explained(change, most), at + 1 if is_there else None)

    def _is_rounded(self, change: Change, most: float, step: float) -> bool:
        """Whether a client's part is short enough apart from rounding to a grid.

        Rounding up or down at random is independent between coordinates and right on average. The
        change's component along the client's own update is therefore the client's part, up to a
        normal error with a standard deviation below the step; the orthogonal component is at most
        as long as such rounding makes it. If a client other than the last is left out, all other
        clients may be rounded differently.
        """
        trial = change.trial
        own = trial.cohort[trial.left]
        times = 1 if trial.left == len(trial.cohort) - 1 else len(trial.cohort)
        pairs = zip(self.parts(change.vector), self.parts(own), strict=True)
        along = math.hypot(*(part @ sent / (np.linalg.norm(sent) or 1.0) for part, sent in pairs))
        across = math.sqrt(max(0.0, float(change.vector @ change.vector) - along**2))
        spread = step * math.sqrt(times)
        is_short = along <= most * (1 + _TOLERANCE) + 4 * spread * math.sqrt(len(self.sizes))
        return is_short and across <= spread * (math.sqrt(len(own) / 2) + 4)

    def explained(self, change: Change, most: float) -> str:
        """A clause on the weights in a change; empty unless this is a sum of distinct updates."""
        cohort = change.trial.cohort
        if len({id(client) for client in cohort}) < len(cohort):
            return ""  # equal updates cannot be distinguished
        counts, rest = _counts(change.vector, cohort)
        if rest > 0.01 * np.linalg.norm(change.vector):
            return ""
        share = counts / (most or 1.0)
        words = [f"client {change.trial.left + 1} has weight {share[change.trial.left]:.3g}"]
        moved = [i for i in np.argsort(-np.abs(share)) if i != change.trial.left]
        moved = [i for i in moved if abs(share[i]) > 0.01][:_MOST_NAMED]
        return ", ".join(
            [*words, *(f"the weight of client {i + 1} changes by {share[i]:+.3g}" for i in moved)]
        )


def at_most(
    name: str,
    expected: str,
    trials: Iterable[Trial],
    change_of: Callable[[Trial], Change],
    ruler: Ruler,
) -> tuple[Check, list[Change]]:
    """Measures the effect of one client in each trial; returns the finding and the changes."""
    judged: list[tuple[Trial, _Judged]] = []
    changes: list[Change] = []
    for trial in trials:
        try:
            changes.append(change_of(trial))
        except InputError:
            raise
        except Exception as error:  # a server may raise any exception
            words = f"{type(error).__name__}: {error}"
            judged.append((trial, _Judged("could not tell", 0.0, words)))
        else:
            judged.append((trial, ruler.judge(changes[-1])))
    return _worst(name, expected, judged), changes


def _worst(name: str, expected: str, judged: Sequence[tuple[Trial, _Judged]]) -> Check:
    """The finding on the worst failed trial, else on the worst unclear one, else on all trials."""
    for outcome in ("failed", "could not tell", "held"):
        of_kind = [pair for pair in judged if pair[1].outcome == outcome]
        if of_kind:
            break
    trial, worst = max(of_kind, key=lambda pair: pair[1].ratio)
    most = f"{worst.ratio:.3g} times what one client may change"
    extra = f" ({worst.words})" if worst.words else ""
    if outcome == "held":
        measured = f"at most {most}{extra}, in {len(judged)} comparisons"
        return compared(name, expected, measured, ratio=worst.ratio)
    if outcome == "could not tell":
        why = f"{trial.words}: {most if worst.ratio else 'the server refuses this cohort'}{extra}"
        return inconclusive(name, expected, why)
    place = "" if worst.variable is None else f", in variable {worst.variable}"
    words = f"{trial.words}: {most}{place}{extra}"
    return compared(
        name, expected, words, log_p=-math.inf, variable=worst.variable, ratio=worst.ratio
    )


def _counts(difference: FloatArray, clients: Sequence[FloatArray]) -> tuple[FloatArray, float]:
    """The weight of each client's update in a difference, by least squares.

    Returns the norm of each client's part, negative if the part points away from the update, and
    the norm of the residual.
    """
    norms = np.array([float(np.linalg.norm(client)) or 1.0 for client in clients])
    gram = np.array([[update @ other for other in clients] for update in clients])
    products = np.array([client @ difference for client in clients])
    scaled = np.linalg.lstsq(gram / np.outer(norms, norms), products / norms, rcond=1e-9)[0]
    rest = difference.copy()
    for weight, client in zip(scaled / norms, clients, strict=True):
        rest -= weight * client
    return scaled, float(np.linalg.norm(rest))


def _by_variable(
    change: FloatArray, clients: Sequence[FloatArray], ruler: Ruler
) -> tuple[FloatArray, float, str]:
    """The norms of clients' parts, fitted by variable; the residual; words on small variables."""
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
    words = f"; not distinguished in small variables: {', '.join(small)}" if small else ""
    return np.sqrt(squared), math.hypot(*rests), words


def every_client(change: FloatArray, clients: Sequence[FloatArray], ruler: Ruler) -> Check:
    """Whether each client of a round counts at most once, by decomposing the round's sum.

    If the whole is no sum of the clients' updates, each variable is fitted by itself, except those
    with fewer than two values per client. `change` is the release of the round less the release of
    a round without these clients.
    """
    name, expected = "every_client", "every client counts at most once, within the clip norm"
    if len(change) < 2 * len(clients):
        return inconclusive(
            name, expected, f"{len(change)} numbers cannot distinguish {len(clients)} clients"
        )
    most = np.array([most_of(client, ruler.promise) for client in clients])
    whole, rest = _counts(change, clients)
    tolerance = 0.01 * most.max(initial=0.0) * math.sqrt(len(clients))
    tolerance += ruler.rounding(float(np.linalg.norm(change)))
    left_out = ""
    if rest > tolerance:
        whole, rest, left_out = _by_variable(change, clients, ruler)
    if rest > max(tolerance, 0.1 * float(np.linalg.norm(change))):
        share = rest / float(np.linalg.norm(change))
        why = f"{100 * share:.2g} % of the release is not a sum of scaled updates"
        return inconclusive(name, expected, f"{why}, so clients cannot be distinguished")
    # The rounding error has a random component along each update, too.
    allowed = 1.01 * most + 6 * rest / math.sqrt(len(change)) * math.sqrt(len(ruler.sizes))
    ratio = np.abs(whole) / np.where(most > 0, most, ruler.promise.denominator**-1)
    wrong = np.flatnonzero(np.abs(whole) > allowed)
    if not len(wrong):
        words = f"{len(clients)} clients, each at most {ratio.max():.3g} times its limit{left_out}"
        return compared(name, expected, words, ratio=float(ratio.max()))
    deviations = [f"client {i + 1}: {ratio[i]:.3g} times its limit" for i in wrong[:_MOST_NAMED]]
    more = f" and {len(wrong) - _MOST_NAMED} more" if len(wrong) > _MOST_NAMED else ""
    words = f"{len(wrong)} of {len(clients)} clients count more than they may: "
    return failed(name, expected, words + ", ".join(deviations) + more, float(ratio[wrong].max()))


# The resolution of numbers: half precision, or a grid.


def half_precision(numbers: FloatArray) -> float:
    """The relative rounding error if all numbers are float16 or all are bfloat16; else 0."""
    with np.errstate(over="ignore"):
        if np.array_equal(numbers, numbers.astype(np.float16)):
            return 2.0**-10
        single = numbers.astype(np.float32)
    cut = (single.view(np.uint32) & np.uint32(0xFFFF0000)).view(np.float32)
    return 2.0**-7 if np.array_equal(numbers, cut) else 0.0


def grid_step(vector: FloatArray, error: float) -> float | None:
    """The step of the grid on which all values lie up to an error.

    None if no grid is found, or with fewer than 8 values.
    """
    values = np.unique(np.append(np.abs(vector), 0.0))
    gaps = np.diff(values)
    gaps = gaps[gaps > 8 * error]
    if len(vector) < 8 or not len(gaps):
        return None
    step = float(gaps.min())
    if step < 64 * error or values[-1] > 1e9 * step:
        return None
    multiples = np.rint(values / step)
    step = float(values @ multiples / (multiples @ multiples))
    off = np.abs(values - np.rint(values / step) * step)
    return step if off.max() <= max(8 * error, 1e-6 * step) else None


# A state that remembers clients: later rounds must not release more about these clients.


_ROUNDS = 2
"""The number of later rounds: information that skips one round shows in the second."""


def memory_finding(
    rounds: TrialRounds, answers: Sequence[Answer], few: Sequence[FloatArray], ruler: Ruler
) -> Check:
    """Compares rounds that follow the recorded one with rounds that follow one without clients.

    The following rounds are of the smallest cohort. Their noise may differ in size if the clip norm
    follows the updates. Any other difference releases information about the clients again, which is
    harmless if the noise of the clients' round is released with it, as in momentum of noised sums.
    `answers` are the recorded round, one without clients under the same noise, and one without
    clients under other noise.
    """
    name = "memory"
    expected = (
        "later rounds release nothing more about a client, except together with the noise of the "
        "client's round"
    )
    along_noise = 0.0
    for after in range(1, _ROUNDS + 1):
        later = [_Later(rounds, answer, few, 2 * after) for answer in answers]
        if not all(np.isfinite(following.release).all() for following in later):
            return failed(name, expected, f"{_when(after)}: numbers that are not finite")
        rounding = 3 * ruler.rounding(float(np.linalg.norm(later[0].release)))
        remainder, sums = later[0].excess(later[1], answers[0], answers[1])
        of_noise, noise = later[2].excess(later[1], answers[2], answers[1])
        answers = [following.answer for following in later]
        if np.linalg.norm(remainder) <= rounding:
            continue
        square = float(noise @ noise)
        weight = float(of_noise @ noise) / square if square else 0.0
        bare = float(np.linalg.norm(remainder - weight * sums))
        unexplained = float(np.linalg.norm(of_noise - weight * noise))
        if bare <= rounding + 1e-3 * float(np.linalg.norm(remainder)):
            along_noise = weight
        elif unexplained <= rounding + 1e-3 * float(np.linalg.norm(of_noise)):
            words = f"{_when(after)} the release changes again, by {ruler.times(bare)}"
            return failed(name, expected, words)
        else:
            why = (
                f"{_when(after)} the earlier round's noise reappears, but not as a multiple of "
                "itself"
            )
            return inconclusive(name, expected, why)
    words = f"nothing more in the next {_ROUNDS} rounds"
    if along_noise:
        words += f", except {along_noise:.3g} times the noised sum of the client's round"
    return compared(name, expected, words)


class _Later:
    """A later round of the smallest cohort, under two seeds."""

    def __init__(
        self, rounds: TrialRounds, before: Answer, few: Sequence[FloatArray], seed: int
    ) -> None:
        self.answer = rounds.go_on(before.state, few, seed)
        self.release = self.answer.release
        self._under_other_seed = lambda: rounds.go_on(before.state, few, seed + 1).release

    def excess(
        self, quiet: "_Later", before: Answer, before_quiet: Answer
    ) -> tuple[FloatArray, FloatArray]:
        """The excess of this release over `quiet`'s, and of `before`'s over `before_quiet`'s.

        This round follows `before`; `quiet` follows `before_quiet`, a round without clients, under
        the same seeds. If the clip norm follows the updates, the noise may be a multiple of the
        noise in `quiet`: this growth, measured between two seeds, is subtracted from both excesses.
        """
        excess, last = self.release - quiet.release, before.release - before_quiet.release
        if not excess.any():
            return excess, last
        other = quiet._under_other_seed()
        noise = quiet.release - other
        square = float(noise @ noise)
        of_other = self._under_other_seed() - other
        grown = float((excess - of_other) @ noise) / square if square else 0.0
        return excess - grown * quiet.release, last - grown * before_quiet.release


def _when(rounds: int) -> str:
    return "in the next round" if rounds == 1 else f"{rounds} rounds later"
