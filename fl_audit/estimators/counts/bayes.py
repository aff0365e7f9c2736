"""`bayes`: the credible interval at the best threshold (Zanella-Béguelin et al. 2022)."""

from dataclasses import asdict, dataclass, replace

import numpy as np

from fl_audit.array_types import FloatArray, IntArray
from fl_audit.estimators.counts.confusion_counts import ConfusionCounts
from fl_audit.estimators.counts.posterior import EpsilonPosterior, RateDistributions, corner_mass
from fl_audit.estimators.result import Estimate
from fl_audit.estimators.scores import CanaryScores
from fl_audit.estimators.setting import AuditSetting

_SPLIT = 8
"""The number of parts of a divided block of thresholds."""

_MOST_BLOCKS = 512
"""The largest number of blocks at the start."""

_AT_ONCE = 4096
"""The number of thresholds in one array, which bounds memory."""

_TIE = 1e-9
"""Probabilities count as equal up to this difference, about their accuracy."""


@dataclass(frozen=True, eq=False)
class RocCounts:
    """Errors at each threshold, with "score >= threshold" as the guess of a member."""

    thresholds: FloatArray  # every distinct score, ascending, and infinity
    false_negatives: IntArray  # ascending from 0 to `members`
    false_positives: IntArray  # descending from `non_members` to 0
    members: int
    non_members: int

    @classmethod
    def from_scores(cls, scores: CanaryScores) -> "RocCounts":
        """The counts at the N + 1 thresholds of N distinct scores.

        >>> roc = RocCounts.from_scores(CanaryScores(included=[1.0, 3.0], excluded=[0.0, 1.0]))
        >>> roc.false_negatives.tolist(), roc.false_positives.tolist()
        ([0, 0, 1, 2], [2, 1, 0, 0])
        """
        distinct = np.unique(np.concatenate([scores.included, scores.excluded]))
        thresholds = np.append(distinct, np.inf)
        below = np.searchsorted(np.sort(scores.excluded), thresholds)
        return cls(
            thresholds=thresholds,
            false_negatives=np.searchsorted(np.sort(scores.included), thresholds),
            false_positives=scores.num_excluded - below,
            members=scores.num_included,
            non_members=scores.num_excluded,
        )

    def at(self, index: int) -> ConfusionCounts:
        """The counts at one threshold."""
        false_negatives = int(self.false_negatives[index])
        false_positives = int(self.false_positives[index])
        return ConfusionCounts(
            false_negatives=false_negatives,
            true_positives=self.members - false_negatives,
            false_positives=false_positives,
            true_negatives=self.non_members - false_positives,
        )

    def fnr(self, indices: IntArray) -> RateDistributions:
        """The posteriors of the false negative rates at some thresholds."""
        errors = self.false_negatives[indices]
        return RateDistributions.jeffreys(errors, self.members - errors)

    def fpr(self, indices: IntArray) -> RateDistributions:
        """The posteriors of the false positive rates at some thresholds."""
        errors = self.false_positives[indices]
        return RateDistributions.jeffreys(errors, self.non_members - errors)


@dataclass(frozen=True)
class _Best:
    """The best threshold so far."""

    index: int
    lower: float  # the lower end of its credible interval
    beyond: float  # P(epsilon > lower); a threshold with a larger one is better


def best_threshold(roc: RocCounts, delta: float, confidence: float) -> int:
    """The index of the threshold whose credible interval has the largest lower end.

    Zanella-Béguelin et al. (2022), section 4, "Privacy Estimation". If all lower ends are 0, it is
    the threshold with the largest posterior probability of an epsilon above 0.

    The lower end exceeds L exactly if P(epsilon > L) exceeds 1 - alpha / 2, alpha = 1 - confidence,
    so one probability per threshold decides whether it beats the best so far, whose lower end is L.
    Few thresholds need to be evaluated: in a block from i to j, the mass of the lower corner is at
    most that of the counts (FN_i, FP_j), and the mass of the upper corner at most that of (FN_j,
    FP_i), by monotonicity. A block is dropped if the sum of both is at most the best P(epsilon > L)
    so far, else it is divided, down to single thresholds. The answer equals that of an exhaustive
    search, up to ties of 1e-9 in probability.
    """
    count = len(roc.thresholds)
    width = 1
    while count > width * _MOST_BLOCKS:
        width *= _SPLIT
    starts = np.arange(0, count, width)
    best = _Best(index=0, lower=0.0, beyond=-1.0)
    while True:
        best = _improved(best, roc, starts, delta, confidence)
        if width == 1:
            return best.index
        ends = np.minimum(starts + width, count) - 1
        starts = starts[_mass_outside(roc, starts, ends, delta, best.lower) > best.beyond + _TIE]
        width //= _SPLIT
        starts = np.add.outer(starts, width * np.arange(_SPLIT)).ravel()
        starts = starts[starts < count]


