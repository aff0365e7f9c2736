"""Lower bounds from guesses at who was included (Steinke et al. 2023)."""

from fl_audit.estimators.one_run.bound import epsilon_lower_bound, p_value
from fl_audit.estimators.one_run.dynamic_guesses import dynamic_epsilon_bounds, dynamic_p_values
from fl_audit.estimators.one_run.f_dp import f_dp_p_value, mu_lower_bound
from fl_audit.estimators.one_run.guesses import Guesses
from fl_audit.estimators.one_run.hoeffding import hoeffding_epsilon_lower_bound, hoeffding_p_value
from fl_audit.estimators.one_run.inclusion import (
    inclusion_epsilon_lower_bound,
    inclusion_p_value,
)
from fl_audit.estimators.one_run.many_bounds import epsilon_lower_bounds
from fl_audit.estimators.one_run.pair_scores import PairScores
from fl_audit.estimators.one_run.paired import paired_one_run
from fl_audit.estimators.one_run.pathological import PathologicalMechanism
from fl_audit.estimators.one_run.sharp import sharp_epsilon_lower_bound, sharp_p_values
from fl_audit.estimators.one_run.weighted import weighted_epsilon_lower_bound, weighted_p_value

__all__ = [
    "Guesses",
    "PairScores",
    "PathologicalMechanism",
    "dynamic_epsilon_bounds",
    "dynamic_p_values",
    "epsilon_lower_bound",
    "epsilon_lower_bounds",
    "f_dp_p_value",
    "hoeffding_epsilon_lower_bound",
    "hoeffding_p_value",
    "inclusion_epsilon_lower_bound",
    "inclusion_p_value",
    "mu_lower_bound",
    "p_value",
    "paired_one_run",
    "sharp_epsilon_lower_bound",
    "sharp_p_values",
    "weighted_epsilon_lower_bound",
    "weighted_p_value",
]
