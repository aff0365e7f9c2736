"""The posterior of epsilon and strength without Monte Carlo, on a grid of two dimensions.

The error rates of each base integrate out exactly: their law given epsilon and s is uniform on a
difference of two regions, whose masses region_mass.py tabulates. What is left is a density of
epsilon and s. It is taken in the variables epsilon and v = s epsilon, because the counts bound
epsilon from below and v from above: the edges of the posterior lie along the grid.

Every integral is a trapezoidal sum, in which the prior of s is integrated exactly. Cells are split
where a marginal bends, until no cell's error matters.
"""

import math
from dataclasses import dataclass

import numpy as np

from fl_audit.array_types import FloatArray
from fl_audit.estimators.challenge_bases.counts import ChallengeCounts
from fl_audit.estimators.challenge_bases.grid_cells import (
    LinearDensity,
    counting,
    refined,
    trapezoid_errors,
)
from fl_audit.estimators.challenge_bases.prior import FixedStrength, Prior
from fl_audit.estimators.challenge_bases.region_mass import RegionMass
from fl_audit.estimators.challenge_bases.strength_rows import StrengthRows
from fl_audit.estimators.challenge_bases.summary import Marginal, PosteriorSummary

_START = np.concatenate([[0.0], np.geomspace(5e-5, 1, 64)])
_SMALLEST = 1e-9
"""The start of the grid of epsilon, as a share of its largest value, instead of 0."""
_PASSES = 20
_PASSES_BEFORE_CUTTING = 4
_EPSILON_ERROR = 5e-7
_SHRUNK_ERROR = 1e-5
"""The errors allowed to a cell's share of the posterior."""
_MOST_POINTS = 500
"""The number of points from which on a grid is not split further in one direction."""
_NEGLIGIBLE = math.exp(-30)
_DEVIATIONS = 7.5
"""The end of the grid in deviations of epsilon's prior, unless the counts reach further."""


@dataclass(frozen=True, eq=False)
class GridPosterior:
    """The posterior of epsilon and s.

    Attributes:
      epsilon: Posterior density of epsilon at i points.
      strength: Posterior of s given each of these epsilons; or the fixed s.
    """

    epsilon: LinearDensity
    strength: StrengthRows | FixedStrength

    def summary(self, confidence: float) -> PosteriorSummary:
        """The means and equal-tailed intervals at a confidence in (0, 1)."""
        tail = (1 - confidence) / 2
        return PosteriorSummary(
            Marginal(
                self.epsilon.mean, self.epsilon.quantile(tail), self.epsilon.quantile(1 - tail)
            ),
            self._strength_marginal(tail),
        )

    def _strength_marginal(self, tail: float) -> Marginal:
        if isinstance(self.strength, FixedStrength):
            return Marginal(*[self.strength.value] * 3)
        weights = self.epsilon.weights
        return Marginal(
            self.strength.mean(weights),
            self.strength.quantile(tail, weights),
            self.strength.quantile(1 - tail, weights),
        )


def grid_posterior(counts: ChallengeCounts, delta: float, prior: Prior) -> GridPosterior:
    """The posterior of epsilon and s in the model of independent counts.

    Yıldırım et al. (2025), equations 1, 2 and 5, with alpha and beta integrated out. Means and
    quantiles are right to about 1e-3.

    Args:
      counts: Counts of the challenge bases.
      delta: The delta of differential privacy, in [0, 1).
      prior: Prior of epsilon and s.
    """
    largest = _DEVIATIONS * math.sqrt(prior.epsilon_variance)
    while True:
        posterior = _on_grid(RegionMass(counts, delta, largest), prior, largest)
        density = posterior.epsilon.density
        if density[-1] < math.exp(-20) * np.max(density):
            return posterior
        largest *= 2


def _on_grid(mass: RegionMass, prior: Prior, largest: float) -> GridPosterior:
    epsilon = largest * np.maximum(_START, _SMALLEST)
    shrunk = largest * _START
    for number in range(_PASSES):
        posterior = _evaluate(mass, prior, epsilon, shrunk)
        density = posterior.epsilon
        row_errors = np.diff(epsilon) * trapezoid_errors(epsilon, density.density)
        split_epsilon = _split(epsilon, row_errors, _EPSILON_ERROR)
        split_shrunk = shrunk
        negligible = _NEGLIGIBLE if number >= _PASSES_BEFORE_CUTTING else 0.0
        if isinstance(posterior.strength, StrengthRows):
            weights = density.weights
            column_errors = weights @ posterior.strength.cell_errors()
            split_shrunk = _split(shrunk, column_errors[:-1], _SHRUNK_ERROR)
        if len(split_epsilon) == len(epsilon) and len(split_shrunk) == len(shrunk):
            break
        epsilon = _within(split_epsilon, counting(epsilon, density.masses, negligible))
        if isinstance(posterior.strength, StrengthRows):
            columns = weights @ posterior.strength.cell_shares()
            shrunk = _within(split_shrunk, counting(shrunk, columns[:-1], negligible))
    return posterior


def _evaluate(
    mass: RegionMass, prior: Prior, epsilon: FloatArray, shrunk: FloatArray
) -> GridPosterior:
    if isinstance(prior.strength, FixedStrength):
        log_density = prior.epsilon_logpdf(epsilon) + _at_fixed(mass, prior.strength, epsilon)
        return GridPosterior(_normalised(epsilon, log_density), prior.strength)
    column = epsilon[:, None]
    log_full = mass.log_likelihood_at_full_strength(epsilon)[:, None]
    log_values = mass.log_likelihood(epsilon, shrunk[None])
    # Beyond v = epsilon, where s = 1, the columns of a row repeat its last strength.
    log_values = np.concatenate([np.where(shrunk < column, log_values, log_full), log_full], axis=1)
    strength = np.concatenate([np.minimum(shrunk / column, 1.0), np.ones_like(column)], axis=1)
    height = np.max(log_values, axis=1, keepdims=True)
    rows = StrengthRows.of(prior.strength, strength, np.exp(log_values - height))
    with np.errstate(divide="ignore"):
        log_total = np.log(rows.totals) + height[:, 0]
    return GridPosterior(_normalised(epsilon, prior.epsilon_logpdf(epsilon) + log_total), rows)


def _at_fixed(mass: RegionMass, strength: FixedStrength, epsilon: FloatArray) -> FloatArray:
    if strength.value == 1:
        return mass.log_likelihood_at_full_strength(epsilon)
    return mass.log_likelihood(epsilon, strength.value * epsilon[:, None])[:, 0]


def _normalised(epsilon: FloatArray, log_density: FloatArray) -> LinearDensity:
    density = np.exp(log_density - np.max(log_density))
    total = np.sum(LinearDensity(epsilon, density).masses)
    return LinearDensity(epsilon, density / total)


def _split(points: FloatArray, errors: FloatArray, tolerance: float) -> FloatArray:
    return points if len(points) > _MOST_POINTS else refined(points, errors, tolerance)


def _within(points: FloatArray, counted: FloatArray) -> FloatArray:
    return np.asarray(points[(points >= counted[0]) & (points <= counted[-1])])
