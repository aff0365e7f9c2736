"""Plans of audits before any training: what they would report, can detect and cost.

A canary's inner product with a noised sum is drawn from its distribution, without vectors or
clients: `simulation` has the formulas.
"""

from fl_audit.planning.plan import LEAST_TRIALS, Plan, make_plan
from fl_audit.planning.text import answer_lines, plan_lines

__all__ = [
    "LEAST_TRIALS",
    "Plan",
    "answer_lines",
    "make_plan",
    "plan_lines",
]
