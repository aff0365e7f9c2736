"""A mechanism from outside the package: Gaussian noise of twice the multiplier asked for."""

import contextlib
from collections.abc import Iterator

from fl_audit.accounting.noise_distributions import GAUSSIAN
from fl_audit.config_tables import Table
from fl_audit.mechanisms import (
    MECHANISMS,
    ClipAndNoise,
    Mechanism,
    MechanismKind,
    fresh_in_each_round,
)


class DoubledNoise(Table, Mechanism, frozen=True, tag_field="kind", tag="doubled_noise"):
    noise_multiplier: float
    clip_norm: float = 0.5


def _aggregator(table, expected_cohort, num_rounds):
    import tensorflow_federated as tff

    return tff.aggregators.DifferentiallyPrivateFactory.gaussian_fixed(
        2 * table.noise_multiplier, expected_cohort, table.clip_norm
    )


def _clip_and_noise(table, state):
    sum_state = state.query_state.numerator_state
    return ClipAndNoise(float(sum_state.l2_norm_clip), float(sum_state.stddev))


PARTS = {
    "table": DoubledNoise,
    "round_noise": lambda table, cohort: GAUSSIAN.noise(
        2 * table.noise_multiplier, 2 * table.noise_multiplier
    ),
    "make_aggregator": _aggregator,
    "clip_and_noise": _clip_and_noise,
    "noise_distribution": GAUSSIAN,
    "divides_by": "actual_cohort",
    "correlation": fresh_in_each_round,
    "why_not_checked": "it is a toy",
    "why_not_replayed": "it is a toy",
    "clip_words": lambda table: f"Toy clip at {table.clip_norm:g}",
    "noise_words": lambda table, record: (
        f", toy noise of {record.release.noise.noise_multiplier:g}"
    ),
}


@contextlib.contextmanager
def doubled_noise() -> Iterator[None]:
    """Inside the block the mechanism is registered."""
    MECHANISMS.register(MechanismKind(**PARTS))
    try:
        yield
    finally:
        MECHANISMS.remove("doubled_noise")
