"""Lower bounds from guesses at who was included (Steinke et al. 2023).

The paper's bounds that no audit runs are in experiments/steinke2023_bounds.
"""

from fl_audit.estimators.one_run.bound import epsilon_lower_bound, p_value
from fl_audit.estimators.one_run.guesses import Guesses
from fl_audit.estimators.one_run.pathological import PathologicalMechanism
from fl_audit.estimators.one_run.sharp import sharp_epsilon_lower_bound, sharp_p_values
from fl_audit.estimators.one_run.trade_off_p_value import f_dp_p_value, mu_lower_bound

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
