"""A training run: trained round by round, observed, checkpointed and written to a folder."""