def _improved(
    best: _Best, roc: RocCounts, indices: IntArray, delta: float, confidence: float
) -> _Best:
    """The best of a set of thresholds and of the best so far."""
    target = 1 - (1 - confidence) / 2
    while True:
        beyond = _mass_outside(roc, indices, indices, delta, best.lower)
        better = beyond > best.beyond + _TIE
        if not np.any(better):
            return best
        first = int(np.argmax(beyond))
        best = _Best(int(indices[first]), best.lower, float(beyond[first]))
        if best.beyond > target:
            posterior = EpsilonPosterior(roc.at(best.index), delta)
            best = replace(best, lower=posterior.interval(confidence).lower, beyond=target)
        better[first] = False
        indices = indices[better]


def _mass_outside(
    roc: RocCounts, first: IntArray, last: IntArray, delta: float, epsilon: float
) -> FloatArray:
    """An upper bound on the mass beyond `epsilon` in each block; exact for one threshold."""
    mass = np.empty(len(first))
    for start in range(0, len(first), _AT_ONCE):
        part = slice(start, start + _AT_ONCE)
        i, j = first[part], last[part]
        at = np.full(len(i), epsilon)
        lower = corner_mass(roc.fnr(i), roc.fpr(j), delta, at)
        upper = corner_mass(roc.fnr(j).opposite, roc.fpr(i).opposite, delta, at)
        mass[part] = lower + upper
    return mass


def bayes(setting: AuditSetting) -> Estimate:
    """The equal-tailed credible interval at the threshold with the largest lower end.

    Thresholds are all distinct scores and infinity, as in the paper (N + 1 for N samples). Both
    error rates come from the counts, even if the null is known: the paper's model has no known
    rate. The reported epsilon is the posterior median, which is in the interval at every
    confidence.

    With unequal numbers of canaries the interval misleads: a threshold below all scores is
    uninformative, but there the prior makes FNR about 1 / num_included and TNR about 1 /
    num_excluded, and their ratio counts as evidence. With 100,000 included and 1 excluded canary,
    that threshold's interval starts at 4.81 (95 %, delta 0).
    """
    setting.require(included=1, excluded=1)
    roc = RocCounts.from_scores(setting.scores)
    index = best_threshold(roc, setting.delta, setting.confidence)
    counts = roc.at(index)
    posterior = EpsilonPosterior(counts, setting.delta)
    interval = posterior.interval(setting.confidence)
    level = f"{100 * setting.confidence:g} %"
    return Estimate(
        method="bayes",
        kind="interval",
        epsilon=posterior.quantile(0.5),
        lower=interval.lower,
        upper=interval.upper,
        assumes=(
            "Canaries' scores are independent given inclusion; Jeffreys priors on both error "
            "rates, independent of each other."
        ),
        guarantee=(
            f"For one threshold fixed in advance, epsilon of its error rates would lie in the "
            f"interval with {level} posterior probability. That is no confidence level: how often "
            "the interval covers depends on the rates. Here the threshold is chosen on the same "
            "data for the largest lower end, which makes it too large more often. It is no valid "
            "lower bound; where nothing leaks it is above 0 nearly always, as the model has (for a "
            "small delta) no mass at epsilon 0. The upper end bounds this attack only."
        ),
        source=(
            "Zanella-Béguelin et al. (2022), arXiv:2206.05199, sections 3.2 and 4, equations 3 to 6"
        ),
        details={
            "threshold": float(roc.thresholds[index]),
            **asdict(counts),
            # Exact to 1e-8, as scores are fewer than 1e9.
            "probability_of_zero": round(posterior.atom, 8),
            "num_thresholds": len(roc.thresholds),
        },
    )
