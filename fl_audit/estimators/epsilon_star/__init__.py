"""Epsilon* of one trained model, from its losses (Negoescu et al. 2024, arXiv:2307.11280).

Mixtures, several models and tests of fit are in experiments/negoescu2024_appendix_b.
"""

from fl_audit.estimators.epsilon_star.empirical import empirical_epsilon_star
from fl_audit.estimators.epsilon_star.losses import log_odds_losses
from fl_audit.estimators.epsilon_star.of_laws import epsilon_star_of_laws

__all__ = ["empirical_epsilon_star", "epsilon_star_of_laws", "log_odds_losses"]
