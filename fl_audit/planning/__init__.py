"""Plans of audits before any training: what they would report, can detect and cost.

Canaries' scores are drawn as the verdict's simulation draws them, by predicted lengths
(`background`), without vectors or clients.
"""

from fl_audit.planning.plan import (
    LEAST_TRIALS,
    FoundNoise,
    Plan,
    asked_for_epsilon,
    find_noise,
    make_plan,
)
from fl_audit.planning.text import answer_lines, noise_lines, plan_lines

__all__ = [
    "LEAST_TRIALS",
    "FoundNoise",
    "Plan",
    "answer_lines",
    "asked_for_epsilon",
    "find_noise",
    "make_plan",
    "noise_lines",
    "plan_lines",
]
