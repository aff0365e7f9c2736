"""The posterior of epsilon and strength without Monte Carlo, on a grid of two dimensions.

The error rates of each base integrate out exactly: given epsilon and s they are uniform on a
difference of two regions, whose masses region_mass.py tabulates. What remains is a density of
epsilon and s. Its variables are epsilon and v = s epsilon, because the counts bound epsilon from
below and v from above: the edges of the posterior are parallel to the grid.

Every integral is a trapezoidal sum, in which the prior of s is integrated exactly. Cells where a
marginal bends are split until no cell's error matters.
"""

import functools
import math
from dataclasses import dataclass

import numpy as np

from fl_audit.array_types import FloatArray
from fl_audit.estimators.challenge_bases.counts_and_priors import (
    BetaStrength,
    ChallengeCounts,
    FixedStrength,
    Prior,
)
from fl_audit.estimators.challenge_bases.posterior_summary import Marginal, PosteriorSummary
from fl_audit.estimators.challenge_bases.region_mass import RegionMass
from fl_audit.estimators.distributions import narrowed

_MOST_PARTS = 8


def trapezoid_errors(points: FloatArray, values: FloatArray) -> FloatArray:
    """The approximate error of the trapezoidal rule in each cell, per unit of the cell's width.

    It is h^2 f'' / 12 for a cell of width h, where h f'' is taken as the larger change of slope at
    its ends. Cells of no width have no error and hide their neighbours' changes of slope.

    >>> trapezoid_errors(np.array([0.0, 1.0, 2.0, 3.0]), np.array([0.0, 0.0, 0.0, 12.0])).tolist()
    [0.0, 1.0, 1.0]
    """
    widths = np.diff(points)
    slopes = np.diff(values) / np.where(widths > 0, widths, np.inf)
    bends = np.abs(np.diff(slopes)) * ((widths[..., 1:] > 0) & (widths[..., :-1] > 0))
    none = np.zeros((*bends.shape[:-1], 1))
    at_points = np.concatenate([none, bends, none], axis=-1)
    return np.asarray(widths * np.maximum(at_points[..., :-1], at_points[..., 1:]) / 12)


def refined(points: FloatArray, errors: FloatArray, tolerance: float) -> FloatArray:
    """The points, and new points in the cells whose error exceeds the tolerance.

    Errors are assumed to fall with the third power of a cell's width.

    >>> refined(np.array([0.0, 1.0, 2.0]), np.array([0.0, 0.8]), 0.1).tolist()
    [0.0, 1.0, 1.5, 2.0]
    """
    parts = np.clip(np.ceil(np.cbrt(errors / tolerance)), 1, _MOST_PARTS)
    new = [
        points[cell] + (points[cell + 1] - points[cell]) * np.arange(1, parts[cell]) / parts[cell]
        for cell in np.flatnonzero(parts > 1)
    ]
    return np.sort(np.concatenate([points, *new]))


def counting(points: FloatArray, masses: FloatArray, negligible: float) -> FloatArray:
    """The points from the first to the last cell with a non-negligible share of the largest mass.

    One more cell is kept on each side.

    >>> points = np.arange(6.0)
    >>> counting(points, np.array([0.0, 0.0, 1.0, 0.0, 0.0]), 1e-9).tolist()
    [1.0, 2.0, 3.0, 4.0]
    """
    cells = np.flatnonzero(masses > negligible * np.max(masses))
    return points[max(int(cells[0]) - 1, 0) : int(cells[-1]) + 3]


@dataclass(frozen=True, eq=False)
class LinearDensity:
    """A density that is linear between ascending points, normalised."""

    points: FloatArray
    density: FloatArray

    @property
    def masses(self) -> FloatArray:
        """Masses of the cells."""
        return np.asarray(np.diff(self.points) * (self.density[:-1] + self.density[1:]) / 2)

    @property
    def weights(self) -> FloatArray:
        """The trapezoidal rule's probability of each point."""
        halves = np.diff(self.points) / 2
        left, right = np.concatenate([[0.0], halves]), np.concatenate([halves, [0.0]])
        return np.asarray((left + right) * self.density)

    @property
    def mean(self) -> float:
        """The mean, by the same trapezoidal rule."""
        return float(np.sum(self.weights * self.points))

    def quantile(self, p: float) -> float:
        """The point below which there is a share p of the mass.

        >>> round(LinearDensity(np.array([0.0, 2.0]), np.array([0.0, 1.0])).quantile(0.25), 12)
        1.0
        """
        sums = np.concatenate([[0.0], np.cumsum(self.masses)])
        cell = min(int(np.searchsorted(sums, p, side="right")) - 1, len(self.points) - 2)
        left, right = self.density[cell], self.density[cell + 1]
        width = self.points[cell + 1] - self.points[cell]
        rest = min(max(p - sums[cell], 0.0), self.masses[cell])
        if rest == 0:
            return float(self.points[cell])
        # left t + (right - left) t^2 / 2 = rest / width, solved without cancellation.
        share = rest / width
        root = np.sqrt(max(left**2 + 2 * (right - left) * share, 0.0))
        return float(self.points[cell] + width * min(2 * share / (left + root), 1.0))


