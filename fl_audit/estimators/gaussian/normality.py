"""The Anderson-Darling statistic: how far a sample is from any Gaussian."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from fl_audit.estimators.laws import Gaussian
from fl_audit.estimators.laws.gaussian import scaled_to_one

_ASYMPTOTIC_CRITICAL_VALUES = {0.15: 0.576, 0.10: 0.656, 0.05: 0.787, 0.025: 0.918, 0.01: 1.092}


@dataclass(frozen=True)
class AndersonDarling:
    """The Anderson-Darling statistic and the values it exceeds by chance.

    Attributes:
      statistic: A^2; a larger value means further from Gaussian.
      critical_values: Critical value at this sample size for each significance level.
    """

    statistic: float
    critical_values: dict[float, float]


def anderson_darling(values: npt.ArrayLike) -> AndersonDarling:
    """The Anderson-Darling statistic for normality with mean and deviation estimated.

    The test is case 3 of Stephens (1974), "EDF statistics for goodness of fit", with his correction
    of the critical values for sample size; Andrew et al. (2023), Table 4. The deviation here is the
    sample one (ddof=1), as in that test.

    Args:
      values: Finite scores, not all equal, float64 of shape (n,) with n >= 3.

    Raises:
      ValueError: If there are fewer than 3 values or they are all equal.

    >>> test = anderson_darling(np.linspace(-1, 1, 1000))
    >>> round(test.critical_values[0.01], 3), test.statistic > test.critical_values[0.01]
    (1.088, True)
    """
    sample = np.sort(np.asarray(values, dtype=np.float64))
    n = len(sample)
    if n < 3 or sample[0] == sample[-1]:
        raise ValueError("values must be at least 3 and not all equal")
    sample, _ = scaled_to_one(sample)
    fitted = Gaussian(float(np.mean(sample)), float(np.std(sample, ddof=1)))
    weights = (2 * np.arange(1, n + 1) - 1) / n
    statistic = -n - np.sum(weights * (fitted.logcdf(sample) + fitted.logsf(sample)[::-1]))
    shrink = 1 + 4 / n - 25 / n**2
    critical = {level: value / shrink for level, value in _ASYMPTOTIC_CRITICAL_VALUES.items()}
    return AndersonDarling(float(statistic), critical)
