"""The credible interval at the best threshold on the scores (Zanella-Béguelin et al. 2022)."""

from fl_audit.estimators.counts.posterior import EpsilonPosterior
from fl_audit.estimators.counts.roc import RocCounts, best_threshold
from fl_audit.estimators.result import Estimate
from fl_audit.estimators.setting import AuditSetting


def bayes(setting: AuditSetting) -> Estimate:
    """The equal-tailed credible interval at the threshold whose lower end is largest.

    Every distinct score is a threshold, and infinity, as in the paper (N + 1 for N samples). Both
    error rates come from the counts, whatever the null: the paper's model has no known rate. The
    headline epsilon is the posterior median, which lies in the interval at every confidence.

    With unequal numbers the interval misleads: the prior lets a threshold below all scores, which
    says nothing, put FNR near 1 / included and 1 - FPR near 1 / excluded, and their ratio counts as
    evidence. With 100,000 included and 1 excluded canary its interval starts at 4.81 (95 %, delta
    0).

    Raises:
      NotApplicableError: If there are no included or no excluded scores.
    """
    setting.require(included=1, excluded=1)
    roc = RocCounts.of(setting.scores)
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
            "false_negatives": counts.false_negatives,
            "true_positives": counts.true_positives,
            "false_positives": counts.false_positives,
            "true_negatives": counts.true_negatives,
            "probability_of_zero": posterior.atom,
            "num_thresholds": len(roc.thresholds),
        },
    )
