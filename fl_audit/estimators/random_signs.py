"""The tail of a weighted sum of random signs, such as a Rademacher or Hadamard canary's cosine.

`rademacher_log_tail_bound` holds for any weights, that is, for any model. If the weights are spread
over many coordinates (`Concentration`), `rademacher_sum_log_tail` is close to the Gaussian tail.
The proof of the third bound in `rademacher_sum_log_tail`:

S = sum a_i s_i, with independent fair signs s_i, sum a_i^2 = 1, A3 = sum |a_i|^3, A4 = sum a_i^4.
For z > 0 and the tilted distribution P_h(s) = P(s) exp(h S - K(h)) with K(h) = sum log cosh(a_i h),

    P(S >= z) = E_h[exp(K(h) - h S); S >= z].                                           (1)

At h = z:

1. K(z) <= z^2 / 2, as log cosh x <= x^2 / 2.
2. Under P_z the signs are independent with means t_i = tanh(a_i z). So S has the mean
   m = sum a_i t_i <= sum a_i^2 z = z and the variance v = sum a_i^2 sech^2(a_i z). As
   sech^2(sqrt u) is convex in u >= 0 (the derivative of tanh^2(sqrt u) is sech^2(x) tanh(x) / x at
   x = sqrt u, a product of two falling positive functions), Jensen's inequality with the weights
   a_i^2 gives v >= w := sech^2(z sqrt(A4)).
3. E_z |s_i - t_i|^3 = 1 - t_i^4 <= 1. So by the Berry-Esseen theorem for summands of different
   distributions P_z(S <= x) differs from the Gaussian with mean m and variance v nowhere by more
   than D = C A3 / w^(3/2), C = 0.5600 (Shevtsova 2010, "An improvement of convergence rate
   estimates in the Lyapunov theorem", Doklady Mathematics 82, 862-864); the same for P_z(S < x).
4. Integrate (1) by parts: exp(-z x) falls from x = z on and P_z(z <= S <= x) is at most its
   Gaussian value plus 2 D, so E_z[exp(-z S); S >= z] <= E[exp(-z G); G >= z] + 2 D exp(-z^2), with
   G that Gaussian.
5. E[exp(-z G); G >= z] grows with the mean of G as long as this mean is at most z, and at mean z it
   is exp(-z^2) M(z sqrt v), M(c) = exp(c^2 / 2) P(Z >= c), which falls with v. So by 2 it is at
   most exp(-z^2) M(z sqrt w).

Together P(S >= z) <= exp(-z^2 / 2) (M(z sqrt w) + 2 D). With A4 = 0 and D = 0 this is P(Z >= z)
exactly: the price is a share 2 D / M(z) of the tail, about 2 D sqrt(2 pi) z.

The bound falls with z if A4 <= 1/3, and is only used then: per unit of log z, log M(z sqrt w)
rises by at most A4 z^2, log D by at most 3 A4 z^2, and -z^2 / 2 falls by z^2.
"""

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy import special

from fl_audit.array_types import FloatArray

_LOG_FACTOR = -math.log(4) - float(special.log_ndtr(-math.sqrt(2)))
"""Log of 1 / (4 P(Z >= sqrt(2))) = 3.178..., the least factor that makes the tail of Z a bound."""

_ABOVE_ONE = 1 + 1e-9
"""The largest sqrt(dim) * cosine that counts as at most 1: an exact 1 may be rounded up."""


def rademacher_log_tail_bound(cosine: npt.ArrayLike, dim: int) -> FloatArray:
    """Log of an upper bound on P(cosine of a random canary >= `cosine`), for any model.

    The canary's entries are independent fair signs / sqrt(dim), and the model is any vector that
    does not depend on them; a Hadamard canary by itself has the same distribution. Its cosine is S
    / sqrt(dim), with S a sum of signs whose weights have squares summing to 1. The distribution of
    S depends on the weights, and its tail can exceed the Gaussian one: with two equal weights P(S
    >= sqrt(2)) is 1/4, and P(Z >= sqrt(2)) is 0.079. So neither N(0, 1/dim) nor the exact
    distribution of a uniform direction is a bound. With y = sqrt(dim) * cosine, the bound here is
    the least of

    - 1/2 for y > 0 by symmetry;
    - 1/4 for y > 1, since P(|S| <= 1) >= 1/2 (Keller & Klein 2022, "Proof of Tomaszewski's
      conjecture on randomly signed sums", Advances in Mathematics 407, 108558);
    - c P(Z >= y) with c = 1 / (4 P(Z >= sqrt(2))) = 3.178, for a Gaussian Z: the least of the three
      from y = sqrt(2) on; at sqrt(2) two equal weights attain it (Bentkus & Dzindzalieta 2015, "A
      tight Gaussian bound for weighted sums of Rademacher random variables", Bernoulli 21,
      1231-1237);

    and 1 for y <= 0. The first two are attained: by one weight up to y = 1, and by two equal ones
    up to sqrt(2). Hoeffding's exp(-y^2 / 2), for y > 0, is nowhere smaller.

    Args:
      cosine: Cosines, any real numbers, of any shape.
      dim: Number of entries of a canary, at least 1.

    Returns:
      Logs of the bounds, float64 of the shape of the cosines, at most 0.

    Raises:
      ValueError: dim is below 1.

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


_PIECE = 1 << 15
"""Coordinates converted to float64 at a time: 256 kB, within a cache."""

_ROUNDING = 1e-6
"""Relative tolerance of `Concentration`'s checks, as its sums may come from a text file."""


