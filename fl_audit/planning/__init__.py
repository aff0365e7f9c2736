"""Plans of audits before any training: what they would report, can detect and cost.

Rounds are simulated in law: a canary's inner product with a noised sum is drawn directly, without
vectors or clients. docs/plan.md has the formulas.
"""

from fl_audit.planning.answer import answer_lines
from fl_audit.planning.found_noise import FoundNoise, asked_for_epsilon, find_noise
from fl_audit.planning.plan import LEAST_TRIALS, Plan, make_plan
from fl_audit.planning.text import plan_lines

__all__ = [
    "LEAST_TRIALS",
    "FoundNoise",
    "Plan",
    "answer_lines",
    "asked_for_epsilon",
    "find_noise",
    "make_plan",
    "plan_lines",
]
