"""Replay of an adaptive clip norm: the count that moves it, the count's noise, and next rounds.

The clip norms before and after a round determine the noised count of the round
(`mechanisms.adaptive_clip.AdaptiveClip`). With the same randomness two counts differ only by
clients; with the same clients and other randomness they differ only by noise.
"""

import dataclasses
import functools
import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import special

from fl_audit.array_types import FloatArray
from fl_audit.checks.check import FALSE_ALARM, Check, compared, failed, inconclusive
from fl_audit.checks.replay.changes import Ruler
from fl_audit.checks.replay.noise import (
    NoisyRounds,
    detectable_mean,
    length_finding,
    num_seeds,
    shows_noise,
)
from fl_audit.checks.replay.trial_rounds import FAR, SHORT, Answer, TrialRounds, Trials, most_of
from fl_audit.errors import InputError
from fl_audit.mechanisms.adaptive_clip import AdaptiveClip
from fl_audit.mechanisms.zeroing import AdaptiveZeroing

ClipNormOf = Callable[[Any], float]
"""A function from a server's state to the clip norm of the next round."""

_CHAINS = 48
"""The number of seeds, with two rounds each. Noise of half the promised deviation is then found
almost surely: with correct noise, 96 counts have less than 0.65 of this deviation with probability
1e-7.
"""

_MOST_NUMBERS = 1 << 30
"""The largest number of values in all releases under these seeds, which limits the time."""

_MOST_SENT = 1 << 25
"""The largest number of values in all updates of one round."""

_MOST_CLIENTS = 512

_FIRST_SEED = 3_000_017
"""The first seed of questions about the clip norm, far from the seeds of other questions."""

COUNT, UPDATE = "clip_count", "clip_update"
COUNT_NOISE, NOISE, NEXT = "count_noise", "clip_noise", "clip_next"

EXPECTED = {
    COUNT: "a client moves the count that sets the next clip norm by at most one half",
    UPDATE: "the clip norm moves by the promised quantile, learning rate and denominator",
    COUNT_NOISE: "under other seeds, now and in the next round, the count's noise is as promised",
    NOISE: "before and after the clip norm moves, the sum's noise is in proportion to it",
    NEXT: "in the next round a client changes at most the new clip norm over the denominator",
}


@dataclass(frozen=True, eq=False)
class _Counted:
    """A cohort and its noised count."""

    words: str  # the cohort
    sum: float  # the count without noise, each client as plus or minus one half
    count: float  # the count that moved the clip norm