@dataclass(frozen=True, eq=False)
class StrengthRows:
    """The posterior of the strength s given each epsilon of a grid, a row per epsilon.

    It is the prior of s times likelihoods that are linear in s between the points of each row. The
    integrals over a cell use the prior's own moments, so they are exact for such likelihoods even
    where the prior's density is infinite.
    """

    prior: BetaStrength  # of s
    strength: FloatArray  # in [0, 1], each row ascending, (i, k)
    likelihood: FloatArray  # each row on its own scale, (i, k)

    @functools.cached_property
    def _below(self) -> FloatArray:
        """The prior's integrals of 1, s and s^2 up to each strength, (3, i, k)."""
        return self.prior.moments_below(self.strength)

    @functools.cached_property
    def moments(self) -> FloatArray:
        """The prior's integrals of 1, s and s^2 over each cell, (3, i, k - 1)."""
        return np.diff(self._below, axis=-1)

    @property
    def totals(self) -> FloatArray:
        """The integral of prior times likelihood over each row."""
        return np.asarray(np.sum(self._integrals(self.moments[0], self.moments[1]), axis=1))

    def cell_shares(self) -> FloatArray:
        """The posterior probabilities of the cells of each row."""
        return self._per_total(self._integrals(self.moments[0], self.moments[1]))

    def cell_errors(self) -> FloatArray:
        """The errors of `cell_shares` from the assumption of linear likelihoods."""
        return self._per_total(self.moments[0] * trapezoid_errors(self.strength, self.likelihood))

    def mean(self, weights: FloatArray) -> float:
        """The posterior mean of s, for weights of the rows."""
        return float(np.sum(weights @ self._per_total(self._integrals(*self.moments[1:]))))

    def cdf(self, strength: float) -> FloatArray:
        """The posterior probability in each row that s is at most `strength`."""
        end = self.prior.moments_below(np.array(strength))[:, None, None]
        below = np.where(self.strength <= strength, self._below, end)
        zeroth, first, _ = np.diff(below, axis=-1)
        return np.asarray(np.sum(self._per_total(self._integrals(zeroth, first)), axis=1))

    def quantile(self, p: float, weights: FloatArray) -> float:
        """The strength below which there is a share p of the posterior."""
        low, high = narrowed(
            lambda s: np.asarray(weights @ self.cdf(float(s)) < p), np.zeros(()), np.ones(()), 30
        )
        return float(low + high) / 2

    def _integrals(self, zeroth: FloatArray, first: FloatArray) -> FloatArray:
        """Integrals of the likelihood over cells, from integrals of 1 and s in the same measure."""
        widths = np.diff(self.strength, axis=1)
        slopes = np.diff(self.likelihood, axis=1) / np.where(widths > 0, widths, np.inf)
        rises = slopes * (first - self.strength[:, :-1] * zeroth)
        # The difference above may round below 0 in very narrow cells.
        return np.asarray(np.maximum(self.likelihood[:, :-1] * zeroth + rises, 0.0))

    def _per_total(self, values: FloatArray) -> FloatArray:
        totals = self.totals[:, None]
        return np.asarray(values / np.where(totals > 0, totals, 1.0))


_START = np.concatenate([[0.0], np.geomspace(5e-5, 1, 64)])
_SMALLEST = 1e-9
"""The start of the grid of epsilon, as a share of its largest value, instead of 0."""
_PASSES = 20
_PASSES_BEFORE_CUTTING = 4
_EPSILON_ERROR = 5e-7
_SHRUNK_ERROR = 1e-5
"""The allowed errors of a cell's share of the posterior, for cells of epsilon and of v."""
_MOST_POINTS = 500
"""A direction with more points than this is not split further."""
_NEGLIGIBLE = math.exp(-30)
_STDDEVS = 7.5
"""The end of the grid in standard deviations of epsilon's prior, unless counts reach further."""


@dataclass(frozen=True, eq=False)
class GridPosterior:
    """The posterior of epsilon and, given each epsilon of the grid, of s (or the fixed s)."""

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
    quantiles are accurate to about 1e-3.
    """
    largest = _STDDEVS * math.sqrt(prior.epsilon_variance)
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
    rows = StrengthRows(prior.strength, strength, np.exp(log_values - height))
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
