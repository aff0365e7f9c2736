"""The parameters that the chains move, in coordinates where a normal step suits them."""

import math
from dataclasses import dataclass

import numpy as np

from fl_audit.array_types import FloatArray, IntArray
from fl_audit.estimators.challenge_bases.count_models import CorrelatedCounts, Correlations
from fl_audit.estimators.challenge_bases.prior import BetaStrength, FixedStrength, Prior


@dataclass(frozen=True, eq=False)
class Parameters:
    """The parameters of c chains.

    Attributes:
      epsilon: Epsilon of each chain, above 0, float64 of shape (c,).
      strength: Strength s of each chain in [0, 1], float64 of shape (c,).
      correlations: Correlations tau and rho; zeros in the model of independent counts.
    """

    epsilon: FloatArray
    strength: FloatArray
    correlations: Correlations


class Coordinates:
    """The free parameters as rows (log epsilon, s, tau, rho / its largest value given tau)."""

    def __init__(self, prior: Prior, correlated: CorrelatedCounts | None) -> None:
        """Choose the coordinates of the independent model, or of the correlated one."""
        self._prior, self._correlated = prior, correlated
        self._free_strength = isinstance(prior.strength, BetaStrength)
        free = 1 + self._free_strength
        self.privacy: IntArray = np.arange(free)
        """The columns of log epsilon and, where it is free, s."""
        self.correlation: IntArray = free + np.arange(2 if correlated else 0)
        """The columns of tau and rho's share of its largest value, if any."""

    def of(self, parameters: Parameters) -> FloatArray:
        """The coordinates of parameters with rho = 0, float64 of shape (c, d)."""
        columns = [np.log(parameters.epsilon)]
        if self._free_strength:
            columns.append(parameters.strength)
        if self._correlated:
            columns += [parameters.correlations.tau, np.zeros_like(parameters.epsilon)]
        return np.stack(columns, axis=1)

    def parameters(self, coordinates: FloatArray) -> Parameters:
        """The parameters at coordinates of shape (c, d) that the prior allows."""
        columns = list(coordinates.T)
        epsilon = np.exp(columns.pop(0))
        zeros = np.zeros_like(epsilon)
        if isinstance(self._prior.strength, FixedStrength):
            strength = zeros + self._prior.strength.value
        else:
            strength = columns.pop(0)
        if self._correlated is None:
            return Parameters(epsilon, strength, Correlations(zeros, zeros))
        tau, share = columns
        rho = share * self._correlated.largest_rho(tau)
        return Parameters(epsilon, strength, Correlations(tau, rho))

    def log_prior(self, coordinates: FloatArray) -> FloatArray:
        """Log prior density of coordinates (c, d), of shape (c,); -inf where forbidden.

        It is known up to a constant.
        """
        columns = list(coordinates.T)
        log_epsilon = columns.pop(0)
        # epsilon^2 must not overflow; a prior as wide as that forbids nothing else.
        log_prior = self._prior.epsilon_logpdf(np.exp(np.minimum(log_epsilon, 300))) + log_epsilon
        if isinstance(self._prior.strength, BetaStrength):
            log_prior = log_prior + self._prior.strength.logpdf(columns.pop(0))
        if self._correlated is not None:
            tau, share = columns
            allowed = (tau > self._correlated.smallest_tau()) & (tau < 1) & (np.abs(share) < 1)
            # rho is uniform given tau: so is its share of the largest value.
            log_tau = -(tau**2) / (2 * self._prior.correlation.tau_variance)
            log_prior = np.where(allowed, log_prior + log_tau, -np.inf)
        return np.asarray(np.where(np.isnan(log_prior), -np.inf, log_prior))


class LearnedStep:
    """A normal step in some coordinates, whose covariance and length are learned in the burn-in.

    The covariance is that of the last half of what the chains have visited; the length aims at an
    acceptance of about 0.3.
    """

    _AIM = 0.3
    _EVERY = 50

    def __init__(self, columns: IntArray) -> None:
        """Start with steps of about a tenth in each of the columns, as the paper's are."""
        self._columns = columns
        self._root = 0.1 * np.eye(len(columns))
        self._length = 1.0
        self._visited: list[FloatArray] = []
        self._accepted: list[float] = []

    def draw(self, rng: np.random.Generator, shape: tuple[int, ...]) -> FloatArray:
        """Random steps, 0 in the other coordinates, float64 of shape (c, d)."""
        steps = np.zeros(shape)
        noise = rng.standard_normal((shape[0], len(self._columns)))
        steps[:, self._columns] = self._length * noise @ self._root.T
        return steps

    def count(self, accepted: float) -> None:
        """Record the share of the chains that accepted such a step."""
        self._accepted.append(accepted)

    def learn(self, position: FloatArray) -> None:
        """Record the positions of the chains, float64 of shape (c, d)."""
        self._visited.append(position[:, self._columns])
        if len(self._visited) % self._EVERY or not len(self._columns):
            return
        self._length *= math.exp(float(np.mean(self._accepted)) - self._AIM)
        self._accepted = []
        recent = np.concatenate(self._visited[len(self._visited) // 2 :])
        covariance = np.cov(recent, rowvar=False).reshape(len(self._columns), -1)
        self._root = np.linalg.cholesky(covariance + 1e-12 * np.eye(len(covariance)))
