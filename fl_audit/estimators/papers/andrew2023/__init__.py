"""Andrew et al. (2023), "One-shot Empirical Privacy Estimation for Federated Learning"."""
