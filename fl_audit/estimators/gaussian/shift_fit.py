"""Epsilon of the law that scores have under a Gaussian mechanism: the null, shifted."""

import math
from collections.abc import Callable
from dataclasses import replace

from scipy import optimize, special

from fl_audit.estimators.gaussian.gdp import epsilon_of_mu
from fl_audit.estimators.gaussian.largest_of_rounds import epsilon_of_largest
from fl_audit.estimators.gaussian.shift_likelihood import (
    KnownNull,
    LargestOfRounds,
    ShiftedLaw,
    ShiftLikelihood,
    UnknownNull,
)
from fl_audit.estimators.gaussian.standard_scores import StandardScores, standard_scores
from fl_audit.estimators.gaussian.units import in_units
from fl_audit.estimators.result import Detail, Estimate
from fl_audit.estimators.setting import AuditSetting
from fl_audit.estimators.threshold.null_choice import chosen_null

_LARGEST_STEP = 1e6
"""A step from the best shift beyond which an end is not looked for."""


def shift_fit(setting: AuditSetting) -> Estimate:
    """Epsilon of the null law against the null shifted by a maximum-likelihood shift.

    Under a Gaussian mechanism a canary's cosine with an aggregate, in deviations of its null, is
    N(0, 1), and N(m, 1) if the canary took part. A maximum over rounds is then the largest of K
    such values, one of them shifted. Only m is fitted, and epsilon is that of the exact trade-off
    of both laws (`epsilon_of_mu`, `epsilon_of_largest`), so that no tail is extrapolated from a
    fitted deviation. The interval is that of the profile likelihood ratio, with the critical value
    that makes it Student's for one mean.

    Where shifts differ between canaries m is their mean and their spread widens the interval alone.
    As no canary's shift exceeds 1 / noise multiplier, neither does m.

    Without a known null that the excluded scores do not refute, both groups are Gaussian with
    unknown means, and the unit of m is the deviation of the included scores (`UnknownNull`).

    Raises:
      NotApplicableError: If there are fewer than 2 included scores, or, without a known null, fewer
        than 2 excluded ones.
    """
    setting.require(included=2)
    null = chosen_null(setting)
    known = None if null.tail is None else standard_scores(setting.scores, null.tail)
    likelihood = _likelihood(setting, known)
    best = likelihood.best()
    ends = _interval(likelihood, best, _critical(setting))
    epsilons = [_epsilon(law, setting.delta) for law in (ends[0], best, ends[1])]
    return Estimate(
        method="shift_fit",
        kind="interval",
        epsilon=epsilons[1],
        lower=epsilons[0],
        upper=epsilons[2],
        assumes=_assumption(known) + null.assumption,
        guarantee=(
            "None as a bound: the interval covers the epsilon of this attack at its confidence, if "
            "the law is as assumed. A better attack would find more."
        ),
        source=(
            "Dong, Roth & Su (2022), arXiv:1905.02383, corollary 2.13, for the epsilon of a shift; "
            "the fit is this project's (docs/estimators.md)"
        ),
        details={
            **_details(best, ends),
            "epsilon_known_round": epsilon_of_mu(max(best.shift, 0.0), setting.delta),
            **null.details(),
        },
    )


def _likelihood(setting: AuditSetting, known: StandardScores | None) -> ShiftLikelihood:
    if known is None:
        setting.require(excluded=2)
        return UnknownNull(in_units(setting)[0])
    if known.rounds == 1:
        return KnownNull(known.included)
    return LargestOfRounds(known)


def _critical(setting: AuditSetting) -> float:
    """The critical value of twice the log-likelihood ratio.

    It is n log(1 + t^2 / (n - 1)) with Student's t, by which the interval for the mean of n
    Gaussian values of unknown deviation is exact; for large n the quantile of chi-square.
    """
    freedom = setting.scores.num_included - 1
    t = float(special.stdtrit(freedom, (1 + setting.confidence) / 2))
    return (freedom + 1) * math.log1p(t * t / freedom)


def _interval(
    likelihood: ShiftLikelihood, best: ShiftedLaw, critical: float
) -> tuple[ShiftedLaw, ShiftedLaw]:
    """The laws with the least and the largest shift that the likelihood ratio allows."""
    if likelihood.has_no_spread:
        return replace(best, shift=0.0), replace(best, shift=math.inf)
    top = likelihood.profile(best.shift)[0]

    def excess(shift: float) -> float:
        return 2 * (top - likelihood.profile(shift)[0]) - critical

    lower, upper = (_end(excess, best.shift, step, likelihood.least) for step in (-0.1, 0.1))
    return likelihood.profile(lower)[1], likelihood.profile(upper)[1]


def _end(excess: Callable[[float], float], start: float, step: float, least: float) -> float:
    """Where the excess turns positive on one side of the start; the least shift if it does not."""
    near, far = start, max(start + step, least)
    while excess(far) < 0:
        if far == least or abs(far - start) > _LARGEST_STEP:
            return far
        step *= 2
        near, far = far, max(start + step, least)
    return float(optimize.brentq(excess, near, far, rtol=1e-8, xtol=1e-8))


def _epsilon(law: ShiftedLaw, delta: float) -> float:
    shift = max(law.shift, 0.0)
    if law.rounds == 1:
        return epsilon_of_mu(shift, delta)
    return epsilon_of_largest(law.rounds, shift, delta)


def _assumption(known: StandardScores | None) -> str:
    if known is None:
        return (
            "Included and excluded scores are Gaussian with two means, and included ones spread at "
            "least as much; all canaries' scores are independent."
        )
    if known.rounds == 1:
        return (
            "Included scores are those of the null, shifted by amounts that are independent "
            "between canaries, as noise of a Gaussian mechanism makes them."
        )
    return (
        f"Included scores are the largest of {known.rounds:,} rounds, of which one is shifted, as "
        "noise of a Gaussian mechanism makes them."
    )


def _details(best: ShiftedLaw, ends: tuple[ShiftedLaw, ShiftedLaw]) -> dict[str, Detail]:
    return {
        "shift": best.shift,
        "shift_lower": ends[0].shift,
        "shift_upper": ends[1].shift,
        "spread": best.spread,
        "rounds": best.rounds,
    }
