"""Threat model `secret_rounds`: the attacker sees every aggregate, and knows how rounds are drawn.

The pattern, which is the distribution of a canary's rounds, is known, but not the rounds; sampling
protects against this attacker. A score is the log of the likelihood ratio of inclusion, averaged
over the rounds that the pattern allows (`likelihood_null`), from the cosines of every round.

Aggregates have a common part, the training signal, so that a canary's cosines are dependent over
rounds. The attacker knows the aggregates' directions, whose inner products are the covariance G of
an excluded canary's standardized cosines z. With G = L L^T, L^-1 z are standardized cosines with
orthonormal directions; for `gaussian` canaries the null distribution of the score is then known
(`likelihood_null`). For canaries of random signs only Markov's inequality holds, P(score >= x) <=
e^-x, so the null is empirical for them, and also if the inner products are not known.

The shift of a score in a canary's own round is one over the noise multiplier. A wrong shift costs
power but not validity: the null distribution holds for the score as computed.
"""

import math
from collections.abc import Collection, Mapping
from typing import Self

import numpy as np
from scipy import linalg

from fl_audit.accounting.release import Release
from fl_audit.accounting.sampling import FixedRounds, OneGroup, Sampling
from fl_audit.accounting.samplings.balls_in_bins import BallsInBinsSampling
from fl_audit.accounting.samplings.poisson import PoissonSampling
from fl_audit.array_types import Float32Array, FloatArray, IntArray
from fl_audit.attacks.all_iterates import AggregateAttacker
from fl_audit.attacks.attacker import AttackContext
from fl_audit.attacks.compared_vectors import ComparedVectors
from fl_audit.attacks.likelihood_null import (
    FAMILY_WITH_NULL,
    SCORES_AT_ONCE,
    KnownPattern,
    likelihood_null,
)
from fl_audit.attacks.own_rounds import RoundWeights
from fl_audit.attacks.statistics import Statistic
from fl_audit.attacks.threat_models import Knowledge, ThreatModel
from fl_audit.errors import InputError
from fl_audit.participation.arms import read_arm

LIKELIHOOD_RATIO = Statistic(
    name="likelihood_ratio",
    title="Likelihood ratio",
    meaning=(
        "Log likelihood ratio of inclusion, from the cosines with the noisy aggregates of all "
        "rounds: the attacker sees every round and knows how rounds are drawn, not which."
    ),
    threat_model="secret_rounds",
    canaries="vectors",
    needs=frozenset({"round_cosines", "canary_rounds"}),
)

_LARGEST_SHIFT = 25.0
"""The largest shift that is used for a canary's own round, also if there is no noise."""

_LEAST_EIGENVALUE = 1e-3
"""Rounds' directions count as dependent if the matrix of their inner products has a smaller
eigenvalue."""


def known_patterns(release: Release | None, arms: Collection[str] = ()) -> dict[str, KnownPattern]:
    """The pattern of a release's canaries by arm; by the name "" without arms.

    Raises InputError if there is no release, rounds have no likelihood, or noise is correlated.
    """
    if release is None:
        raise InputError(_NEEDS_DISTRIBUTION)
    if release.correlation is not None:
        raise InputError(
            "audit.threat_models: 'secret_rounds' is for noise that is independent over rounds; "
            "leave it out"
        )
    z, rounds = release.noise.noise_multiplier, release.rounds
    shift = min(1 / z, _LARGEST_SHIFT) if z else _LARGEST_SHIFT
    return {
        arm: KnownPattern(sampling, shift, rounds)
        for arm, sampling in _samplings(release, arms).items()
    }


_NEEDS_DISTRIBUTION = (
    "audit.threat_models: 'secret_rounds' needs canaries whose rounds have a known distribution; "
    "set participation.canaries to 'like_clients' or 'repeats', or leave 'secret_rounds' out"
)


def _samplings(release: Release, arms: Collection[str]) -> dict[str, Sampling]:
    if not arms:
        return {"": _drawn(release.canary.sampling, release.rounds)}
    try:
        return {arm: read_arm(arm).sampling(release.rounds) for arm in dict.fromkeys(arms)}
    except ValueError as error:
        raise InputError(f"{_NEEDS_DISTRIBUTION}: {error}") from error


