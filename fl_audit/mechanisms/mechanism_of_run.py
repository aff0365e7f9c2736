"""The mechanism of a run: its noise, TFF's aggregator, and the clip norm in the aggregator's state.

Three noise multipliers are easy to confuse. The *effective* one describes everything that a round
releases. Under an adaptive clip norm a round releases two things, the noised sum of updates and the
noised count that moves the clip norm. The noise multiplier *of the sum* is then larger than the
effective one, so that both releases together are as private as one release at the effective
multiplier (Andrew et al. 2021, theorem 1: z^-2 = z_sum^-2 + (2 s)^-2 for count noise of standard
deviation s). Under tree aggregation each of them describes a node of the tree, and under matrix
factorisation the independent noise that the matrix correlates.
"""

import math
import typing
from typing import Any

import numpy as np

from fl_audit.accounting.release import Denominator, Noise
from fl_audit.array_types import FloatArray
from fl_audit.config_tables.kinds import Kinds
from fl_audit.errors import InputError
from fl_audit.mechanisms.client_gaussian import CLIENT_GAUSSIAN_KIND
from fl_audit.mechanisms.distributed import DISTRIBUTED
from fl_audit.mechanisms.independent import GAUSSIAN_ADAPTIVE, GAUSSIAN_FIXED, NO_PRIVACY
from fl_audit.mechanisms.kind import ClipAndNoise, Mechanism, MechanismKind
from fl_audit.mechanisms.matrix import MATRIX_FACTORISATION
from fl_audit.mechanisms.tree_aggregation import TREE_AGGREGATION
from fl_audit.mechanisms.zeroing import inside_zeroing, zeroed, zeroing_norm

if typing.TYPE_CHECKING:
    import tensorflow_federated as tff


MECHANISMS = Kinds[MechanismKind[Any]]("mechanism", Mechanism)

MECHANISMS.register(GAUSSIAN_ADAPTIVE)
MECHANISMS.register(GAUSSIAN_FIXED)
MECHANISMS.register(TREE_AGGREGATION)
MECHANISMS.register(MATRIX_FACTORISATION)
MECHANISMS.register(DISTRIBUTED)
MECHANISMS.register(CLIENT_GAUSSIAN_KIND)
MECHANISMS.register(NO_PRIVACY)


_LEAST_NOISE, _MOST_NOISE = 1e-6, 1e6
"""Noise multipliers between which accounting is exact; below, epsilon is above 1e11."""


def round_noise(table: Mechanism, expected_cohort: float) -> Noise:
    """The noise that a mechanism adds in a round.

    Args:
      table: The mechanism table of a config.
      expected_cohort: The expected number of clients and canaries in a round.

    Raises:
      InputError: The noise multiplier is out of the accountants' range, the noise on the adaptive
        clip's count is too low for it, or there are too few bits.
      ValueError: The mechanism returned noise of another distribution than its own.
    """
    multiplier = getattr(table, "noise_multiplier", 0.0)
    if multiplier and not _LEAST_NOISE <= multiplier <= _MOST_NOISE:
        raise InputError(
            f"mechanism.noise_multiplier: must be 0, for no noise, or from {_LEAST_NOISE:g} to "
            f"{_MOST_NOISE:g}, got {multiplier:g}"
        )
    kind = MECHANISMS.kind_of(table)
    noise = kind.round_noise(table, expected_cohort)
    if noise.distribution != kind.noise_distribution.name:
        raise ValueError(
            f"noise by {kind.noise_distribution.name!r} must say so, got {noise.distribution!r}"
        )
    return noise


def make_aggregator(
    table: Mechanism, expected_cohort: float, num_rounds: int
) -> "tff.aggregators.UnweightedAggregationFactory":
    """The aggregation that zeroes, clips, sums, adds noise and divides; imports TFF.

    Args:
      table: The mechanism table of a config, one that `round_noise` accepts.
      expected_cohort: The expected number of clients and canaries in a round. The sum is divided by
        it whatever the actual number is, so that the divisor reveals nothing; only `distributed`
        divides by the actual number.
      num_rounds: The number of rounds of training, which determines a matrix.
    """
    factory = MECHANISMS.kind_of(table).make_aggregator(table, expected_cohort, num_rounds)
    return factory if table.zeroing is None else zeroed(table.zeroing, factory)


_CLIPPED_NORM = 1e15
"""Above any adaptive clip norm; its square is a float32."""

_JUST_CLIPPED, _SURELY_CLIPPED = 1.001, 2.0
"""The least and the largest norm of a canary, over the clip norm."""


def clip_and_noise(table: Mechanism, aggregator_state: Any) -> ClipAndNoise:
    """The clip norm and the noise of the round that starts from a state.

    Args:
      table: The mechanism table of a config.
      aggregator_state: The state of the process of `make_aggregator`'s factory.
    """
    state = inside_zeroing(table.zeroing, aggregator_state)
    return MECHANISMS.kind_of(table).clip_and_noise(table, state)


def canary_norm(table: Mechanism, aggregator_state: Any) -> float:
    """The norm of a canary's update in the round that starts from a state.

    Args:
      table: The mechanism table of a config.
      aggregator_state: The state of the process of `make_aggregator`'s factory when the round
        begins.
    """
    if table.zeroing is None:
        return canary_length(table, math.inf, math.inf)
    clip_norm = clip_and_noise(table, aggregator_state).clip_norm
    return canary_length(table, clip_norm, zeroing_norm(table.zeroing, aggregator_state))


def client_lengths(
    table: Mechanism, denominator: Denominator, clip_norms: FloatArray, participants: FloatArray
) -> FloatArray:
    """The largest norm of a client in the aggregate of each round, shape (rounds,).

    Without clipping a client's norm is unbounded, and the canaries' fixed norm replaces it.
    """
    fixed = MECHANISMS.kind_of(table).canary_norm(table) or math.nan
    lengths = np.where(np.isinf(clip_norms), fixed, clip_norms)
    is_actual = denominator.divisor == "actual_cohort"
    return np.asarray(
        lengths / (np.maximum(participants, 1) if is_actual else denominator.expected)
    )


def canary_length(table: Mechanism, clip_norm: float, zeroing_norm: float) -> float:
    """The norm of a canary's update before a round zeroes and clips it.

    The update is long enough to be clipped to the round's clip norm (Andrew et al. Algorithm 1,
    PROJ). Zeroing looks at the largest coordinate, which is at most the norm. A canary is
    therefore no longer than the zeroing norm if that is above the clip norm, and otherwise a
    thousandth longer than the clip norm. Without clipping its norm is that of the config. Without
    zeroing, neither norm is used.
    """
    fixed = MECHANISMS.kind_of(table).canary_norm(table)
    if fixed is not None:
        return fixed
    if table.zeroing is None:
        return _CLIPPED_NORM
    return float(np.clip(zeroing_norm, _JUST_CLIPPED * clip_norm, _SURELY_CLIPPED * clip_norm))
