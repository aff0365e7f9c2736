"""The tail of a weighted sum of random signs whose weights are known to be spread out.

S = sum a_i s_i, with independent fair signs s_i, sum a_i^2 = 1, A3 = sum |a_i|^3, A4 = sum a_i^4.
For z > 0 and the tilted law P_h(s) = P(s) exp(h S - K(h)) with K(h) = sum log cosh(a_i h),

    P(S >= z) = E_h[exp(K(h) - h S); S >= z].                                           (1)

At h = z:

1. K(z) <= z^2 / 2, as log cosh x <= x^2 / 2.
2. Under P_z the signs are independent with means t_i = tanh(a_i z). So S has the mean
   m = sum a_i t_i <= sum a_i^2 z = z and the variance v = sum a_i^2 sech^2(a_i z). As
   sech^2(sqrt u) is convex in u >= 0 (the derivative of tanh^2(sqrt u) is sech^2(x) tanh(x) / x at
   x = sqrt u, a product of two falling positive functions), Jensen's inequality with the weights
   a_i^2 gives v >= w := sech^2(z sqrt(A4)).
3. E_z |s_i - t_i|^3 = 1 - t_i^4 <= 1. So by the Berry-Esseen theorem for summands of different laws
   P_z(S <= x) differs from the Gaussian with mean m and variance v nowhere by more than
   D = C A3 / w^(3/2), C = 0.5600 (Shevtsova 2010, "An improvement of convergence rate estimates in
   the Lyapunov theorem", Doklady Mathematics 82, 862-864); the same for P_z(S < x).
4. Integrating (1) by parts, where exp(-z x) falls from x = z on and P_z(z <= S <= x) is at most its
   Gaussian value plus 2 D: E_z[exp(-z S); S >= z] <= E[exp(-z G); G >= z] + 2 D exp(-z^2), with G
   that Gaussian.
5. E[exp(-z G); G >= z] grows with the mean of G as long as that is at most z, and at mean z it is
   exp(-z^2) M(z sqrt v), M(c) = exp(c^2 / 2) P(Z >= c), which falls with v. So by 2 it is at most
   exp(-z^2) M(z sqrt w).

Together P(S >= z) <= exp(-z^2 / 2) (M(z sqrt w) + 2 D). With A4 = 0 and D = 0 this is P(Z >= z)
exactly: the price is 2 D / M(z), about 2 D sqrt(2 pi) z of the tail.

In log z the bound's logarithm falls: that of M(z sqrt w) rises by at most A4 z^2, that of D by at
most 3 A4 z^2, and -z^2 / 2 falls by z^2. So it falls where A4 <= 1/3, and is only used there.
"""

import math

import numpy as np
import numpy.typing as npt
from scipy import special

from fl_audit.array_types import FloatArray
from fl_audit.estimators.laws.concentration import Concentration
from fl_audit.estimators.laws.rademacher import rademacher_log_tail_bound

_BERRY_ESSEEN = 0.5600
"""The constant of Shevtsova (2010), for independent summands that need not have one law."""

_LARGEST_FOURTH_POWERS = 1 / 3
"""The largest A4 of the last paragraph above; beyond, the bound for all weights is smaller."""


def rademacher_sum_log_tail(z: npt.ArrayLike, concentration: Concentration | None) -> FloatArray:
    """Log of an upper bound on P(S >= z) for a sum S of signs whose squared weights sum to 1.

    The least of three bounds: for all weights (rademacher.py), by Berry and Esseen's theorem, and
    by the same theorem under the tilted law (at the top of this file). It never rises with z.

    Args:
      z: Points in standard deviations of S, float64 of any shape.
      concentration: What is known of the weights; None if nothing is.

    Returns:
      Logs of the bounds, float64 of the shape of z, at most 0.

    >>> dense = Concentration(cubes=0.0039, fourth_powers=1.8e-5)
    >>> excess = rademacher_sum_log_tail([0.0, 5.5], dense) - special.log_ndtr([0.0, -5.5])
    >>> np.exp(excess).round(3).tolist()
    [1.004, 1.062]
    """
    z = np.asarray(z, dtype=np.float64)
    whatever_weights = rademacher_log_tail_bound(z, 1)
    if concentration is None:
        return whatever_weights
    least = np.minimum(whatever_weights, _berry_esseen(z, concentration))
    if concentration.fourth_powers > _LARGEST_FOURTH_POWERS:
        return np.asarray(least)
    tilted = np.where(z > 0, _tilted(np.maximum(z, 0.0), concentration), 0.0)
    return np.asarray(np.minimum(least, tilted))


def _berry_esseen(z: FloatArray, concentration: Concentration) -> FloatArray:
    """Log of P(Z >= z) + C A3, at most 0; log1p keeps the digits of what is left of 1."""
    error = _BERRY_ESSEEN * concentration.cubes
    rest = np.maximum(special.ndtr(z) - error, 0.0)
    with np.errstate(divide="ignore"):
        return np.where(z < 0, np.log1p(-rest), np.log(np.minimum(special.ndtr(-z) + error, 1.0)))


def _tilted(z: FloatArray, concentration: Concentration) -> FloatArray:
    """Log of exp(-z^2 / 2) (M(z sqrt w) + 2 D) for z at least 0."""
    x = z * math.sqrt(concentration.fourth_powers)
    log_cosh = x + np.log1p(np.exp(-2 * x)) - math.log(2)
    log_mills = np.log(special.erfcx(z * np.exp(-log_cosh) / math.sqrt(2)) / 2)
    log_error = math.log(2 * _BERRY_ESSEEN * concentration.cubes) + 3 * log_cosh
    return np.asarray(np.logaddexp(log_mills, log_error) - z * z / 2)
