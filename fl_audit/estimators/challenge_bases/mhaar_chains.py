"""MCMC-DP-Est: Metropolis-Hastings with averaged acceptance ratios, on several chains at once.

Yıldırım et al. (2025), Algorithm 1, after Andrieu, Yıldırım, Doucet & Chopin (2020). The state of a
chain is epsilon, s, one pair of error rates per base and, in the correlated model, tau and rho. A
move of the parameters is accepted by likelihoods averaged over each base's pair and K - 1 auxiliary
ones; then each base picks one of its K pairs.

The chain differs from the printed one in its moves, not in the sampled distribution. Auxiliary
pairs come from a proposal based on the counts, not uniformly from the unit square (`CountModel`).
Given the K pairs, epsilon and s move several times before each base picks its pair: each of these
moves leaves the joint distribution of the parameters and the picks unchanged. The normal step of
these moves, in log epsilon and s, has a covariance learned in the burn-in. Tau and rho, whose moves
the paper leaves to a supplement, move given the picked pairs. Several chains run at once, so that
their agreement can be measured.
"""

import math
from dataclasses import dataclass

import numpy as np

from fl_audit.array_types import BoolArray, FloatArray, IntArray
from fl_audit.errors import InputError
from fl_audit.estimators.challenge_bases import counts_and_priors
from fl_audit.estimators.challenge_bases.posterior_summary import (
    Marginal,
    PosteriorSummary,
    effective_sample_size,
    split_r_hat,
)
from fl_audit.estimators.challenge_bases.region_mass import FoldedRates, below_diagonal, log_reach


@dataclass(frozen=True, eq=False)
class Parameters:
    """The parameters of c chains, each of shape (c,); independent counts have correlations of 0."""

    epsilon: FloatArray
    strength: FloatArray
    correlations: counts_and_priors.Correlations


class Coordinates:
    """The free parameters as rows (log epsilon, s, tau, rho / its largest value given tau)."""

    def __init__(
        self, prior: counts_and_priors.Prior, correlated: counts_and_priors.CorrelatedCounts | None
    ) -> None:
        self._prior, self._correlated = prior, correlated
        free = 1 + isinstance(prior.strength, counts_and_priors.BetaStrength)
        # The columns of log epsilon and, if it is free, s; and the columns of tau and rho's share.
        self.privacy: IntArray = np.arange(free)
        self.correlation: IntArray = free + np.arange(2 if correlated else 0)

    def at(self, epsilon: FloatArray, strength: FloatArray) -> FloatArray:
        """The coordinates of an epsilon and a strength, with tau = rho = 0."""
        columns = [np.log(epsilon), strength][: len(self.privacy)]
        columns += len(self.correlation) * [np.zeros_like(epsilon)]
        return np.stack(columns, axis=1)

    def parameters(self, coordinates: FloatArray) -> Parameters:
        """The parameters at coordinates that the prior allows."""
        columns = list(coordinates.T)
        epsilon = np.exp(columns.pop(0))
        zeros = np.zeros_like(epsilon)
        if isinstance(self._prior.strength, counts_and_priors.FixedStrength):
            strength = zeros + self._prior.strength.value
        else:
            strength = columns.pop(0)
        if self._correlated is None:
            return Parameters(epsilon, strength, counts_and_priors.Correlations(zeros, zeros))
        tau, share = columns
        rho = share * self._correlated.largest_rho(tau)
        return Parameters(epsilon, strength, counts_and_priors.Correlations(tau, rho))

    def log_prior(self, coordinates: FloatArray) -> FloatArray:
        """Log prior density of coordinates up to a constant; -inf where forbidden."""
        columns = list(coordinates.T)
        log_epsilon = columns.pop(0)
        # At most e^300, so that epsilon^2 does not overflow.
        log_prior = self._prior.epsilon_logpdf(np.exp(np.minimum(log_epsilon, 300))) + log_epsilon
        if isinstance(self._prior.strength, counts_and_priors.BetaStrength):
            log_prior = log_prior + self._prior.strength.logpdf(columns.pop(0))
        if self._correlated is not None:
            tau, share = columns
            allowed = (tau > self._correlated.smallest_tau()) & (tau < 1) & (np.abs(share) < 1)
            # rho is uniform given tau, and so is its share of the largest value.
            log_tau = -(tau**2) / (2 * self._prior.correlation.tau_variance)
            log_prior = np.where(allowed, log_prior + log_tau, -np.inf)
        return np.asarray(np.where(np.isnan(log_prior), -np.inf, log_prior))