@dataclass(frozen=True)
class Concentration:
    """Two sums over the coordinates of a vector scaled to Euclidean norm 1.

    Both are 1 for a vector with one nonzero coordinate; for m equal nonzero coordinates they are
    m^(-1/2) and 1/m. The Berry-Esseen theorem needs the sum of cubes. This sum is at most the
    square root of the sum of fourth powers (Cauchy and Schwarz) and at most the largest coordinate,
    so replacing it by either would lose power.

    Attributes:
      cubes: The sum of |a_i|^3, in (0, 1].
      fourth_powers: The sum of a_i^4, in (0, 1].

    Raises:
      ValueError: No vector of norm 1 has these sums.

    >>> Concentration(cubes=0.5, fourth_powers=0.25)  # four equal coordinates
    Concentration(cubes=0.5, fourth_powers=0.25)
    """

    cubes: float
    fourth_powers: float

    def __post_init__(self) -> None:
        most = 1 + _ROUNDING
        if not (0 < self.fourth_powers <= most and 0 < self.cubes <= most):
            raise ValueError(
                "cubes and fourth_powers must be in (0, 1], "
                f"got {self.cubes} and {self.fourth_powers}"
            )
        # cubes >= fourth_powers, as |a| <= 1; cubes <= sqrt(fourth_powers), by Cauchy-Schwarz.
        least_cubes, most_cubes = self.fourth_powers, math.sqrt(self.fourth_powers)
        if not least_cubes / most <= self.cubes <= most_cubes * most:
            raise ValueError(
                f"cubes must be in [{least_cubes:g}, {most_cubes:g}] where fourth_powers is "
                f"{self.fourth_powers:g}, got {self.cubes:g}"
            )


def concentration_of(vector: npt.ArrayLike) -> Concentration | None:
    """The concentration of a vector; None for a zero or empty vector, which has no direction.

    Args:
      vector: Real numbers of shape (d,), of any scale and floating-point type; converted to
        float64 piece by piece, which takes little memory.

    Raises:
      ValueError: A coordinate is not finite.

    >>> concentration_of([3.0, 0.0, -3.0, 3.0, 3.0])
    Concentration(cubes=0.5, fourth_powers=0.25)
    >>> concentration_of([0.0, 0.0]) is None
    True
    """
    values = np.asarray(vector)
    if values.size == 0:
        return None
    largest = max(abs(float(values.max())), abs(float(values.min())))
    if not math.isfinite(largest):
        raise ValueError(f"a vector's coordinates must be finite, got {largest}")
    if largest == 0:
        return None
    squares = cubes = fourth_powers = 0.0
    for start in range(0, values.size, _PIECE):
        # In units of the largest, no power overflows, and underflow is negligible.
        size = values[start : start + _PIECE].astype(np.float64)
        size /= largest
        np.abs(size, out=size)
        square = size * size
        squares += float(np.sum(square))
        cubes += float(square @ size)
        fourth_powers += float(square @ square)
    return Concentration(min(cubes * squares**-1.5, 1.0), min(fourth_powers / squares**2, 1.0))


_BERRY_ESSEEN = 0.5600
"""The constant of Shevtsova (2010), for independent summands of different distributions."""

_LARGEST_FOURTH_POWERS = 1 / 3
"""The largest A4 for which the third bound falls with z (end of the proof); above it, the bound
for all weights is smaller.
"""


def rademacher_sum_log_tail(z: npt.ArrayLike, concentration: Concentration | None) -> FloatArray:
    """Log of an upper bound on P(S >= z) for a sum S of signs whose squared weights sum to 1.

    The least of three bounds: for all weights (`rademacher_log_tail_bound`), by Berry and Esseen's
    theorem, and by the same theorem under the tilted distribution (proof in the module's
    docstring). It never rises with z; without a concentration only the first is used.

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
    """Log of P(Z >= z) + C A3, at most 0; log1p preserves the digits of a small complement."""
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
