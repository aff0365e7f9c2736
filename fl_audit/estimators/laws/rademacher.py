"""A bound on the null tail of a Rademacher canary's cosine, for any model at all."""

import math

import numpy as np
import numpy.typing as npt
from scipy import special

from fl_audit.array_types import FloatArray

_LOG_FACTOR = -math.log(4) - float(special.log_ndtr(-math.sqrt(2)))
"""Log of 1 / (4 P(Z >= sqrt(2))) = 3.178..., the smallest factor for which the bound holds."""

_ABOVE_ONE = 1 + 1e-9
"""The largest y taken to be at most 1, as one that is 1 in exact arithmetic may be rounded up."""


def rademacher_log_tail_bound(cosine: npt.ArrayLike, dim: int) -> FloatArray:
    """Log of an upper bound on P(cosine of a random canary >= `cosine`), whatever the model.

    The canary's entries are independent fair signs over sqrt(dim), and the model is any vector
    that does not depend on them; a Hadamard canary by itself has the same law. Its cosine is
    S / sqrt(dim), with S a sum of signs whose weights have squares summing to 1. How S is spread
    depends on the weights, and its tail can exceed the Gaussian one: with two equal weights
    P(S >= sqrt(2)) is 1/4, and P(Z >= sqrt(2)) is 0.079. So neither N(0, 1/dim) nor the exact
    law of a uniform direction is a bound. With y = sqrt(dim) * cosine, this is the least of

    - 1/2 for y > 0 by symmetry;
    - 1/4 for y > 1, since P(|S| <= 1) >= 1/2 (Keller & Klein 2022, "Proof of Tomaszewski's
      conjecture on randomly signed sums", Advances in Mathematics 407, 108558);
    - c P(Z >= y) with c = 1 / (4 P(Z >= sqrt(2))) = 3.178, for a Gaussian Z: the least from
      sqrt(2) on, where two equal weights attain it (Bentkus & Dzindzalieta 2015, "A tight Gaussian
      bound for weighted sums of Rademacher random variables", Bernoulli 21, 1231-1237);

    and 1 for y <= 0. Each is attained: by one weight up to 1 and by two equal ones up to sqrt(2).
    Hoeffding's exp(-y^2 / 2), also for y > 0, is nowhere smaller.

    Args:
      cosine: Cosines, any real numbers, of any shape.
      dim: Number of entries of a canary, at least 1.

    Returns:
      Logs of the bounds, float64 of the shape of the cosines, at most 0.

    Raises:
      ValueError: If dim is below 1.

    >>> np.exp(rademacher_log_tail_bound([-0.1, 0.05, 0.1, 0.2], 200)).round(4).tolist()
    [1.0, 0.5, 0.25, 0.0074]
    """
    if dim < 1:
        raise ValueError(f"dim must be at least 1, got {dim}")
    cosine = np.asarray(cosine, dtype=np.float64)
    positive = cosine > 0
    y = math.sqrt(dim) * np.where(positive, cosine, 1.0)
    near = np.where(y > _ABOVE_ONE, math.log(0.25), math.log(0.5))
    gaussian = _LOG_FACTOR + special.log_ndtr(-y)
    return np.where(positive, np.minimum(near, gaussian), 0.0)
