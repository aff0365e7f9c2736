"""Mechanisms, one module each: what is done to updates before anybody sees them.

To add one, write a module like `gaussian.py` and register its `MechanismKind` in `MECHANISMS`, here
or in a package of your own. Nothing here imports TensorFlow before an aggregator is made.
"""

from fl_audit.mechanisms.aggregator import make_aggregator, round_noise
from fl_audit.mechanisms.aggregator_state import canary_norm, clip_and_noise
from fl_audit.mechanisms.distributed import Distributed
from fl_audit.mechanisms.gaussian import GaussianAdaptive, GaussianFixed
from fl_audit.mechanisms.kind import (
    ClipAndNoise,
    Mechanism,
    MechanismKind,
    RoundNoise,
    fresh_in_each_round,
    made_to_be_clipped,
)
from fl_audit.mechanisms.no_privacy import NoPrivacy
from fl_audit.mechanisms.noise_keys import NoisyMechanism
from fl_audit.mechanisms.registry import MECHANISMS
from fl_audit.mechanisms.tree_aggregation import TreeAggregation
from fl_audit.mechanisms.zeroing import AdaptiveZeroing, FixedZeroing, Zeroing, zeroing_kind

__all__ = [
    "MECHANISMS",
    "AdaptiveZeroing",
    "ClipAndNoise",
    "Distributed",
    "FixedZeroing",
    "GaussianAdaptive",
    "GaussianFixed",
    "Mechanism",
    "MechanismKind",
    "NoPrivacy",
    "NoisyMechanism",
    "RoundNoise",
    "TreeAggregation",
    "Zeroing",
    "canary_norm",
    "clip_and_noise",
    "fresh_in_each_round",
    "made_to_be_clipped",
    "make_aggregator",
    "round_noise",
    "zeroing_kind",
]
