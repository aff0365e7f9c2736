"""Gaussian noise that each client adds to its own upload (local, or "weak" distributed, DP).

A client uploads clip(u) + N(0, z^2 C^2 I) and the server averages uploads. An attacker who sees an
upload faces one Gaussian mechanism of noise multiplier z. An attacker who sees only the sum of n
uploads faces noise of standard deviation sqrt(n) z C.
"""

import typing
from typing import Any

import numpy as np

from fl_audit.accounting.noise_distributions import CLIENT_GAUSSIAN
from fl_audit.array_types import IntArray
from fl_audit.config_tables.kinds import PositiveFloat
from fl_audit.mechanisms.kind import (
    MechanismKind,
    NoisyMechanism,
    by_multiplier,
    fresh_in_each_round,
)

if typing.TYPE_CHECKING:
    import tensorflow_federated as tff


class ClientGaussian(
    NoisyMechanism, frozen=True, kw_only=True, tag_field="kind", tag="client_gaussian"
):
    """Gaussian noise that each client adds to its own clipped update before the upload.

    Attributes:
      noise_multiplier: Standard deviation of the noise on each upload, in clip norms.
      epsilon: Target epsilon of a client from accounting, against attackers who see only
        aggregates, instead of `noise_multiplier`.
      clip_norm: L2 norm to which updates are clipped.
    """

    clip_norm: PositiveFloat


def _aggregator(
    table: ClientGaussian, expected_cohort: float, num_rounds: int
) -> "tff.aggregators.UnweightedAggregationFactory":
    from fl_audit.mechanisms.tff_aggregators import MeanOfNoisedUploads

    return MeanOfNoisedUploads(table.clip_norm, table.multiplier, expected_cohort)


def noise_keys(aggregator_state: Any, participants: int) -> IntArray:
    """The keys of the noise of a round's participants, int64 of shape (participants, 2).

    The keys follow from the state of `MeanOfNoisedUploads` before the round, which holds a key and
    the number of earlier rounds. So a resumed run has the same noise as an uninterrupted one.
    """
    state = aggregator_state.query_state.numerator_state
    entropy = [int(part) % 2**64 for part in np.asarray(state.key)]
    seeds = np.random.SeedSequence(entropy, spawn_key=(int(state.calls),))
    random = np.random.Generator(np.random.PCG64(seeds))
    return random.integers(-(2**63), 2**63, (participants, 2), np.int64, endpoint=False)


CLIENT_GAUSSIAN_KIND = MechanismKind(
    table=ClientGaussian,
    make_aggregator=_aggregator,
    noise_distribution=CLIENT_GAUSSIAN,
    round_noise=by_multiplier(CLIENT_GAUSSIAN),
    divides_by="expected_cohort",
    correlation=fresh_in_each_round,
    why_not_replayed="clients draw noise from keys that a replay does not provide",
    clip_words=lambda table: f"Each client clips its update to norm {table.clip_norm:g}",
    noise_words=lambda table, record: (
        " and adds Gaussian noise with noise multiplier "
        f"{record.release.noise.noise_multiplier:g} before it uploads it"
    ),
)