@dataclass(frozen=True, eq=False)
class ClipQuestions:
    """The questions about an adaptive clip norm.

    Attributes:
      is_silenced: Whether clients draw from the noise's generator. The cohort must then keep its
        size: instead of being left out, clients send zeros, and are counted.
    """

    rounds: TrialRounds
    trials: Trials
    ruler: Ruler
    clip: AdaptiveClip
    clip_norm_of: ClipNormOf
    is_silenced: bool

    def findings(self, touched: FloatArray) -> Iterator[Check]:
        """The findings; `touched` marks the variables changed by any client."""
        try:
            yield from self._count_findings()
            yield from self._noise_findings(touched)
        except InputError:
            raise
        except Exception as error:  # a server may refuse a round in any way
            yield failed(UPDATE, EXPECTED[UPDATE], f"{type(error).__name__}: {error}")

    def _count_findings(self) -> Iterator[Check]:
        promised = self.trials.promise.clip_norm
        if not math.isclose(self._start, promised, rel_tol=1e-5):
            words = f"the initial clip norm is {self._start:g}, not {promised:g}"
            yield failed(UPDATE, EXPECTED[UPDATE], words)
            return
        if self.clip.learning_rate == 0:
            yield self._fixed_clip_finding()
            return
        if not self.clip.determines_counts:
            why = f"float32 resolves the count only to {self.clip.rounding:.2g} clients"
            for name in (COUNT, UPDATE, COUNT_NOISE):
                yield inconclusive(name, EXPECTED[name], why)
            return
        noise, sums = self._noise_alone()
        if not np.isfinite(noise).all():
            yield failed(UPDATE, EXPECTED[UPDATE], "the clip norm is not positive and finite")
            return
        seed = _FIRST_SEED + int(np.argmin(np.abs(noise[:, 0])))
        counted = [self._counted(*cohort, seed) for cohort in self._cohorts()]
        yield _client_finding(counted, self.clip, 2 if self.is_silenced else 1)
        units = self._normal(noise, sums)
        yield self._update_finding(counted, noise, units)
        yield self._count_noise_finding(noise, units, self.clip.is_limited(noise + sums))

    def _fixed_clip_finding(self) -> Check:
        after = self._clip_norm(self.rounds.run(self._few()).state)
        if math.isclose(after, self._start, rel_tol=1e-5):
            return compared(UPDATE, EXPECTED[UPDATE], "the clip norm stays fixed")
        return failed(
            UPDATE, EXPECTED[UPDATE], f"the clip norm moves from {self._start:g} to {after:g}"
        )

    # The counts.

    @functools.cached_property
    def _start(self) -> float:
        return self._clip_norm(self.rounds.state)

    def _clip_norm(self, state: Any) -> float:
        return float(self.clip_norm_of(state))

    def _count(self, before: float, answer: Answer) -> float:
        """The noised count of a round; NaN if a clip norm is not positive and finite."""
        after = self._clip_norm(answer.state)
        if not (0 < before < math.inf and 0 < after < math.inf):
            return math.nan
        return float(self.clip.count(np.array(before), np.array(after)))

    def _sum(self, cohort: Sequence[FloatArray], clip_norm: float) -> float:
        """The count without noise; no norm in the cohort may be near the clip norm."""
        return sum(0.5 if np.linalg.norm(update) <= clip_norm else -0.5 for update in cohort)

    def _few(self, clients: Sequence[FloatArray] = ()) -> list[FloatArray]:
        """The smallest cohort and some clients, padded with zeros if the size must not change."""
        number = self._crowd if self.is_silenced else 0
        zeros = [np.zeros(self.rounds.dim)] * max(0, number + 1 - len(clients))
        return [*self.trials.few, *clients, *(zeros if self.is_silenced else [])]

    @functools.cached_property
    def _crowd(self) -> int:
        """The size of a large cohort: the denominator, but at least 2 and up to a limit."""
        most = min(_MOST_CLIENTS, _MOST_SENT // self.rounds.dim)
        return max(2, min(math.ceil(self.clip.denominator), most))

    def _cohorts(self) -> Iterator[tuple[str, list[FloatArray]]]:
        """The clients to add to the smallest cohort, with words: none, one, and many."""
        yield "the smallest cohort", []
        for trial in self.trials.alone():
            yield trial.words, [trial.cohort[trial.left]]
        yield "one client 0.9 clip norms long", [self.trials.scaled(0, 0.9)]
        some = max(2, self._crowd // 3)
        short, long = self.trials.scaled(0, SHORT), self.trials.scaled(0, 3.0)
        yield f"{some} short clients", [short] * some
        yield f"{some} short clients and a long one", [short] * some + [long]
        yield f"{some} long clients", [long] * some
        yield f"{some} long clients and a short one", [long] * some + [short]

    def _counted(self, words: str, clients: list[FloatArray], seed: int) -> _Counted:
        promise = self.trials.promise
        # Without updates that the mechanism replaces by zeros.
        within_bound = [client for client in clients if most_of(client, promise)]
        cohort = self._few(within_bound)
        answer = self.rounds.run(cohort, seed)
        return _Counted(words, self._sum(cohort, self._start), self._count(self._start, answer))

    def _noise_alone(self) -> tuple[FloatArray, FloatArray]:
        """The noise of the smallest cohort's counts, and the noiseless counts; both (seeds, 2)."""
        few = self._few()
        number = max(2, min(_CHAINS, _MOST_NUMBERS // (2 * self.rounds.dim * max(1, len(few)))))
        counts, sums = np.zeros((number, 2)), np.zeros((number, 2))
        for index in range(number):
            first = self.rounds.run(few, _FIRST_SEED + index)
            second = self.rounds.go_on(first.state, few, 2 * _FIRST_SEED + index)
            norm = self._clip_norm(first.state)
            counts[index] = self._count(self._start, first), self._count(norm, second)
            sums[index] = self._sum(few, self._start), self._sum(few, norm)
        return counts - sums, sums

    def _update_finding(
        self, counted: Sequence[_Counted], noise: FloatArray, units: FloatArray
    ) -> Check:
        """Whether cohorts move the clip norm as promised, and noise does not bias the clip norm.

        The mean of `units`, which are from `_normal`, is normal.
        """
        from scipy import stats  # imported here: it takes half a second

        rounding = 2 * self.clip.rounding
        whole = [cohort for cohort in counted if not self.clip.is_limited(np.array(cohort.count))]
        if len(whole) < 2:
            why = "noise takes the share of short updates to the limits of [0, 1]"
            return inconclusive(UPDATE, EXPECTED[UPDATE], why)
        first = whole[0]
        off = [abs((cohort.count - first.count) - (cohort.sum - first.sum)) for cohort in whole]
        worst = int(np.argmax(off))
        if not off[worst] <= rounding + 1e-3 * max(1.0, abs(whole[worst].sum - first.sum)):
            measured = whole[worst].count - first.count
            promised = whole[worst].sum - first.sum
            words = f"{whole[worst].words} move the count by {measured:.3g}, not by {promised:.3g}"
            return failed(UPDATE, EXPECTED[UPDATE], words)
        mean, spread = float(noise.mean()), self.clip.count_stddev
        if not spread:
            if abs(mean) <= rounding:
                return compared(UPDATE, EXPECTED[UPDATE], f"true of {len(whole)} cohorts")
            return failed(UPDATE, EXPECTED[UPDATE], f"the count is off by {mean:.3g} clients")
        total = abs(float(units.sum())) / math.sqrt(units.size)
        log_p = min(0.0, float(stats.norm.logsf(total)) + math.log(2))
        words = f"true of {len(whole)} cohorts; the count is off by {mean:.3g} clients on average"
        detectable = spread * detectable_mean(2, units.size)
        return compared(
            UPDATE,
            EXPECTED[UPDATE],
            f"{words}, and {detectable:.2g} would have been detected",
            log_p=log_p,
        )

    def _count_noise_finding(
        self, noise: FloatArray, units: FloatArray, is_limited: FloatArray
    ) -> Check:
        """Whether the counts' noise has the promised size, in rounds and in rounds' differences.

        The sums of squares of the first rounds' noise, of the second rounds', of both, and of their
        differences are chi-square.
        """
        from scipy import stats  # imported here: it takes half a second

        name, expected = COUNT_NOISE, EXPECTED[COUNT_NOISE]
        if not self.clip.count_stddev:
            largest = float(np.abs(noise).max())
            if largest <= 2 * self.clip.rounding:
                return compared(name, expected, "no noise, as promised")
            return failed(
                name, expected, f"no noise is promised, but up to {largest:.3g} clients measured"
            )
        steps = (units[:, 1] - units[:, 0]) / math.sqrt(2)
        parts = (units[:, 0], units[:, 1], units.ravel(), steps)
        squared = np.array([float(part @ part) for part in parts])
        dof = np.array([part.size for part in parts])
        tests = 2 * len(parts)
        tail = np.minimum(stats.chi2.logcdf(squared, dof), stats.chi2.logsf(squared, dof))
        tail = np.where(np.isfinite(squared), tail, -np.inf)
        at, ratio = int(np.argmin(tail)), np.sqrt(squared / dof)
        low = stats.chi2.ppf(FALSE_ALARM / tests, dof[2]) / stats.chi2.ppf(0.95, dof[2])
        where = ("", ", in the next round", "", ", in the difference of two rounds")[at]
        at = 2 if at == 0 else at
        limited = float(is_limited.mean())
        words = f"{ratio[at]:.3g} times the promised size{where}"
        if ratio[2] * self.clip.count_stddev <= 2 * self.clip.rounding:
            words = "no noise under any seed"
        words += f"; less than {math.sqrt(low):.2g} times this size would have been detected"
        if limited > 0.5:
            words = f"{100 * limited:.0f} % of the shares are at the limits of [0, 1]; {words}"
        log_p = min(0.0, float(tail.min()) + math.log(tests))
        return compared(
            name,
            expected,
            words,
            log_p=log_p,
            ratio=float(ratio[at]),
            detectable_ratio=math.sqrt(low),
        )

    def _normal(self, noise: FloatArray, sums: FloatArray) -> FloatArray:
        """Noise in standard deviations; noise beyond the range of a share is drawn again.

        If the share of short updates is at a limit of [0, 1], the noise is known only to reach that
        limit. Such noise is drawn again from the normal distribution beyond the limit, so that all
        noise is exactly normal (a randomised probability integral transform), and limits change no
        test.
        """
        if not self.clip.count_stddev:
            return noise
        units = noise / self.clip.count_stddev
        random = np.random.default_rng(_FIRST_SEED)
        for sign in (1.0, -1.0):
            edge = self.clip.denominator / 2 - sign * sums  # the noise at the limit of the share
            is_at = np.abs(sign * noise - edge) <= self.clip.rounding
            tail = special.ndtr(-edge / self.clip.count_stddev)
            normal = -special.ndtri(np.maximum(tail * random.uniform(size=noise.shape), 1e-300))
            units = np.where(is_at, sign * normal, units)
        return np.asarray(units)

    # The noise of the sum, and the next round's clip.

    def _noise_findings(self, touched: FloatArray) -> Iterator[Check]:
        """The findings on large cohorts of short or long updates, which move the clip norm most."""
        promise = self.trials.promise
        crowds = {
            words: self._few([self.trials.scaled(0, length)] * self._crowd)
            for words, length in (("short", SHORT), ("long", 3.0))
        }
        after = {words: self.rounds.run(crowd, _FIRST_SEED) for words, crowd in crowds.items()}
        norms = {words: self._clip_norm(answer.state) for words, answer in after.items()}
        if not all(0 < norm < math.inf for norm in norms.values()):
            yield failed(NEXT, EXPECTED[NEXT], "the next clip norm is not positive and finite")
            return
        yield self._next_finding(after, norms)
        multiplier, epsilon = promise.noise_multiplier, float(np.finfo(np.float32).eps)
        largest = max(float(np.linalg.norm(answer.release)) for answer in after.values())
        if not multiplier or promise.noise_stddev is None or promise.correlation is not None:
            return
        if not epsilon * largest < promise.noise_stddev < np.inf:
            return
        seeds = range(_FIRST_SEED, _FIRST_SEED + num_seeds(self.rounds.sizes))
        groups = []
        for words, crowd in crowds.items():
            used = multiplier * self._start / promise.denominator
            moved = multiplier * norms[words] / promise.denominator
            now = [self.rounds.run(crowd, seed).release for seed in seeds]
            later = [
                self.rounds.go_on(after[words].state, self._few(), 1 + seed).release
                for seed in seeds
            ]
            groups.append(NoisyRounds(f"a round of {words} updates", np.array(now), used))
            groups.append(NoisyRounds(f"the round after {words} updates", np.array(later), moved))
        yield _sum_noise_finding(groups, touched, self.rounds.sizes)

    def _next_finding(self, after: dict[str, Answer], norms: dict[str, float]) -> Check:
        """The effect of one long update after the clip norm moved down, and after it moved up."""
        ratios = {}
        for words, answer in after.items():
            alone = self._few([self.trials.scaled(0, FAR)])
            idle = self._few([np.zeros(self.rounds.dim)] if self.is_silenced else [])
            releases = [
                self.rounds.go_on(answer.state, cohort, _FIRST_SEED + 1).release
                for cohort in (alone, idle)
            ]
            length = float(np.linalg.norm(releases[0] - releases[1]))
            length -= self.ruler.rounding(max(float(np.linalg.norm(r)) for r in releases))
            ratios[words] = length * self.trials.promise.denominator / norms[words]
        worst = max(ratios, key=lambda words: ratios[words])
        words = f"{max(0.0, ratios[worst]):.3g} times that maximum, after {worst} updates"
        if ratios[worst] <= 1.001:
            return compared(NEXT, EXPECTED[NEXT], f"at most {words}", ratio=ratios[worst])
        return failed(NEXT, EXPECTED[NEXT], words, ratios[worst])


def _client_finding(counted: Sequence[_Counted], clip: AdaptiveClip, halves: int) -> Check:
    """The finding on one client's effect on the count, alone and among others.

    A client may change the count by `halves` / 2.
    """
    first = counted[0]
    singles, crowds = counted[1:-4], counted[-4:]
    pairs = [(first, cohort) for cohort in singles] + list(
        zip(crowds[::2], crowds[1::2], strict=True)
    )
    moved = [abs(more.count - less.count) for less, more in pairs]
    worst = int(np.argmax(moved))
    most, words = 0.5 * halves, pairs[worst][1].words
    ratio = moved[worst] / most
    measured = f"{ratio:.3g} times that maximum, by {words}"
    if moved[worst] <= most * 1.001 + 2 * clip.rounding:
        return compared(COUNT, EXPECTED[COUNT], f"at most {measured}", ratio=ratio)
    return failed(COUNT, EXPECTED[COUNT], measured, ratio)


def _sum_noise_finding(
    groups: Sequence[NoisyRounds], touched: FloatArray, sizes: Sequence[int]
) -> Check:
    shows = shows_noise(groups[0].releases, touched, sizes)
    coordinates = np.repeat(shows, sizes)
    moved = [
        dataclasses.replace(group, releases=group.releases[:, coordinates]) for group in groups
    ]
    moving = list(itertools.compress(sizes, shows))
    return length_finding(NOISE, EXPECTED[NOISE], moved, moving, may_be_longer=False)


# Adaptive zeroing.


ZeroingNormOf = Callable[[Any], float]
"""A function from a server's state to the largest absolute coordinate of an update that the next
round does not replace by zeros."""

_SEED = 4_000_037
"""The seed of this question, far from the seeds of other questions."""

_CLIENTS = 6


def zeroing_finding(
    rounds: TrialRounds, trials: Trials, zeroing: AdaptiveZeroing, norm_of: ZeroingNormOf
) -> Check:
    """Whether cohorts of small and of large updates move the zeroing norm as promised."""
    name, expected = (
        "zeroing_update",
        "the zeroing norm moves by the promised quantile and learning rate",
    )
    before = float(norm_of(rounds.state))
    estimate = (before - zeroing.increment) / zeroing.multiplier
    like = trials.vectors[0] / np.abs(trials.vectors[0]).max()
    for large in range(_CLIENTS + 1):
        sizes = [3.0 * estimate] * large + [0.3 * estimate] * (_CLIENTS - large)
        cohort = [*trials.few, *(np.asarray(size * like) for size in sizes)]
        try:
            after = float(norm_of(rounds.run(cohort, _SEED).state))
        except Exception as error:  # a server may refuse a round in any way
            return failed(name, expected, f"{type(error).__name__}: {error}")
        promised = _moved(zeroing, estimate, cohort)
        if not math.isclose(after, promised, rel_tol=1e-4):
            words = (
                f"with {large} large updates of {len(cohort)} the zeroing norm moves from "
                f"{before:.4g} to "
            )
            return failed(name, expected, f"{words}{after:.4g}, not to {promised:.4g}")
    return compared(name, expected, f"true of {_CLIENTS + 1} cohorts")


def _moved(zeroing: AdaptiveZeroing, estimate: float, cohort: Sequence[FloatArray]) -> float:
    """The zeroing norm after a round (Andrew et al. 2021, section 2.1, without noise)."""
    below = np.mean([np.abs(update).max() <= estimate for update in cohort])
    moved = estimate * math.exp(-zeroing.learning_rate * (below - zeroing.target_quantile))
    return zeroing.multiplier * moved + zeroing.increment
