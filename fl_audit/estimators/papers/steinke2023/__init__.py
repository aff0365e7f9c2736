"""Steinke et al. (2023), "Privacy Auditing with One (1) Training Run": appendices and figures."""

from fl_audit.estimators.one_run.pair_scores import PairScores
from fl_audit.estimators.papers.steinke2023.dynamic_guesses import (
    dynamic_epsilon_bounds,
    dynamic_p_values,
)
from fl_audit.estimators.papers.steinke2023.hoeffding import (
    hoeffding_epsilon_lower_bound,
    hoeffding_p_value,
)
from fl_audit.estimators.papers.steinke2023.inclusion import (
    inclusion_epsilon_lower_bound,
    inclusion_p_value,
)
from fl_audit.estimators.papers.steinke2023.many_bounds import epsilon_lower_bounds
from fl_audit.estimators.papers.steinke2023.paired import paired_one_run
from fl_audit.estimators.papers.steinke2023.weighted import (
    weighted_epsilon_lower_bound,
    weighted_p_value,
)

__all__ = [
    "PairScores",
    "dynamic_epsilon_bounds",
    "dynamic_p_values",
    "epsilon_lower_bounds",
    "hoeffding_epsilon_lower_bound",
    "hoeffding_p_value",
    "inclusion_epsilon_lower_bound",
    "inclusion_p_value",
    "paired_one_run",
    "weighted_epsilon_lower_bound",
    "weighted_p_value",
]
