"""Negoescu et al. (2023), "Epsilon*: Privacy Metric for Machine Learning Models"."""

from fl_audit.estimators.papers.negoescu2023.goodness_of_fit import kolmogorov_smirnov_table
from fl_audit.estimators.papers.negoescu2023.mechanism_epsilon import mechanism_epsilon
from fl_audit.estimators.papers.negoescu2023.mixture import epsilon_star_of_mixtures
from fl_audit.estimators.papers.negoescu2023.several_models import log_mean_exp_epsilon

__all__ = [
    "epsilon_star_of_mixtures",
    "kolmogorov_smirnov_table",
    "log_mean_exp_epsilon",
    "mechanism_epsilon",
]
