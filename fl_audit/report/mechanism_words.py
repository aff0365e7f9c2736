"""What is done to updates, in sentences."""

from fl_audit.config import (
    AdaptiveZeroing,
    Distributed,
    FixedZeroing,
    GaussianAdaptive,
    GaussianFixed,
    Mechanism,
    NoPrivacy,
    TreeAggregation,
    Zeroing,
)
from fl_audit.formats.run_folder import RunRecord
from fl_audit.number_words import count, significant


def mechanism_words(record: RunRecord, mechanism: Mechanism) -> str:
    """A sentence on clipping and noise, after one on zeroing where there is any."""
    return f"{_zeroing(mechanism.zeroing)}{_clip(mechanism)}{_noise(record, mechanism)}."


def _zeroing(zeroing: Zeroing | None) -> str:
    match zeroing:
        case None:
            return ""
        case FixedZeroing(norm=norm):
            return f"An update with a coordinate above {norm:g} counts as zero. "
        case AdaptiveZeroing(target_quantile=quantile):
            return (
                "An update counts as zero if its largest coordinate is above "
                f"{zeroing.multiplier:g} times a running estimate of the {quantile:g} quantile of "
                f"all, plus {zeroing.increment:g}; the estimate is not noised. "
            )


def _clip(mechanism: Mechanism) -> str:
    match mechanism:
        case GaussianAdaptive(clip_norm=norm, target_quantile=quantile):
            return _moving_clip(norm, quantile)
        case GaussianFixed(clip_norm=norm) | TreeAggregation(clip_norm=norm):
            return f"Updates are clipped to norm {norm:g}"
        case Distributed():
            return _moving_clip(0.1, 0.5)
        case NoPrivacy(canary_norm=norm):
            return f"Updates are not clipped, and a canary’s is {norm:g} long"


def _moving_clip(norm: float, quantile: float) -> str:
    return (
        f"Updates are clipped to a norm that starts at {norm:g} and follows the {quantile:g} "
        "quantile of their norms"
    )


def _noise(record: RunRecord, mechanism: Mechanism) -> str:
    if record.noise_multiplier == 0:
        return "; no noise is added"
    effective = f"{record.noise_multiplier:g}"
    match mechanism:
        case TreeAggregation():
            return (
                f"; tree aggregation (DP-FTRL) adds Gaussian noise of {effective} clip norms to "
                f"every node of a binary tree over {_rounds_of_tree(record, mechanism)}"
            )
        case Distributed():
            return (
                f"; {_with_count(record, 'Skellam')}. Each participant adds its share of the noise "
                f"before secure aggregation, whose sums of {mechanism.bits} bits are simulated"
            )
        case GaussianAdaptive():
            return f"; {_with_count(record, 'Gaussian')}"
        case _:
            return f"; Gaussian noise of {effective} clip norms is added to their sum"


def _with_count(record: RunRecord, law: str) -> str:
    return (
        f"the effective noise multiplier is {record.noise_multiplier:g}, made of {law} noise of "
        f"{significant(record.sum_noise_multiplier)} clip norms on the sum of updates and of "
        f"{significant(record.count_noise_stddev)} clients on the count that moves the clip norm"
    )


def _rounds_of_tree(record: RunRecord, mechanism: TreeAggregation) -> str:
    if mechanism.restart_every is None or mechanism.restart_every >= record.rounds:
        return "all rounds"
    return f"the rounds, a new tree every {count(mechanism.restart_every, 'round')}"
