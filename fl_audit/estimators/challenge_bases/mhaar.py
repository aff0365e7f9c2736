"""MCMC-DP-Est: Metropolis-Hastings with averaged acceptance ratios, on several chains at once.

Yıldırım et al. (2025), Algorithm 1, after Andrieu, Yıldırım, Doucet & Chopin (2020). A chain holds
epsilon, s, one pair of error rates per base and, in the correlated model, tau and rho. A move of
the parameters is judged by likelihoods averaged over each base's pair and K - 1 auxiliary ones;
then each base picks one of its K pairs.

It differs from the printed algorithm in how it moves, not in the law it samples. Auxiliary pairs
come from a law that the counts suggest, not from the unit square (see count_models.py). Given the K
pairs, epsilon and s move several times before each base picks its pair: the joint law of the
parameters and the picks stays the same under each of these moves. Their normal step, in log epsilon
and s, has a covariance learned in the burn-in. Tau and rho, whose moves the paper leaves to a
supplement, move given the picked pairs. And several chains run side by side, so that their
agreement can be seen.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from fl_audit.array_types import FloatArray
from fl_audit.errors import InputError
from fl_audit.estimators.challenge_bases.chain_parameters import Coordinates, LearnedStep
from fl_audit.estimators.challenge_bases.chain_start import find_start
from fl_audit.estimators.challenge_bases.count_models import (
    CorrelatedCounts,
    Correlations,
    CountModel,
    ErrorRates,
    IndependentCounts,
)
from fl_audit.estimators.challenge_bases.counts import ChallengeCounts
from fl_audit.estimators.challenge_bases.diagnostics import effective_sample_size, split_r_hat
from fl_audit.estimators.challenge_bases.prior import FixedStrength, Prior
from fl_audit.estimators.challenge_bases.regions import FoldedRates, below_diagonal, log_reach
from fl_audit.estimators.challenge_bases.summary import Marginal, PosteriorSummary

_START_POINTS = 256
"""Error rates per base among which those to start from are sought."""
_MOST_PAIRS = 50_000_000
"""The pairs of error rates of one iteration: some 4 GB."""
_MOVES = 4
"""The moves of epsilon and s given the K pairs, and of tau and rho given the picked ones."""


@dataclass(frozen=True)
class ChainSettings:
    """The length and number of the Markov chains.

    Attributes:
      draws: Draws kept from all chains together; rounded up to a multiple of the chains.
      burn_in: Iterations of each chain that are thrown away; the steps are learned in them.
      chains: Number of chains side by side, at least 4.
      auxiliary: Number K of error rates per base that a move is averaged over, at least 2.

    Raises:
      InputError: If a number is out of range.
    """

    draws: int = 20_000
    burn_in: int = 1_000
    chains: int = 8
    auxiliary: int = 32

    def __post_init__(self) -> None:
        """Check the fields, so that no later step has to."""
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
    """The values that the chains visited after the burn-in.

    Attributes:
      epsilon: Draws of epsilon, float64 of shape (c, m).
      strength: Draws of s, float64 of shape (c, m).
      tau: Draws of tau, float64 of shape (c, m); None in the model of independent counts.
      rho: Draws of rho, float64 of shape (c, m); None in the model of independent counts.
      acceptance: Share of accepted moves.
    """

    epsilon: FloatArray
    strength: FloatArray
    tau: FloatArray | None
    rho: FloatArray | None
    acceptance: float

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
    counts: ChallengeCounts,
    delta: float,
    prior: Prior,
    *,
    correlated: bool,
    settings: ChainSettings,
    rng: np.random.Generator,
) -> MhaarDraws:
    """Draws from the posterior, by Algorithm 1.

    Args:
      counts: Counts of the challenge bases.
      delta: The delta of differential privacy, in [0, 1).
      prior: Prior of all parameters.
      correlated: Whether counts follow equation 7 instead of equation 1.
      settings: Settings of the chains.
      rng: The only source of randomness.

    Raises:
      InputError: If a base has no challenge on a side in the correlated model, if the strength is
        fixed at 1 (R_s then has no area), if no parameters were found that the chains can start
        from, or if chains, bases and auxiliary rates are more than memory holds.
    """
    _check_size(counts, settings)
    if isinstance(prior.strength, FixedStrength) and prior.strength.value == 1:
        raise InputError("mhaar needs a strength below 1, got a fixed strength of 1 (use grid)")
    bivariate = CorrelatedCounts(counts, prior.correlation) if correlated else None
    coordinates = Coordinates(prior, bivariate)
    chain = _Chain(bivariate or IndependentCounts(counts), coordinates, delta, settings, rng)
    chain.start(prior)
    for _ in range(settings.burn_in):
        chain.iterate()
        chain.learn()
    kept = -(-settings.draws // settings.chains)
    visited = np.empty((kept, *chain.position.shape))
    accepted = 0.0
    for number in range(kept):
        accepted += chain.iterate()
        visited[number] = chain.position
    flat = coordinates.parameters(visited.reshape(-1, visited.shape[2]))
    epsilon, strength, tau, rho = (
        values.reshape(kept, -1).T
        for values in (
            flat.epsilon, flat.strength, flat.correlations.tau, flat.correlations.rho
        )
    )  # fmt: skip
    if not correlated:
        return MhaarDraws(epsilon, strength, None, None, accepted / kept)
    return MhaarDraws(epsilon, strength, tau, rho, accepted / kept)


def _check_size(counts: ChallengeCounts, settings: ChainSettings) -> None:
    pairs = settings.chains * counts.num_bases * max(settings.auxiliary, _START_POINTS)
    if pairs > _MOST_PAIRS:
        raise InputError(
            f"chains times bases times auxiliary (of which {_START_POINTS} at the start) must be "
            f"at most {_MOST_PAIRS:,}, got {pairs:,}"
        )


class _Chain:
    """All chains at one iteration."""

    def __init__(
        self,
        model: CountModel,
        coordinates: Coordinates,
        delta: float,
        settings: ChainSettings,
        rng: np.random.Generator,
    ) -> None:
        self._model, self._coordinates, self._delta = model, coordinates, delta
        self._settings, self._rng = settings, rng

    def start(self, prior: Prior) -> None:
        """Find parameters under which each base has error rates of positive weight."""
        rates = self._model.draw(self._rng, self._settings.chains, _START_POINTS)
        start = find_start(rates, self._delta, prior.strength, self._rng)
        self.position = self._coordinates.of(start.parameters)
        self._rates = start.rates
        self._log_prior = self._coordinates.log_prior(self.position)
        self._privacy = LearnedStep(self._coordinates.privacy)
        self._correlation = LearnedStep(self._coordinates.correlation)

    def learn(self) -> None:
        """Let the steps learn from the positions of the chains."""
        for step in (self._privacy, self._correlation):
            step.learn(self.position)

    def iterate(self) -> float:
        """Run one iteration of Algorithm 1; return the share of accepted epsilon and s moves."""
        drawn = self._model.draw(self._rng, self._settings.chains, self._settings.auxiliary - 1)
        rates = ErrorRates(
            np.concatenate([self._rates.alpha, drawn.alpha], axis=2),
            np.concatenate([self._rates.beta, drawn.beta], axis=2),
        )
        folded = below_diagonal(rates.alpha, rates.beta)
        reached = self._reached(folded, self.position)
        log_weights = self._model.log_weights(rates, self._correlations())
        height = np.max(np.where(reached, log_weights, -np.inf), axis=2, keepdims=True)
        # Of the pairs reached now the largest weighs 1; others must not overflow.
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
        # A forbidden proposal has no likelihood: to stay is to reject it.
        allowed = np.isfinite(self._coordinates.log_prior(proposed))
        return np.where(allowed[:, None], proposed, self.position)

    def _move(
        self, step: LearnedStep, proposed: FloatArray, log_ratio: FloatArray
    ) -> npt.NDArray[np.bool_]:
        """Accept or reject proposals by their likelihood ratio; return which were accepted."""
        log_prior = self._coordinates.log_prior(proposed)
        level = np.log(self._rng.random(len(proposed)))
        accept = level < log_ratio + log_prior - self._log_prior
        accept &= np.any(proposed != self.position, axis=1)
        self.position = np.where(accept[:, None], proposed, self.position)
        self._log_prior = np.where(accept, log_prior, self._log_prior)
        step.count(float(np.mean(accept)))
        return np.asarray(accept)

    def _correlations(self) -> Correlations:
        return self._coordinates.parameters(self.position).correlations

    def _reached(self, folded: FoldedRates, position: FloatArray) -> npt.NDArray[np.bool_]:
        """Whether pairs lie in R_s(epsilon, delta), bool of shape (c, n, k)."""
        at = self._coordinates.parameters(position)
        epsilon, strength = at.epsilon[:, None, None], at.strength[:, None, None]
        inner = folded.inside(strength * epsilon, strength * self._delta)
        return folded.inside(epsilon, self._delta) & ~inner

    def _log_average(self, weights: FloatArray, position: FloatArray) -> FloatArray:
        """Log of the product of the bases' averaged likelihoods, float64 of shape (c,).

        It is known up to a constant.
        """
        at = self._coordinates.parameters(position)
        with np.errstate(divide="ignore"):
            total = np.sum(np.log(np.sum(weights, axis=2)), axis=1)
            area = log_reach(at.epsilon, at.strength * at.epsilon, self._delta)
        return np.asarray(total - weights.shape[1] * area)

    def _pick(self, rates: ErrorRates, weights: FloatArray) -> ErrorRates:
        """Pick for each chain and base one of the K pairs, with probability by weight."""
        sums = np.cumsum(weights, axis=2)
        level = self._rng.random((*sums.shape[:2], 1)) * sums[:, :, -1:]
        # The first sum above the level is at a pair of positive weight.
        chosen = np.argmax(sums > level, axis=2)[:, :, None]
        return ErrorRates(
            np.take_along_axis(rates.alpha, chosen, axis=2),
            np.take_along_axis(rates.beta, chosen, axis=2),
        )


def _marginal(draws: FloatArray, tail: float) -> Marginal:
    lower, upper = np.quantile(draws, [tail, 1 - tail])
    return Marginal(float(np.mean(draws)), float(lower), float(upper))
