"""Epsilon* of one trained model, from its losses (Negoescu et al. 2024, arXiv:2307.11280)."""

from fl_audit.estimators.epsilon_star.empirical import empirical_epsilon_star
from fl_audit.estimators.epsilon_star.goodness_of_fit import kolmogorov_smirnov_table
from fl_audit.estimators.epsilon_star.mixture import epsilon_star_of_mixtures
from fl_audit.estimators.epsilon_star.of_laws import epsilon_star_of_laws
from fl_audit.estimators.epsilon_star.several_models import log_mean_exp_epsilon

__all__ = [
    "empirical_epsilon_star",
    "epsilon_star_of_laws",
    "epsilon_star_of_mixtures",
    "kolmogorov_smirnov_table",
    "log_mean_exp_epsilon",
]
