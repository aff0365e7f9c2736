"""The likelihood ratio of a canary's participation in a round, from the update it would send.

An attacker who can compute the update g that a canary would send in a round tests whether the
round's noised sum y contains g. The other participants' updates, which have much in common, are in
y too. The attacker models them by stand-ins with similar data: if r_j is the clipped update of a
stand-in for c_j participants, the sum of the other updates is taken as Gaussian with mean
m = sum_j c_j r_j and covariance a sum_j c_j r_j r_jᵀ (a is below), and the noise as isotropic with
variance v. From these follow

    K = v I + a sum_j c_j r_j r_jᵀ,   s = gᵀ K⁻¹ (y - m),   e = gᵀ K⁻¹ g.

By Neyman and Pearson s is the best statistic of one round: N(0, e) without g, N(e, e) with it. The
log likelihood ratio of participation with probability q is log(1 - q + q exp(s - e / 2)), as for
the dominating pair of the subsampled Gaussian mechanism.

Rounds are not independent, as the same clients and canaries participate repeatedly: what correlates
two participants adds up over the R rounds of a participant, while noise averages out. So a = R.

All of this affects the power of a score, not the validity of a bound: a score is a function of the
release and of the canary's data, and does not depend on the coin.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Self

import numpy as np

from fl_audit.array_types import Float32Array, FloatArray
from fl_audit.attacks import example_statistics
from fl_audit.attacks.all_iterates import over_rounds
from fl_audit.attacks.own_rounds import OwnRounds, sums_in_own_rounds
from fl_audit.attacks.round_cosines import numbered_rows
from fl_audit.formats.folders import RunFolder
from fl_audit.formats.round_logs import CosineLog, Mode
from fl_audit.inner_products import inner_product

MOST_DIRECTIONS = 64
"""The largest number of directions in which others may vary, those of largest variance."""


def clipped(updates: Float32Array, clip_norm: float) -> Float32Array:
    """Clips each row of `updates`, of shape (n, dim), to a norm, which may be infinite."""
    norms = np.sqrt(np.einsum("ij,ij->i", updates, updates, dtype=np.float64))
    scales = np.minimum(1, clip_norm / np.maximum(norms, np.finfo(np.float32).tiny))
    return np.asarray(updates * scales[:, None].astype(np.float32))


@dataclass(frozen=True, eq=False)
class Signals:
    """A round's signals about canaries, of shape (n,).

    Attributes:
      signal: s of each canary.
      energy: e of each canary: both the variance of s and the shift of s by participation.
    """

    signal: FloatArray
    energy: FloatArray


@dataclass(frozen=True, eq=False)
class RoundFilter:
    """The linear filter of a round's noised sum.

    Attributes:
      weights: K⁻¹ (y - m), float32 of shape (dim,).
      directions: Orthonormal directions in which other participants vary, float32 of shape (k,
        dim).
      removed: The share of each direction that v K⁻¹ removes, in [0, 1), float64 of shape (k,).
      noise_variance: The variance v of the noise on a coordinate of the sum.
    """

    weights: Float32Array
    directions: Float32Array
    removed: FloatArray
    noise_variance: float

    @classmethod
    def from_round(
        cls, noised_sum: Float32Array, stand_ins: Float32Array, counts: FloatArray, repeats: float
    ) -> Self:
        """The filter of a round; the noise is estimated orthogonally to the stand-ins' directions.

        Args:
          noised_sum: The sum y, of shape (dim,).
          stand_ins: The clipped updates r_j, of shape (n, dim), n at least 1.
          counts: The expected number of participants c_j per stand-in, above 0, of shape (n,).
          repeats: The factor a, which is a participant's number of rounds.
        """
        scaled = stand_ins * np.sqrt(repeats * counts)[:, None].astype(np.float32)
        variances, mixes = np.linalg.eigh((scaled @ scaled.T).astype(np.float64))
        # Directions of negligible variance come from rounding.
        strong = np.flatnonzero(variances > 1e-6 * max(variances[-1], 1e-30))[-MOST_DIRECTIONS:]
        mix = mixes[:, strong] / np.sqrt(variances[strong])
        directions = mix.T.astype(np.float32) @ scaled
        rest = noised_sum - counts.astype(np.float32) @ stand_ins
        along = directions @ rest
        residual = rest - along @ directions
        freedom = max(len(rest) - len(strong), 1)
        noise = max(inner_product(residual, residual) / freedom, float(np.finfo(np.float32).tiny))
        removed = variances[strong] / (noise + variances[strong])
        weights = (residual + ((1 - removed) * along).astype(np.float32) @ directions) / noise
        return cls(weights.astype(np.float32), directions, removed, noise)

    def signals(self, updates: Float32Array) -> Signals:
        """The signals of canaries with these clipped updates g, of shape (n, dim)."""
        squares = np.einsum("ij,ij->i", updates, updates, dtype=np.float64)
        inside = np.square(updates @ self.directions.T, dtype=np.float64) @ self.removed
        energy = np.maximum(squares - inside, 0) / self.noise_variance
        return Signals((updates @ self.weights).astype(np.float64), energy)


def log_likelihood_ratios(signals: Signals, probability: float) -> FloatArray:
    """The log likelihood ratio, in nats, of participation with this probability in a round.

    >>> round_signals = Signals(np.array([0.0, 3.0]), np.array([0.0, 2.0]))
    >>> log_likelihood_ratios(round_signals, 1.0).tolist()
    [0.0, 2.0]
    """
    ratio = signals.signal - signals.energy / 2
    with np.errstate(divide="ignore"):
        return np.asarray(np.logaddexp(np.log1p(-probability), np.log(probability) + ratio))


# Logs of the signals, and scores from them.


@dataclass(frozen=True, eq=False)
class UpdateLogs:
    """Logs with one float32 row of shape (canaries,) for each round.

    Attributes:
      products: The inner products of clipped updates with aggregates.
      signals: The signals s.
      energies: The variances e of the signals.
    """

    products: CosineLog
    signals: CosineLog
    energies: CosineLog

    @classmethod
    def opened(cls, mode: Mode, folder: RunFolder, *shape: int | str) -> "UpdateLogs":
        """Opens or creates the logs of a run, of shape (rounds, canaries)."""
        paths = (folder.round_products, folder.round_signals, folder.round_energies)
        return cls(*(CosineLog.opened(mode, path, *shape) for path in paths))

    def write_round(self, round_index: int, products: FloatArray, signals: Signals) -> None:
        self.products.write_round(round_index, products)
        self.signals.write_round(round_index, signals.signal)
        self.energies.write_round(round_index, signals.energy)

    def flush(self) -> None:
        for log in (self.products, self.signals, self.energies):
            log.flush()

    def scores(self, own: OwnRounds) -> Mapping[str, FloatArray]:
        """Scores by statistic, each float64 of shape (canaries,).

        They are the sum (Steinke et al. Algorithm 3, line 18) and the maximum of products over
        rounds, the sum of log likelihood ratios, and the sum of the signals in a canary's own
        rounds, divided by the root of the sum of the variances in these rounds.
        """
        over = over_rounds(self.products.rows(), self.products.num_canaries)
        present, _ = own.participations
        probability = len(present) / max(len(own.of_canary) * self.products.num_rounds, 1)
        ratios = np.zeros(self.products.num_canaries)
        for rows in zip(self.signals.rows(), self.energies.rows(), strict=True):
            of_round = Signals(*(row.astype(np.float64) for row in rows))
            ratios += log_likelihood_ratios(of_round, probability)
        logs = self.signals, self.energies
        signal, energy = (sums_in_own_rounds(numbered_rows(log), own).totals for log in logs)
        in_own = signal / np.sqrt(np.maximum(energy, np.finfo(np.float32).tiny))
        return {
            example_statistics.WHITE_BOX.name: over.total,
            example_statistics.WHITE_BOX_MAX.name: over.maximum,
            example_statistics.WHITE_BOX_RATIO.name: ratios,
            example_statistics.WHITE_BOX_OWN.name: in_own,
        }
