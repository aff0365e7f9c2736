"""The posterior of epsilon from the error counts of attacks on several challenge bases.

Yıldırım, Kaya, Yıldırım & Savaş (2025), "MCMC for Bayesian Estimation of Differential Privacy from
Membership Inference Attacks".
"""

from fl_audit.estimators.challenge_bases.mhaar import ChainSettings
from fl_audit.estimators.challenge_bases.model import ChallengeCounts, Prior, alpha_prior
from fl_audit.estimators.challenge_bases.posterior import full_posterior, posterior
from fl_audit.estimators.challenge_bases.summary import PosteriorSummary

__all__ = [
    "ChainSettings",
    "ChallengeCounts",
    "PosteriorSummary",
    "Prior",
    "alpha_prior",
    "full_posterior",
    "posterior",
]
