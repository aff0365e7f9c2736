"""The cdf of the beta distribution, also for counts of millions."""

import numpy as np
import numpy.typing as npt
from scipy import special

from fl_audit.array_types import FloatArray

_FEW = 200_000
"""Sum of the shapes up to which scipy 1.9's betainc is good to 3e-10."""


def beta_cdf(a: npt.ArrayLike, b: npt.ArrayLike, x: npt.ArrayLike) -> FloatArray:
    """P(Beta(a, b) <= x), to about 3e-10 absolute for shapes up to millions.

    For large shapes scipy 1.9's betainc breaks off its continued fraction near the mean: it is off
    by 4e-7 at a = b = 1e6, by 1e-3 at 5e6 and by 0.3 at 5e8. There the distribution object of
    scipy.stats, which is Boost's, is good to 1e-8 even in the last case; it takes half a second to
    import.

    Args:
      a: First shapes, above 0; broadcast with x.
      b: Second shapes, above 0.
      x: Points in [0, 1].

    >>> round(float(beta_cdf(np.array(1.0), np.array(2.0), np.array(0.1))), 12)  # 1 - (1 - x)^2
    0.19
    """
    if np.max(np.add(a, b), initial=0.0) <= _FEW:
        return np.asarray(special.betainc(a, b, x))
    from scipy import stats

    with np.errstate(all="ignore"):  # Boost's own intermediate steps
        # `cdf` without its checks of the arguments, which take longer than a few hundred values.
        return np.asarray(stats.beta._cdf(x, a, b))