class LearnedStep:
    """A normal step learned in the burn-in, with the covariance of the last half of positions.

    Its length is adapted to an acceptance of about 0.3.
    """

    _AIM = 0.3
    _EVERY = 50

    def __init__(self, columns: IntArray) -> None:
        """Start with steps of about a tenth in each of the columns, as in the paper."""
        self._columns = columns
        self._root = 0.1 * np.eye(len(columns))
        self._length = 1.0
        self._visited: list[FloatArray] = []
        self._accepted: list[float] = []

    def draw(self, rng: np.random.Generator, shape: tuple[int, ...]) -> FloatArray:
        """Random steps in the coordinates of `columns`, 0 in all others."""
        steps = np.zeros(shape)
        noise = rng.standard_normal((shape[0], len(self._columns)))
        steps[:, self._columns] = self._length * noise @ self._root.T
        return steps

    def count(self, accepted: float) -> None:
        """Record the share of the chains that accepted such a step."""
        self._accepted.append(accepted)

    def learn(self, position: FloatArray) -> None:
        """Record the positions of the chains; after every 50, adapt covariance and length."""
        self._visited.append(position[:, self._columns])
        if len(self._visited) % self._EVERY or not len(self._columns):
            return
        self._length *= math.exp(float(np.mean(self._accepted)) - self._AIM)
        self._accepted = []
        recent = np.concatenate(self._visited[len(self._visited) // 2 :])
        covariance = np.cov(recent, rowvar=False).reshape(len(self._columns), -1)
        self._root = np.linalg.cholesky(covariance + 1e-12 * np.eye(len(covariance)))


_EPSILONS = np.geomspace(1e-3, 700.0, 200)
_HALVINGS = 100


Start = tuple[FloatArray, FloatArray, counts_and_priors.ErrorRates]
"""The epsilons and strengths at which chains start, each (c,), and a pair in R_s for each base.

Epsilons are spread over those that the error rates allow.
"""


def _start_free(
    rates: counts_and_priors.ErrorRates, delta: float, rng: np.random.Generator
) -> Start:
    """Epsilon is the least that allows the first pair of each base, plus a random amount.

    Then a random strength s is halved until R(s epsilon, s delta) contains none of these pairs.
    """
    alpha, beta = rates.alpha[:, :, :1], rates.beta[:, :, :1]
    folded = below_diagonal(alpha, beta)
    with np.errstate(divide="ignore", invalid="ignore"):
        least = np.log(np.maximum(1 - delta - folded.high, 0) / folded.low)
    chains = len(alpha)
    epsilon = np.maximum(np.max(least, axis=(1, 2)), 0.0) + rng.exponential(0.5, chains)
    strength = rng.uniform(0.5, 1.0, chains)
    for _ in range(_HALVINGS):
        shrunk = (strength * epsilon)[:, None, None], (strength * delta)[:, None, None]
        inside = np.any(folded.inside(*shrunk), axis=(1, 2))
        strength = np.where(inside, strength / 2, strength)
    return epsilon, strength, counts_and_priors.ErrorRates(alpha, beta)


def _start_fixed(
    rates: counts_and_priors.ErrorRates, delta: float, strength: float, rng: np.random.Generator
) -> Start:
    """Epsilon is drawn from those for which each base has a pair in R_s; InputError if none is."""
    folded = below_diagonal(rates.alpha, rates.beta)
    chains = len(rates.alpha)
    epsilon, chosen = np.zeros(chains), np.zeros(rates.alpha.shape[:2], dtype=np.int64)
    for candidate in rng.permutation(_EPSILONS):
        reached = folded.reached(candidate, strength, delta)
        new = np.all(np.any(reached, axis=2), axis=1) & (epsilon == 0)
        epsilon[new] = candidate
        chosen[new] = np.argmax(reached, axis=2)[new]
    if np.any(epsilon == 0):
        raise InputError(
            f"mhaar found no epsilon to start from at a fixed strength of {strength:g}: "
            "use grid, or let the strength vary"
        )
    rows = np.arange(chains)[:, None], np.arange(chosen.shape[1]), chosen
    picked = counts_and_priors.ErrorRates(
        rates.alpha[rows][:, :, None], rates.beta[rows][:, :, None]
    )
    return epsilon, np.full(chains, strength), picked


_START_POINTS = 256
"""Candidate error rates per base for the start."""
_MOST_PAIRS = 50_000_000
"""The largest number of pairs of error rates in one iteration: about 4 GB."""
_MOVES = 4
"""Moves of epsilon and s per iteration, given the K pairs; also of tau and rho, given the picks."""


@dataclass(frozen=True)
class ChainSettings:
    """The length and number of the Markov chains.

    Attributes:
      draws: Draws kept from all chains together; rounded up to a multiple of the chains.
      burn_in: First iterations of each chain, from which the steps are learned; they are discarded.
      chains: Number of chains, at least 4.
      auxiliary: Number K of pairs of error rates per base, over which a move is averaged; at least
        2.

    Raises:
      InputError: A number is out of range.
    """

    draws: int = 20_000
    burn_in: int = 1_000
    chains: int = 8
    auxiliary: int = 32

    def __post_init__(self) -> None:
        for name, value, least, most in (
            ("draws", self.draws, 4 * self.chains, 10**7),
            ("burn_in", self.burn_in, 0, 10**6),
            ("chains", self.chains, 4, 10**4),
            ("auxiliary", self.auxiliary, 2, 10**4),
        ):
            if value < least:
                raise InputError(f"{name} must be at least {least}, got {value}")
            if value > most:
                raise InputError(f"{name} must be at most {most:,}, got {value:,}")


@dataclass(frozen=True, eq=False)
class MhaarDraws:
    """The draws of m iterations of c chains after the burn-in, float64 of shape (c, m)."""

    epsilon: FloatArray
    strength: FloatArray
    tau: FloatArray | None  # None in the model of independent counts
    rho: FloatArray | None
    acceptance: float  # share of accepted moves of epsilon and s

    def summary(self, confidence: float) -> PosteriorSummary:
        """The means, equal-tailed intervals and how well the chains of epsilon mixed."""
        tail = (1 - confidence) / 2
        return PosteriorSummary(
            _marginal(self.epsilon, tail),
            _marginal(self.strength, tail),
            acceptance=self.acceptance,
            ess=effective_sample_size(self.epsilon),
            r_hat=split_r_hat(self.epsilon),
            tau=None if self.tau is None else _marginal(self.tau, tail),
            rho=None if self.rho is None else _marginal(self.rho, tail),
        )


def mhaar_posterior(
    counts: counts_and_priors.ChallengeCounts,
    delta: float,
    prior: counts_and_priors.Prior,
    *,
    correlated: bool,
    settings: ChainSettings,
    rng: np.random.Generator,
) -> MhaarDraws:
    """Draws from the posterior by Algorithm 1; InputError if it is too large or cannot start."""
    pairs = settings.chains * counts.num_bases * max(settings.auxiliary, _START_POINTS)
    if pairs > _MOST_PAIRS:
        raise InputError(
            f"chains times bases times auxiliary ({_START_POINTS} at the start) must be at most "
            f"{_MOST_PAIRS:,}, got {pairs:,}"
        )
    if isinstance(prior.strength, counts_and_priors.FixedStrength) and prior.strength.value == 1:
        raise InputError("mhaar needs a strength below 1, got a fixed strength of 1 (use grid)")
    bivariate = (
        counts_and_priors.CorrelatedCounts(counts, prior.correlation) if correlated else None
    )
    coordinates = Coordinates(prior, bivariate)
    model = bivariate or counts_and_priors.IndependentCounts(counts)
    chain = _Chain(model, coordinates, delta, prior.strength, settings=settings, rng=rng)
    for _ in range(settings.burn_in):
        chain.iterate()
        chain.learn()
    length = -(-settings.draws // settings.chains)
    visited = np.empty((length, *chain.position.shape))
    accepted = 0.0
    for number in range(length):
        accepted += chain.iterate()
        visited[number] = chain.position
    flat = coordinates.parameters(visited.reshape(-1, visited.shape[2]))
    epsilon, strength, tau, rho = (
        values.reshape(length, -1).T
        for values in (
            flat.epsilon, flat.strength, flat.correlations.tau, flat.correlations.rho
        )
    )  # fmt: skip
    correlations = (tau, rho) if correlated else (None, None)
    return MhaarDraws(epsilon, strength, *correlations, accepted / length)


class _Chain:
    """All chains at one iteration."""

    def __init__(
        self,
        model: counts_and_priors.CountModel,
        coordinates: Coordinates,
        delta: float,
        strength: counts_and_priors.BetaStrength | counts_and_priors.FixedStrength,
        *,
        settings: ChainSettings,
        rng: np.random.Generator,
    ) -> None:
        """Start at parameters under which each base has error rates of positive weight."""
        self._model, self._coordinates, self._delta = model, coordinates, delta
        self._settings, self._rng = settings, rng
        rates = model.draw(rng, settings.chains, _START_POINTS)
        if isinstance(strength, counts_and_priors.FixedStrength):
            epsilons, strengths, self._rates = _start_fixed(rates, delta, strength.value, rng)
        else:
            epsilons, strengths, self._rates = _start_free(rates, delta, rng)
        self.position = coordinates.at(epsilons, strengths)
        self._log_prior = coordinates.log_prior(self.position)
        self._privacy = LearnedStep(coordinates.privacy)
        self._correlation = LearnedStep(coordinates.correlation)

    def learn(self) -> None:
        for step in (self._privacy, self._correlation):
            step.learn(self.position)

    def iterate(self) -> float:
        """Run one iteration of Algorithm 1; return the share of accepted epsilon and s moves."""
        extra = self._model.draw(self._rng, self._settings.chains, self._settings.auxiliary - 1)
        rates = counts_and_priors.ErrorRates(
            np.concatenate([self._rates.alpha, extra.alpha], axis=2),
            np.concatenate([self._rates.beta, extra.beta], axis=2),
        )
        folded = below_diagonal(rates.alpha, rates.beta)
        reached = self._reached(folded, self.position)
        correlations = self._coordinates.parameters(self.position).correlations
        log_weights = self._model.log_weights(rates, correlations)
        height = np.max(np.where(reached, log_weights, -np.inf), axis=2, keepdims=True)
        # The largest weight of a pair in R_s is 1; those outside must not overflow.
        weights = np.exp(np.minimum(log_weights - height, 700.0))
        accepted = 0.0
        average = self._log_average(weights * reached, self.position)
        for _ in range(_MOVES):
            proposed = self._propose(self._privacy)
            new_reached = self._reached(folded, proposed)
            new_average = self._log_average(weights * new_reached, proposed)
            accept = self._move(self._privacy, proposed, new_average - average)
            average = np.where(accept, new_average, average)
            reached = np.where(accept[:, None, None], new_reached, reached)
            accepted += float(np.mean(accept))
        self._rates = self._pick(rates, weights * reached)
        if self._coordinates.correlation.size:
            for _ in range(_MOVES):
                self._move_correlations()
        return accepted / _MOVES

    def _move_correlations(self) -> None:
        """Move tau and rho given the error rates."""
        proposed = self._propose(self._correlation)
        new, old = (
            self._model.log_weights(self._rates, at.correlations)
            for at in map(self._coordinates.parameters, (proposed, self.position))
        )
        self._move(self._correlation, proposed, np.sum(new - old, axis=(1, 2)))

    def _propose(self, step: LearnedStep) -> FloatArray:
        proposed = self.position + step.draw(self._rng, self.position.shape)
        # A forbidden proposal has no likelihood: the chain proposes its current state instead.
        allowed = np.isfinite(self._coordinates.log_prior(proposed))
        return np.where(allowed[:, None], proposed, self.position)

    def _move(self, step: LearnedStep, proposed: FloatArray, log_ratio: FloatArray) -> BoolArray:
        """Accept or reject proposals by their likelihood ratio; return which were accepted."""
        log_prior = self._coordinates.log_prior(proposed)
        level = np.log(self._rng.random(len(proposed)))
        accept = level < log_ratio + log_prior - self._log_prior
        accept &= np.any(proposed != self.position, axis=1)
        self.position = np.where(accept[:, None], proposed, self.position)
        self._log_prior = np.where(accept, log_prior, self._log_prior)
        step.count(float(np.mean(accept)))
        return np.asarray(accept)

    def _reached(self, folded: FoldedRates, position: FloatArray) -> BoolArray:
        """Whether pairs are in R_s(epsilon, delta), of shape (c, n, k)."""
        at = self._coordinates.parameters(position)
        epsilon, strength = at.epsilon[:, None, None], at.strength[:, None, None]
        return folded.reached(epsilon, strength, self._delta)

    def _log_average(self, weights: FloatArray, position: FloatArray) -> FloatArray:
        """Log of the product of the bases' averaged likelihoods, (c,), up to a constant."""
        at = self._coordinates.parameters(position)
        with np.errstate(divide="ignore"):
            total = np.sum(np.log(np.sum(weights, axis=2)), axis=1)
            area = log_reach(at.epsilon, at.strength * at.epsilon, self._delta)
        return np.asarray(total - weights.shape[1] * area)

    def _pick(
        self, rates: counts_and_priors.ErrorRates, weights: FloatArray
    ) -> counts_and_priors.ErrorRates:
        """Pick for each chain and base one of the K pairs, in proportion to the weights."""
        sums = np.cumsum(weights, axis=2)
        level = self._rng.random((*sums.shape[:2], 1)) * sums[:, :, -1:]
        # The first cumulative weight above the level belongs to a pair of positive weight.
        chosen = np.argmax(sums > level, axis=2)[:, :, None]
        return counts_and_priors.ErrorRates(
            np.take_along_axis(rates.alpha, chosen, axis=2),
            np.take_along_axis(rates.beta, chosen, axis=2),
        )


def _marginal(draws: FloatArray, tail: float) -> Marginal:
    lower, upper = np.quantile(draws, [tail, 1 - tail])
    return Marginal(float(np.mean(draws)), float(lower), float(upper))
