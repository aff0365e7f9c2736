"""One-shot audit of the Gaussian mechanism from a single release.

Andrew et al. (2023), arXiv:2302.03098, section 3: the mechanism is run once as a black box on
many random canaries, and the noise is estimated from the canaries' cosines with the release.
"""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np

from fl_audit.array_types import Float32Array
from fl_audit.canaries.families import CanaryFamily, GaussianFamily
from fl_audit.errors import InputError
from fl_audit.estimators.gaussian.mechanism import (
    epsilon_of_sigma,
    estimate_sigma,
    sigma_of_epsilon,
)
from fl_audit.progress import bar
from fl_audit.resources import num_cores
from fl_audit.seeds import Stream, generator

# The number of parts of the canaries that are summed in parallel. It does not depend on the number
# of cores, so that rounding does not either.
_SHARES = 8

_MOST_DIM = 10**9
_MOST_VECTORS = 10**8
_MOST_NUMBERS = 10**12
"""The most random numbers that one audit draws: hours at 10^8 a second."""


@dataclass(frozen=True)
class MechanismAudit:
    """The one-shot audits of one mechanism.

    Attributes:
      sigma: The standard deviation of the mechanism's noise, as a multiple of its sensitivity.
      epsilons: The estimated epsilon of each trial.
    """

    sigma: float
    epsilons: tuple[float, ...]

    @property
    def mean(self) -> float:
        return float(np.mean(self.epsilons))

    @property
    def std(self) -> float:
        """The population standard deviation (ddof=0) of the estimates; 0 for one trial."""
        return float(np.std(self.epsilons))

    def to_json(self) -> dict[str, object]:
        """The JSON object that `fl-audit mechanism --json` prints."""
        return {
            "sigma": self.sigma,
            "mean": self.mean,
            "std": self.std,
            "epsilons": list(self.epsilons),
        }


def audit_gaussian_mechanism(
    *, epsilon: float, delta: float, dim: int, num_canaries: int, num_trials: int, seed: int
) -> MechanismAudit:
    """Audits a Gaussian mechanism of known epsilon, once per trial (Andrew et al., Table 1).

    The estimate is consistent while num_canaries / dim is small compared with sigma^2; otherwise
    the norm of the canaries' sum counts as noise, and the estimate of epsilon is too small. Each
    trial has new canaries, and depends on the seed and its index alone.

    Raises InputError if an argument is out of range, or a release does not fit in memory.
    """
    for name, value, least in (
        ("dim", dim, 2),
        ("canaries", num_canaries, 1),
        ("trials", num_trials, 1),
        ("seed", seed, 0),
    ):
        if value < least:
            raise InputError(f"{name} must be at least {least}, got {value}")
    for name, size, most in (
        ("dim", dim, _MOST_DIM),
        ("canaries x trials", num_canaries * num_trials, _MOST_VECTORS),
        ("dim x canaries x trials", dim * num_canaries * num_trials, _MOST_NUMBERS),
    ):
        if size > most:
            raise InputError(f"{name} must be at most {most:,}, got {size:,}")
    sigma = sigma_of_epsilon(epsilon, delta)
    trials = bar(range(num_trials), "trials", "trial")
    try:
        estimates = [_estimate(sigma, dim, num_canaries, seed, trial) for trial in trials]
    except MemoryError as error:
        raise InputError(f"dim {dim} is too large: a release does not fit in memory") from error
    return MechanismAudit(sigma, tuple(epsilon_of_sigma(estimate, delta) for estimate in estimates))


def release(family: CanaryFamily, sigma: float, rng: np.random.Generator) -> Float32Array:
    """The sum of all canaries' vectors plus N(0, sigma^2 I) noise, float32 of shape (dim,).

    Memory is a few vectors for any number of canaries.
    """
    noise = np.float32(sigma) * rng.standard_normal(family.dim, np.float32)
    return _sum_of_vectors(family) + noise


def _estimate(sigma: float, dim: int, num_canaries: int, seed: int, trial: int) -> float:
    rng = generator(seed, Stream.RELEASE_TRIAL, trial)
    family = GaussianFamily(int(rng.integers(2**63)), num_canaries, dim)
    return estimate_sigma(family.cosines(release(family, sigma, rng)), dim)


def _sum_of_vectors(family: CanaryFamily) -> Float32Array:
    def sum_of_share(share: int) -> Float32Array:
        total = np.zeros(family.dim, np.float32)
        for canary in range(share, family.num_canaries, _SHARES):
            total += family.vector(canary)
        return total

    with ThreadPoolExecutor(num_cores()) as pool:
        shares = list(pool.map(sum_of_share, range(_SHARES)))
    return np.asarray(np.sum(shares, axis=0, dtype=np.float32))
