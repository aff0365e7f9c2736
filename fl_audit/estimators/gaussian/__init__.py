"""Gaussian scores: the fit of Andrew et al. (2023), epsilon of two Gaussians, the mechanism."""
