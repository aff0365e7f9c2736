"""Yıldırım et al. (2024), "MCMC for Bayesian Estimation of Differential Privacy"."""
