"""Lower bounds from guesses at inclusion in one run (Steinke et al. 2023).

With 75 correct out of 100 guesses about 1,000 canaries and delta 1e-3, the paper's bound is 0, but
the bound by the exact worst case of delta is not:

>>> epsilon_lower_bound(1000, 100, 75, delta=1e-3, confidence=0.95)
0.0
>>> round(sharp_epsilon_lower_bound(1000, 100, 75, delta=1e-3, confidence=0.95), 3)
0.612

Further bounds of the paper are in experiments/steinke2023_bounds.
"""

from fl_audit.estimators.one_run.bound import (
    PathologicalMechanism,
    epsilon_lower_bound,
    p_value,
    sharp_epsilon_lower_bound,
    sharp_p_values,
)
from fl_audit.estimators.one_run.f_dp import f_dp_p_value, mu_lower_bound
from fl_audit.estimators.one_run.guesses import Guesses

__all__ = [
    "Guesses",
    "PathologicalMechanism",
    "epsilon_lower_bound",
    "f_dp_p_value",
    "mu_lower_bound",
    "p_value",
    "sharp_epsilon_lower_bound",
    "sharp_p_values",
]
