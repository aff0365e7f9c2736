"""Epsilon* of two laws, over all thresholds or over those with moderate error rates."""

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from fl_audit.array_types import FloatArray
from fl_audit.estimators.arguments import check_delta
from fl_audit.estimators.epsilon_star.model_epsilon import ModelEpsilon, Ratio
from fl_audit.estimators.gaussian.best_threshold import Guess, epsilon_of_laws
from fl_audit.estimators.laws import Law


def epsilon_star_of_laws(members: Law, non_members: Law, delta: float) -> ModelEpsilon:
    """Epsilon* over the thresholds where FPR and FNR lie in (delta, 1 - delta).

    This is what the paper's experiments compute: log sup over thresholds of the four ratios and
    1 (equation after 9), without rates outside (delta, 1 - delta) (its footnote 2 and appendix B,
    8.1). It never exceeds log((1 - 2 delta) / delta), hence is 0 from delta = 1/3 on. The paper
    takes the maximum over 2 million thresholds, equally spaced quantiles of both laws, which do
    not resolve rates near 1e-6 and below; here it is the supremum, to about 1e-9 relative.

    Args:
      members: Law of a statistic on training points; exchanging the laws changes nothing.
      non_members: Law of the statistic on other points.
      delta: The delta of differential privacy, in [0, 1). With delta 0 nothing is left out, and the
        tails of two different laws give infinity.

    Returns:
      The largest ratio; its threshold is one on the statistic: "at least the threshold" means
        member.

    Raises:
      InputError: If delta is out of range.

    >>> from fl_audit.estimators.laws import Gaussian
    >>> found = epsilon_star_of_laws(Gaussian(1, 1), Gaussian(0, 1), 1e-5)
    >>> round(found.epsilon, 2)
    3.98
    """
    check_delta(delta)
    if delta == 0 or members == non_members:
        return epsilon_star_over_all_thresholds(members, non_members, delta)
    # Beyond delta = 1/2 the interval is empty; at 1/2 no ratio exceeds 1 either.
    rate = min(delta, 0.5)
    return epsilon_star_over_all_thresholds(
        _Clipped(members, rate), _Clipped(non_members, rate), delta
    )


def epsilon_star_over_all_thresholds(members: Law, non_members: Law, delta: float) -> ModelEpsilon:
    """Epsilon* over all thresholds, however small the rates: Definition 2 with all thresholds.

    It is the log sup of the four ratios and 1; Negoescu et al. (2024), equation after 9. Arguments
    and result are those of `epsilon_star_of_laws`.

    Raises:
      InputError: If delta is out of range.

    >>> from fl_audit.estimators.laws import Gaussian
    >>> found = epsilon_star_over_all_thresholds(Gaussian(1, 1), Gaussian(0, 1), 1e-5)
    >>> round(found.epsilon, 2)  # the Gaussian mechanism's: Balle & Wang (2018)
    4.38
    """
    check_delta(delta)
    if members == non_members:
        return ModelEpsilon(0.0, None, None)
    first = epsilon_of_laws(non_members, members, delta)
    second = epsilon_of_laws(members, non_members, delta)
    if first.epsilon >= second.epsilon:
        return ModelEpsilon(first.epsilon, first.threshold, _ratio(_MEMBERS_ABOVE, first.guess))
    return ModelEpsilon(second.epsilon, second.threshold, _ratio(_MEMBERS_BELOW, second.guess))


_MEMBERS_ABOVE: dict[Guess, Ratio] = {
    "included": "(TPR - delta) / FPR",
    "excluded": "(TNR - delta) / FNR",
}
_MEMBERS_BELOW: dict[Guess, Ratio] = {
    "included": "(FPR - delta) / TPR",
    "excluded": "(FNR - delta) / TNR",
}
"""The ratio to which each guess belongs where the laws were exchanged."""


def _ratio(names: dict[Guess, Ratio], guess: Guess | None) -> Ratio | None:
    return None if guess is None else names[guess]


@dataclass(frozen=True)
class _Clipped:
    """A law whose tail probabilities are moved into [rate, 1 - rate].

    With rate >= delta, the supremum of the ratios over all thresholds with clipped rates is the
    one over the thresholds with both rates inside. Take one where FNR is below `rate` (the other
    three cases are alike) and the higher threshold where FNR is `rate`, at which FPR is no
    larger. Clipped, the first two ratios are no smaller there, and at the first threshold
    (FNR - delta) / TNR <= (rate - delta) / rate and (FPR - delta) / TPR <= (1 - rate - delta) /
    (1 - rate) are below 1. Where no threshold has both rates inside (laws far apart, or a
    deviation of 0), clipping gives the limit of laws that just have one.
    """

    law: Law
    rate: float

    def logsf(self, x: npt.ArrayLike) -> FloatArray:
        """Log P(X >= x), moved into the interval."""
        return self._moved(self.law.logsf(x))

    def logcdf(self, x: npt.ArrayLike) -> FloatArray:
        """Log P(X <= x), moved into the interval."""
        return self._moved(self.law.logcdf(x))

    def isf(self, p: npt.ArrayLike) -> FloatArray:
        """The quantile of the law itself, as thresholds are not moved."""
        return self.law.isf(p)

    def ppf(self, p: npt.ArrayLike) -> FloatArray:
        """The quantile of the law itself."""
        return self.law.ppf(p)

    def reflected(self) -> "_Clipped":
        """The law of -X, clipped at the same rate."""
        return _Clipped(self.law.reflected(), self.rate)

    def _moved(self, log_p: FloatArray) -> FloatArray:
        return np.asarray(np.clip(log_p, math.log(self.rate), math.log1p(-self.rate)))
