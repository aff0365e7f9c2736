"""pfl-research's mechanisms: what each user's statistics pass, and what the server adds."""

import contextlib
import functools
import math
import tempfile
from typing import Any
from unittest.mock import Mock

import numpy as np
from pfl.internal.ops import numpy_ops, pytorch_ops
from pfl.internal.ops.selector import set_framework_module
from pfl.privacy import gaussian_mechanism, laplace_mechanism
from pfl.privacy.adaptive_clipping import AdaptiveClippingGaussianMechanism
from pfl.privacy.ftrl_mechanism import BandedMatrixFactorizationMechanism, ForwardSubstitution
from pfl.privacy.privacy_accountant import PLDPrivacyAccountant
from pfl.privacy.privacy_mechanism import CentrallyAppliedPrivacyMechanism
from pfl.stats import MappedVectorStatistics

from experiments.in_the_wild.feature import (
    CLIP_NORM,
    NOISE_MULTIPLIER,
    SHAPES,
    Feature,
    pin_randomness,
)
from fl_audit import Promise

set_framework_module(numpy_ops)

_INDICATOR_STD = 3.0

ROUNDS = 16
"""The iterations of the matrix mechanism."""


def _statistics(update: Any) -> MappedVectorStatistics:
    parts = {f"v{i}": np.asarray(part, float) for i, part in enumerate(update)}
    return MappedVectorStatistics(parts, weight=1)


def round_of(mechanism: Any, updates: list, random: np.random.Generator) -> tuple[Any, Any]:
    """The sum of what users send, noised by the server."""
    seed = pin_randomness(random)
    total = _statistics([np.zeros(shape) for shape in SHAPES])
    total.weight = 0
    for index, update in enumerate(updates):
        user = Mock(seed=index)
        sent, _ = mechanism.postprocess_one_user(stats=_statistics(update), user_context=user)
        total = sent if index == 0 else total + sent
    context = Mock(cohort_size=len(updates), seed=seed)
    made, _ = mechanism.postprocess_server(
        stats=total, central_context=context, aggregate_metrics=None
    )
    return mechanism, [made[f"v{i}"] for i in range(len(SHAPES))]


def _central_gaussian() -> Any:
    return CentrallyAppliedPrivacyMechanism(
        gaussian_mechanism.GaussianMechanism(CLIP_NORM, NOISE_MULTIPLIER)
    )


def _central_laplace() -> Any:
    return CentrallyAppliedPrivacyMechanism(laplace_mechanism.LaplaceMechanism(CLIP_NORM, 1.0))


def adaptive() -> Any:
    """The mechanism with adaptive clipping."""
    return AdaptiveClippingGaussianMechanism(
        lambda bound: gaussian_mechanism.GaussianMechanism(bound, NOISE_MULTIPLIER),
        CLIP_NORM,
        _INDICATOR_STD,
        0.5,
    )


@functools.cache
def matrix_mechanism() -> Any:
    """The banded matrix mechanism of 16 iterations, in one of which a user takes part.

    Its matrix is optimised by PyTorch, as NumPy has no bridge for that.
    """
    set_framework_module(pytorch_ops, numpy_ops)
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):  # it saves its matrix
        made = BandedMatrixFactorizationMechanism(CLIP_NORM, ROUNDS, ROUNDS, _accountant)
    set_framework_module(numpy_ops, pytorch_ops)
    return made


def _accountant(num_compositions: int) -> PLDPrivacyAccountant:
    return PLDPrivacyAccountant(
        num_compositions=num_compositions,
        sampling_probability=1.0,
        mechanism="gaussian",
        delta=1e-5,
        noise_parameter=NOISE_MULTIPLIER,
    )


def matrix_stream() -> Any:
    """The mechanism at its first iteration."""
    mechanism = matrix_mechanism()
    mechanism._C_inv_noise = ForwardSubstitution(mechanism.query_matrix, ROUNDS - 1)
    return CentrallyAppliedPrivacyMechanism(mechanism)


_GAUSSIAN = (
    "The standard deviation of the Gaussian noise added to each statistic is defined as "
    "relative_noise_stddev * clipping_bound"
)
_OVERALL = NOISE_MULTIPLIER / math.sqrt(1 - (NOISE_MULTIPLIER / _INDICATOR_STD) ** 2)


def _promise(noise: float | None) -> Promise:
    return Promise(clip_norm=CLIP_NORM, denominator=1, noise_multiplier=noise)


FEATURES = (
    Feature(
        "GaussianMechanism, applied centrally",
        "pfl",
        _GAUSSIAN,
        "GaussianMechanism",
        "one user more or less",
        _promise(NOISE_MULTIPLIER),
        round_of,
        _central_gaussian,
    ),
    Feature(
        "LaplaceMechanism, applied centrally",
        "pfl",
        "Apply the Laplace mechanism for differential privacy ... The l1 norm is computed over all "
        "the arrays and clipped by a bound",
        "LaplaceMechanism",
        "one user more or less; its L2 norm is at most the bound on L1",
        _promise(None),
        round_of,
        _central_laplace,
    ),
    Feature(
        "AdaptiveClippingGaussianMechanism",
        "pfl",
        "Central DP noise (standard deviation set by clipping_indicator_noise_stddev) is added to "
        "the aggregated clipping indicator",
        "AdaptiveClippingGaussianMechanism",
        "one user more or less",
        Promise(clip_norm=CLIP_NORM, denominator=1, noise_multiplier=_OVERALL, smallest_cohort=1),
        round_of,
        adaptive,
    ),
)
