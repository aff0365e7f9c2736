"""The beta distribution where SciPy is inaccurate: counts of millions, quantiles in tails."""

import numpy as np
import numpy.typing as npt
from scipy import special

from fl_audit.array_types import FloatArray

_FEW = 200_000
"""Sum of the shapes up to which scipy 1.9's betainc is accurate to 3e-10."""


def beta_cdf(a: npt.ArrayLike, b: npt.ArrayLike, x: npt.ArrayLike) -> FloatArray:
    """P(Beta(a, b) <= x), to about 3e-10 absolute for shapes up to millions.

    For large shapes scipy 1.9's betainc truncates its continued fraction near the mean: it is off
    by 4e-7 at a = b = 1e6, by 1e-3 at 5e6 and by 0.3 at 5e8. There the distribution object of
    scipy.stats, which is Boost's, is good to 1e-8 even in the last case; it takes half a second to
    import.

    >>> round(float(beta_cdf(np.array(1.0), np.array(2.0), np.array(0.1))), 12)  # 1 - (1 - x)^2
    0.19
    """
    if np.max(np.add(a, b), initial=0.0) <= _FEW:
        return np.asarray(special.betainc(a, b, x))
    from scipy import stats

    with np.errstate(all="ignore"):  # Boost's own intermediate steps
        # `cdf` without its checks of the arguments, which take longer than a few hundred values.
        return np.asarray(stats.beta._cdf(x, a, b))


_CLOSE = 1e-9
"""A relative Newton step of this size leaves an error below rounding."""


def beta_quantile(a: npt.ArrayLike, b: npt.ArrayLike, p: npt.ArrayLike) -> FloatArray:
    """The x with P(Beta(a, b) <= x) = p, to about 1e-12 relative for p from 1e-300 to 0.9.

    scipy's betaincinv is only the first guess: in the tails it is off by 1e-5 and now and then
    entirely wrong (1 - betaincinv(0.5, 1000.5, 1 - 1e-9) is 3e-9 in scipy 1.9 instead of 0.98).

    >>> round(float(beta_quantile(1.0, 2.0, 0.19)), 12)  # 1 - sqrt(1 - p)
    0.1
    """
    shape = np.broadcast_shapes(np.shape(a), np.shape(b), np.shape(p))
    a, b, p = (np.broadcast_to(np.asarray(v, dtype=np.float64), shape).ravel() for v in (a, b, p))
    x = np.nan_to_num(special.betaincinv(a, b, p))
    x = np.where((x > 0) & (x < 1), x, a / (a + b))
    low, high = np.zeros_like(x), np.ones_like(x)
    unsettled = np.arange(len(x))
    for _ in range(200):
        if len(unsettled) == 0:
            break
        i = unsettled
        reached = beta_cdf(a[i], b[i], x[i])
        low[i] = np.where(reached < p[i], x[i], low[i])
        high[i] = np.where(reached < p[i], high[i], x[i])
        step = _newton(a[i], b[i], p[i], x[i], reached)
        middle = (low[i] + high[i]) / 2
        new = np.where((step >= low[i]) & (step <= high[i]), step, middle)
        unsettled = i[np.abs(new - x[i]) > _CLOSE * np.minimum(x[i], 1 - x[i])]
        x[i] = new
    return np.asarray(x.reshape(shape))


def _newton(
    a: FloatArray, b: FloatArray, p: FloatArray, x: FloatArray, reached: FloatArray
) -> FloatArray:
    """A Newton step in log x and log p, where the lower tail is a straight line."""
    with np.errstate(all="ignore"):  # a step that fails here is replaced by bisection
        log_density = a * np.log(x) + (b - 1) * np.log1p(-x) - special.betaln(a, b)
        slope = np.exp(log_density - np.log(reached))
        return np.asarray(x * np.exp((np.log(p) - np.log(reached)) / slope))
