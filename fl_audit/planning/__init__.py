"""Planning an audit before a week of training: what it would say, what it can tell, what it costs.

Rounds are simulated in law: a canary's inner product with a noised sum is drawn, no vector and no
client. docs/plan.md has the formulas.
"""

from fl_audit.planning.plan import LEAST_TRIALS, Plan, make_plan
from fl_audit.planning.text import plan_lines

__all__ = ["LEAST_TRIALS", "Plan", "make_plan", "plan_lines"]
