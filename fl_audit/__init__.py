"""fl_audit: how private a federated training run really was, measured during that run."""
