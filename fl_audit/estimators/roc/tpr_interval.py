"""The bootstrap of a true positive rate at a false positive rate, without resampling any score."""

import numpy as np

from fl_audit.array_types import FloatArray
from fl_audit.estimators.arguments import check_confidence
from fl_audit.estimators.roc.bootstrap import bias_corrected_interval, check_resamples
from fl_audit.estimators.roc.interval import ApproximateInterval
from fl_audit.estimators.roc.roc import allowed_false_positives, require_both_classes, tpr_at_fpr
from fl_audit.estimators.scores import CanaryScores
from fl_audit.estimators.setting import NotApplicableError

LEAST_FALSE_POSITIVES = 10
"""The fewest false positives allowed at which the bootstrap covers about what it says."""


def tpr_at_fpr_interval(
    scores: CanaryScores,
    false_positive_rate: float,
    *,
    confidence: float,
    seed: int,
    resamples: int = 2000,
) -> ApproximateInterval:
    """The bias-corrected bootstrap interval of `tpr_at_fpr`, in O(n log n) for any n.

    Its replicates have exactly the law of those in `bootstrap_interval`, and what that says of the
    interval holds here. Among Gaussian scores a shift of 2 apart, intervals at 95 % cover 92 to
    96 % where 10 or more false positives are allowed, 74 to 82 % where 1 is, and 31 % where none
    is (100 to 10,000 scores a class, 400 trials): with fewer than 10 there is no interval.

    Args:
      scores: Scores of included and excluded canaries.
      false_positive_rate: The false positive rate allowed, in [0, 1].
      confidence: Confidence in (0, 1), which holds in the limit of many scores.
      seed: Seed of the resampling; the same seed gives the same interval.
      resamples: Number of draws, at least 1.

    Raises:
      InputError: If a number is out of range.
      NotApplicableError: If there are no included scores, or too few excluded ones for 10 false
        positives.
    """
    require_both_classes(scores)
    check_confidence(confidence)
    check_resamples(resamples)
    allowed = allowed_false_positives(false_positive_rate, scores.num_excluded)
    if allowed < LEAST_FALSE_POSITIVES:
        raise NotApplicableError(
            f"a bootstrap interval needs {LEAST_FALSE_POSITIVES} false positives or more to be "
            f"allowed, got {allowed} (of {scores.num_excluded} excluded scores)"
        )
    rng = np.random.default_rng(seed)
    replicates = tpr_at_fpr_replicates(scores, false_positive_rate, resamples, rng)
    estimate = tpr_at_fpr(scores, false_positive_rate)
    return bias_corrected_interval(estimate, replicates, confidence)


def tpr_at_fpr_replicates(
    scores: CanaryScores, false_positive_rate: float, resamples: int, rng: np.random.Generator
) -> FloatArray:
    """Draws of `tpr_at_fpr` from scores drawn with replacement, float64 of shape (resamples,).

    Among n excluded scores in descending order, the one drawn has index floor(n U) with U uniform.
    So the (k + 1)-th largest of n drawn, which decides where k false positives are allowed, has
    index floor(n U_(k + 1)) with U_(k + 1) ~ Beta(k + 1, n - k); and the number of drawn included
    scores above it is binomial.
    """
    n = scores.num_excluded
    allowed = allowed_false_positives(false_positive_rate, n)
    if allowed == n:
        return np.ones(resamples)
    index = (n * rng.beta(allowed + 1, n - allowed, size=resamples)).astype(np.int64)
    limits = np.sort(scores.excluded)[::-1][np.minimum(index, n - 1)]
    members = scores.num_included
    above = members - np.searchsorted(np.sort(scores.included), limits, "right")
    return np.asarray(rng.binomial(members, above / members) / members)