def _drawn(sampling: Sampling, rounds: int) -> Sampling:
    """An equivalent sampling with a likelihood; raises InputError if none is known."""
    match sampling:
        case OneGroup(separation=groups):
            return BallsInBinsSampling(groups, rounds)
        case FixedRounds(at_most=most) if most == rounds:
            return PoissonSampling(1.0)
    if not sampling.has_likelihood:
        raise InputError(_NEEDS_DISTRIBUTION)
    return sampling


def states_pattern(release: Release, family: str, arms: Collection[str]) -> bool:
    """Whether this attacker can score a log with this release, with a known null distribution."""
    try:
        return family == FAMILY_WITH_NULL and bool(known_patterns(release, arms))
    except InputError:
        return False


def whitening(products: FloatArray) -> FloatArray | None:
    """The lower factor L of the inner products G = L L^T of directions; None if nearly singular."""
    if np.linalg.eigvalsh(products)[0] < _LEAST_EIGENVALUE:
        return None
    return np.linalg.cholesky(products)


class SecretRoundsAttacker(AggregateAttacker):
    """An attacker who sees every round's noised aggregate, and knows the pattern."""

    statistics = (LIKELIHOOD_RATIO,)

    def __init__(self, context: AttackContext, patterns: Mapping[str, KnownPattern]) -> None:
        super().__init__(context.cosines_and_directions, context.num_canaries)
        self._own = context.own_rounds
        self._patterns = patterns
        self._dim = len(context.canaries.vector(0))
        self._is_gaussian = context.family == FAMILY_WITH_NULL
        self._whitened: IntArray | None = None

    @classmethod
    def from_context(cls, context: AttackContext) -> Self:
        return cls(context, known_patterns(context.release, context.own_rounds.arms))

    def scores(self, final: Float32Array | None) -> Mapping[str, FloatArray]:
        """The log likelihood ratios; cosines are whitened if the inner products are known."""
        rows = list(self._cosines.numbered_rows())
        rounds = np.array([index for index, _ in rows], np.int64)
        num_canaries = len(self._own.of_canary)
        if len(rounds) == 0:
            return {LIKELIHOOD_RATIO.name: np.zeros(num_canaries)}
        whitening = self._whitening(rounds)
        self._whitened = None if whitening is None else rounds
        cosines = np.stack([row for _, row in rows])
        ratios = np.empty(num_canaries)
        arm_of = np.array(self._own.arms or [""] * num_canaries)
        for arm, pattern in self._patterns.items():
            members = np.flatnonzero(arm_of == arm)
            parts = 1 + len(members) * pattern.rounds // SCORES_AT_ONCE
            for some in filter(len, np.array_split(members, parts)):
                z = math.sqrt(self._dim) * cosines[:, some].astype(np.float64)
                if whitening is not None:
                    z = linalg.solve_triangular(whitening, z, lower=True)
                ratios[some] = pattern.log_ratios(z, rounds)
        return {LIKELIHOOD_RATIO.name: ratios}

    def _whitening(self, rounds: IntArray) -> FloatArray | None:
        """The factor L of G = L L^T; None if G is unknown or nearly singular."""
        known = self._cosines.kept_sums(RoundWeights.from_presences(self._own, rounds))
        products = None if known is None else known.exact_products
        if products is None or len(products) != len(rounds):
            return None
        return whitening(products)

    def compared_vectors(self, final: Float32Array | None) -> Mapping[str, ComparedVectors]:
        if self._whitened is None or not self._is_gaussian:
            return {}
        nulls = {
            arm: likelihood_null(pattern, self._whitened, self._dim)
            for arm, pattern in self._patterns.items()
        }
        return {LIKELIHOOD_RATIO.name: ComparedVectors((), likelihood=nulls)}


SECRET_ROUNDS = ThreatModel(
    name="secret_rounds",
    title="Secret rounds",
    sees=lambda audit: "all noisy aggregates and how rounds are drawn, not which",
    attackers=(SecretRoundsAttacker,),
    knows=Knowledge.EVERY_ROUND_AND_PATTERN,
)
