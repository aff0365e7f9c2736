"""Epsilon* by Gaussian mixtures where a Gaussian does not fit the losses, and how well they fit."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy import special

from fl_audit.array_types import FloatArray
from fl_audit.errors import InputError
from fl_audit.estimators.distributions import Gaussian
from fl_audit.estimators.epsilon_star import (
    LossTransform,
    ModelEpsilon,
    epsilon_star_of_distributions,
)
from fl_audit.estimators.scores import check_delta

_HALVINGS = 200
"""The number of halvings; enough to narrow any interval of floats to two neighbours."""


@dataclass(frozen=True)
class GaussianMixture:
    """A distribution that draws from one of several Gaussians.

    Attributes:
      weights: Probability of each component, positive, with sum 1 (k of them).
      components: The k Gaussians.

    Raises:
      ValueError: If there is no component, the lengths differ, or the weights are no
        probabilities.

    >>> law = GaussianMixture((0.25, 0.75), (Gaussian(-1, 0.1), Gaussian(1, 0.1)))
    >>> float(np.exp(law.logsf(0.0)).round(6)), float(law.ppf(0.125).round(6))
    (0.75, -1.0)
    """

    weights: tuple[float, ...]
    components: tuple[Gaussian, ...]

    def __post_init__(self) -> None:
        """Check the fields, so that no later step has to."""
        if not 0 < len(self.weights) == len(self.components):
            raise ValueError("weights and components must be as many, and at least one")
        if min(self.weights) <= 0 or abs(sum(self.weights) - 1) > 1e-9:
            raise ValueError(f"weights must be positive with sum 1, got {self.weights}")

    def logsf(self, x: npt.ArrayLike) -> FloatArray:
        """Log P(X >= x), to full relative precision however small."""
        return self._log_mixed([component.logsf(x) for component in self.components])

    def logcdf(self, x: npt.ArrayLike) -> FloatArray:
        """Log P(X <= x), to full relative precision however small."""
        return self._log_mixed([component.logcdf(x) for component in self.components])

    def isf(self, p: npt.ArrayLike) -> FloatArray:
        """The point with P(X >= x) = p, which lies between the components' own."""
        p = np.asarray(p, dtype=np.float64)
        ends = np.stack([component.isf(p) for component in self.components])
        left, right = ends.min(axis=0), ends.max(axis=0)
        for _ in range(_HALVINGS):
            middle = left + (right - left) / 2
            if np.all((middle == left) | (middle == right)):
                break
            beyond = self.logsf(middle) >= np.log(p)
            left, right = np.where(beyond, middle, left), np.where(beyond, right, middle)
        return np.asarray(left)

    def ppf(self, p: npt.ArrayLike) -> FloatArray:
        """The point with P(X <= x) = p."""
        return -self.reflected().isf(p)

    def reflected(self) -> "GaussianMixture":
        """The distribution of -X."""
        return GaussianMixture(
            self.weights, tuple(distribution.reflected() for distribution in self.components)
        )

    def sample(self, size: int, rng: np.random.Generator) -> FloatArray:
        """Independent draws, float64 of shape (size,)."""
        chosen = rng.choice(len(self.weights), size=size, p=self.weights)
        means = np.array([distribution.mean for distribution in self.components])[chosen]
        stds = np.array([distribution.std for distribution in self.components])[chosen]
        return np.asarray(means + stds * rng.standard_normal(size))

    def _log_mixed(self, log_p: list[FloatArray]) -> FloatArray:
        weights = np.log(np.reshape(self.weights, (-1,) + (1,) * log_p[0].ndim))
        mixed = special.logsumexp(np.stack(log_p) + weights, axis=0)
        # Rounding of the weights' sum must not make a probability of more than 1.
        return np.asarray(np.minimum(mixed, 0.0))


def fitted_mixture(values: npt.ArrayLike, num_components: int, seed: int) -> GaussianMixture:
    """The Gaussian mixture fitted by expectation maximisation (scikit-learn's GaussianMixture).

    Values are standardised first, so that the result does not depend on their unit; components
    keep a deviation of at least a thousandth of the values'. Equal values give a point.

    scikit-learn is imported here alone and takes seconds to load.

    Args:
      values: Finite values, at least as many as components, float64 of shape (n,).
      num_components: Number of components, at least 1.
      seed: Seed of the starting point, a k-means clustering.

    Raises:
      InputError: If there are fewer values than components, or no component is asked for.
    """
    sample = np.asarray(values, dtype=np.float64)
    if not 1 <= num_components <= sample.size:
        raise InputError(
            f"num_components must be from 1 to the number of values, {sample.size}, "
            f"got {num_components}"
        )
    whole = Gaussian.fitted_to(sample)
    if whole.std == 0:
        return GaussianMixture((1.0,), (whole,))
    from sklearn import mixture

    # By default it stops a hundred times sooner, where overlapping components still move.
    model = mixture.GaussianMixture(num_components, random_state=seed, tol=1e-5, max_iter=1000)
    model.fit(((sample - whole.mean) / whole.std).reshape(-1, 1))
    return GaussianMixture(
        tuple(float(weight) for weight in model.weights_ / model.weights_.sum()),
        tuple(
            Gaussian(whole.mean + whole.std * float(mean), whole.std * float(variance) ** 0.5)
            for mean, variance in zip(model.means_.ravel(), model.covariances_.ravel(), strict=True)
        ),
    )


