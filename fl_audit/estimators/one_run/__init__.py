"""Lower bounds from guesses at who was included (Steinke et al. 2023).

The paper's bounds that no audit runs are in experiments/steinke2023_bounds.
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
