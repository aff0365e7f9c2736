"""The priors of epsilon and of the attacks' strength, before any count is seen."""

import math
from dataclasses import dataclass, field

import numpy as np
from scipy import special

from fl_audit.array_types import FloatArray
from fl_audit.errors import InputError, nearest

_LARGEST_VARIANCE = 1e6
"""Beyond it the prior says nothing against an epsilon of 1,000, and the grid resolves no counts."""


@dataclass(frozen=True)
class BetaStrength:
    """The prior of an unknown strength s of the attacks: s ~ Beta(a, b).

    Yıldırım et al. (2025), section 2.1. Their experiments use a = b = 1.

    Attributes:
      a: First shape, above 0.
      b: Second shape, above 0.

    Raises:
      InputError: If a shape is not a finite number above 0.
    """

    a: float = 1.0
    b: float = 1.0

    def __post_init__(self) -> None:
        """Check the fields, so that no later step has to."""
        for name, shape in (("a", self.a), ("b", self.b)):
            if not 0 < shape < math.inf:
                raise InputError(f"strength's {name} must be a finite number above 0, got {shape}")

    def moments_below(self, strength: FloatArray) -> FloatArray:
        """The expectations of 1, s and s^2 over s <= strength, for strengths in [0, 1].

        >>> BetaStrength().moments_below(np.array(0.5)).round(6).tolist()
        [0.5, 0.125, 0.041667]
        """
        if self.a == self.b == 1:
            return np.stack([strength, strength**2 / 2, strength**3 / 3])
        mean = self.a / (self.a + self.b)
        square = mean * (self.a + 1) / (self.a + self.b + 1)
        return np.stack(
            [
                factor * special.betainc(self.a + power, self.b, strength)
                for power, factor in enumerate((1.0, mean, square))
            ]
        )

    def logpdf(self, strength: FloatArray) -> FloatArray:
        """Log of the density; -inf outside (0, 1)."""
        inside = (strength > 0) & (strength < 1)
        safe = np.where(inside, strength, 0.5)
        log_density = (self.a - 1) * np.log(safe) + (self.b - 1) * np.log1p(-safe)
        return np.where(inside, log_density - special.betaln(self.a, self.b), -np.inf)


@dataclass(frozen=True)
class FixedStrength:
    """The strength s of the attacks, taken as known.

    With 0 the error rates of an attack are uniform on all of R(epsilon, delta). With 1 every attack
    is the best possible one on the worst challenge base, as most auditing assumes (Yıldırım et al.
    2025, Remark 2, which warns of the overconfidence that follows).

    Attributes:
      value: The strength s, in [0, 1].

    Raises:
      InputError: If the value is out of range.
    """

    value: float

    def __post_init__(self) -> None:
        """Check the field, so that no later step has to."""
        if not 0 <= self.value <= 1:
            raise InputError(f"strength must be in [0, 1], got {self.value}")


@dataclass(frozen=True)
class CorrelationPrior:
    """The prior of tau and rho, the two correlations of equation 7.

    Here tau ~ normal(0, tau_variance) cut to (-1/(N - 1), 1) for the largest N, where every
    variance is positive; and rho given tau is uniform where every covariance matrix is definite:
    rho^2 < (1/N0 + (1 - 1/N0) tau) (1/N1 + (1 - 1/N1) tau). The paper leaves both to a supplement;
    these are the choices of its authors' public program, with its variance of 1e-4.

    Attributes:
      tau_variance: Variance of tau's prior before it is cut, above 0.

    Raises:
      InputError: If the variance is not a finite number above 0.
    """

    tau_variance: float = 1e-4

    def __post_init__(self) -> None:
        """Check the field, so that no later step has to."""
        if not 0 < self.tau_variance < math.inf:
            raise InputError(
                f"tau_variance must be a finite number above 0, got {self.tau_variance}"
            )


@dataclass(frozen=True)
class Prior:
    """The priors of the model, independent of each other.

    Attributes:
      epsilon_variance: Variance of the normal law that, cut to [0, inf), is epsilon's prior, in (0,
        1,000,000].
      strength: Prior of the attacks' strength s. Given epsilon and s, the error rates of each
        attack are uniform on R_s(epsilon, delta), which is R(epsilon, delta) without R(s epsilon, s
        delta) (equation 2): a larger s keeps them away from blind guessing.
      correlation: Prior of tau and rho; only the correlated model uses it.

    Raises:
      InputError: If a number is out of range.
    """

    epsilon_variance: float = 10.0
    strength: BetaStrength | FixedStrength = field(default_factory=BetaStrength)
    correlation: CorrelationPrior = field(default_factory=CorrelationPrior)

    def __post_init__(self) -> None:
        """Check the fields, so that no later step has to."""
        if not 0 < self.epsilon_variance <= _LARGEST_VARIANCE:
            raise InputError(
                f"epsilon_variance must be a number above 0 and at most {_LARGEST_VARIANCE:,.0f}, "
                f"got {self.epsilon_variance}"
            )

    def epsilon_logpdf(self, epsilon: FloatArray) -> FloatArray:
        """Log density of epsilon, elementwise for epsilon >= 0."""
        constant = 0.5 * math.log(2 / (math.pi * self.epsilon_variance))
        return np.asarray(constant - epsilon**2 / (2 * self.epsilon_variance))


ALPHA_PRIORS: dict[str, BetaStrength | FixedStrength] = {
    "strength": BetaStrength(),
    "uniform": FixedStrength(0.0),
    "strongest": FixedStrength(1.0),
}
"""The paper's laws of the error rates given epsilon and delta, by the name a command takes.

`strength` is equation 2 with s ~ Beta(1, 1), `uniform` its start, uniform on R(epsilon, delta), and
`strongest` the special case s = 1 of Remark 2.
"""


def alpha_prior(name: str) -> BetaStrength | FixedStrength:
    """The prior of the strength that goes by this name, a number or the shapes of a Beta law.

    Raises:
      InputError: If the name is neither a known one, nor a number in [0, 1], nor beta:A,B.

    >>> alpha_prior("uniform"), alpha_prior("0.6")
    (FixedStrength(value=0.0), FixedStrength(value=0.6))
    >>> alpha_prior("beta:2,5")
    BetaStrength(a=2.0, b=5.0)
    """
    if name in ALPHA_PRIORS:
        return ALPHA_PRIORS[name]
    kind, _, shapes = name.partition(":")
    try:
        if kind == "beta":
            a, b = map(float, shapes.split(","))
        else:
            value = float(name)
    except ValueError as error:
        raise InputError(
            f"unknown alpha prior {name!r}: {nearest(name, ALPHA_PRIORS)} "
            "(or a number in [0, 1], a fixed strength; or beta:A,B, as in beta:2,5)"
        ) from error
    return BetaStrength(a, b) if kind == "beta" else FixedStrength(value)
