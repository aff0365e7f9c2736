r"""Plans of audits before any training: expected report, power and cost.

>>> from pathlib import Path
>>> import fl_audit
>>> quickstart = Path(fl_audit.__file__).parent / "pipeline" / "quickstart.toml"
>>> config = fl_audit.load_config(quickstart, ["mechanism.noise_multiplier=0.3"])
>>> plan = make_plan(config, trials=LEAST_TRIALS)
>>> print("\n".join(answer_lines(plan)))  # doctest: +ELLIPSIS
plan of digits: 500 canaries, of which coins include 266; 100 rounds of about 20.0 clients ...
lower bound   ε ≥ 1...

Canaries' scores are simulated as for a verdict, but from predicted norms
(predicted_background.py), without vectors or clients.
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
