"""MCMC-DP-Est: the posterior of epsilon from error counts on several challenge bases.

Yıldırım, Kaya, Yıldırım & Savaş (2025), "MCMC for Bayesian Estimation of Differential Privacy from
Membership Inference Attacks".

>>> counts = ChallengeCounts(fp=[10, 5], n0=[100, 100], fn=[10, 20], n1=[100, 100])
>>> result = posterior(counts, delta=1e-5)
>>> round(result.epsilon.mean, 1)
3.4
"""

from fl_audit.estimators.challenge_bases.counts_and_priors import (
    ChallengeCounts,
    Prior,
    alpha_prior,
)
from fl_audit.estimators.challenge_bases.mhaar_chains import ChainSettings
from fl_audit.estimators.challenge_bases.posterior import full_posterior, posterior
from fl_audit.estimators.challenge_bases.posterior_summary import PosteriorSummary

__all__ = [
    "ChainSettings",
    "ChallengeCounts",
    "PosteriorSummary",
    "Prior",
    "alpha_prior",
    "full_posterior",
    "posterior",
]
