"""Mechanisms: clipping and noise of the released aggregate.

To add one, write a module like `matrix.py`, here or in another package, and register its
`MechanismKind` in `MECHANISMS`; if its noise has a distribution of its own, add that to
`accounting/noise_distributions.py`, and for runtime `jax` a case to `engines/jax/from_config.py`.
Only calling `make_aggregator` imports TensorFlow.

>>> adaptive = GaussianAdaptive(noise_multiplier=1.0)
>>> noise = round_noise(adaptive, expected_cohort=22.0)
>>> round(noise.sum_noise_multiplier, 3), round(noise.count_noise_stddev, 3)
(1.123, 1.1)
"""

from fl_audit.mechanisms.client_gaussian import ClientGaussian
from fl_audit.mechanisms.distributed import Distributed
from fl_audit.mechanisms.independent import GaussianAdaptive, GaussianFixed, NoPrivacy
from fl_audit.mechanisms.kind import (
    ClipAndNoise,
    Mechanism,
    MechanismKind,
    NoisyMechanism,
    by_multiplier,
    fresh_in_each_round,
)
from fl_audit.mechanisms.matrix import MatrixFactorisation
from fl_audit.mechanisms.mechanism_of_run import (
    MECHANISMS,
    canary_norm,
    client_lengths,
    clip_and_noise,
    describe,
    make_aggregator,
    mechanism_for_epsilon,
    round_noise,
)
from fl_audit.mechanisms.tree_aggregation import TreeAggregation
from fl_audit.mechanisms.zeroing import AdaptiveZeroing, FixedZeroing, Zeroing, zeroing_kind

__all__ = [
    "MECHANISMS",
    "AdaptiveZeroing",
    "ClientGaussian",
    "ClipAndNoise",
    "Distributed",
    "FixedZeroing",
    "GaussianAdaptive",
    "GaussianFixed",
    "MatrixFactorisation",
    "Mechanism",
    "MechanismKind",
    "NoPrivacy",
    "NoisyMechanism",
    "TreeAggregation",
    "Zeroing",
    "by_multiplier",
    "canary_norm",
    "client_lengths",
    "clip_and_noise",
    "describe",
    "fresh_in_each_round",
    "make_aggregator",
    "mechanism_for_epsilon",
    "round_noise",
    "zeroing_kind",
]