def epsilon_star_of_mixtures(
    member_losses: npt.ArrayLike,
    non_member_losses: npt.ArrayLike,
    delta: float,
    *,
    num_components: int,
    seed: int,
) -> ModelEpsilon:
    """Epsilon* of Gaussian mixtures fitted to the transformed losses.

    This is `epsilon_star` with mixtures of `num_components` in place of single Gaussians; Negoescu
    et al. (2024), appendix B, 8.2, fit them but report Epsilon* for one component only. The search
    for the best threshold starts from points a tenth apart in the log odds of a rate: where several
    components of the other distribution are narrower than that, it may miss up to 0.1.

    Args:
      member_losses: Losses of the model on its training points, float64 of shape (n1,).
      non_member_losses: Losses on other points, float64 of shape (n0,).
      delta: The delta of differential privacy, in [0, 1).
      num_components: Number of components of each mixture.
      seed: Seed of the fits.

    Returns:
      The largest ratio; its threshold is one on the loss: "at most the threshold" means member.

    Raises:
      InputError: If delta is out of range, a loss is not finite, or a sample has fewer losses
        than components.
    """
    check_delta(delta)
    transform = LossTransform.from_losses(member_losses, non_member_losses)
    members, others = (
        fitted_mixture(transform.logits(losses), num_components, seed)
        for losses in (member_losses, non_member_losses)
    )
    found = epsilon_star_of_distributions(members, others, delta)
    threshold = None if found.threshold is None else float(transform.loss(found.threshold))
    return ModelEpsilon(found.epsilon, threshold, found.ratio)


# Whether mixtures fit the losses: the Kolmogorov-Smirnov table of appendix B.


@dataclass(frozen=True, eq=False)
class KolmogorovSmirnovTable:
    """P-values of the hypothesis that a fitted mixture is the distribution of held-out values.

    Attributes:
      num_components: Numbers of components of the mixture, by row (c of them).
      num_samples: Numbers of held-out values, and of draws from the fit, by column (s of them).
      p_values: P-values of the two-sample Kolmogorov-Smirnov test, float64 of shape (c, s).
    """

    num_components: tuple[int, ...]
    num_samples: tuple[int, ...]
    p_values: FloatArray

    def not_rejected(self, level: float = 0.05) -> FloatArray:
        """The share of columns whose p-value exceeds the level, float64 of shape (c,)."""
        return np.asarray(np.mean(self.p_values > level, axis=1))


def kolmogorov_smirnov_table(
    values: npt.ArrayLike,
    *,
    num_components: Sequence[int] = range(1, 21),
    num_samples: Sequence[int] = range(100, 1001, 100),
    seed: int,
) -> KolmogorovSmirnovTable:
    """A test of how well mixtures of 1 to 20 Gaussians fit values held out of their fit.

    For each cell: split the values at random into an evaluation set of `num_samples` and a fitting
    set of the rest; fit the mixture to the latter; draw `num_samples` from the fit; test whether
    the draws and the evaluation set have one distribution. Negoescu et al. (2024), appendix B, 8.2.

    The paper takes a p-value above 0.05 as a sign of a good fit. It is a weak one: with 100
    against 100 values the test misses all but gross misfits, and it hardly looks at the tails,
    which decide Epsilon*.

    Args:
      values: Transformed losses of members or of non-members (`LossTransform.logits`), of shape
        (n,).
      num_components: Numbers of components of the mixtures, each at least 1.
      num_samples: Sizes of the evaluation set, each at least 1.
      seed: Seed of splits, fits and draws; those of a cell depend on its own numbers only.

    Raises:
      InputError: If a fitting set would be smaller than its number of components, or an
        evaluation set empty.
    """
    sample = np.asarray(values, dtype=np.float64)
    if len(num_components) == 0 or len(num_samples) == 0:
        raise InputError("num_components and num_samples must each hold at least one number")
    if min(num_samples) < 1 or sample.size < max(num_samples) + max(num_components):
        raise InputError(
            f"num_samples must be at least 1 and leave {max(num_components)} of the "
            f"{sample.size} values to fit, got {min(num_samples)} to {max(num_samples)}"
        )
    p_values = np.array(
        [[_p_value(sample, k, size, seed) for size in num_samples] for k in num_components]
    )
    p_values.flags.writeable = False
    return KolmogorovSmirnovTable(tuple(num_components), tuple(num_samples), p_values)


def _p_value(sample: FloatArray, num_components: int, num_samples: int, seed: int) -> float:
    from scipy import stats  # here, for it takes half a second

    rng = np.random.default_rng([seed, num_components, num_samples])
    shuffled = rng.permutation(sample)
    fitted = fitted_mixture(shuffled[num_samples:], num_components, seed)
    drawn = fitted.sample(num_samples, rng)
    return float(stats.ks_2samp(shuffled[:num_samples], drawn).pvalue)
