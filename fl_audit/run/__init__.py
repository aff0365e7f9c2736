"""A training run: it is trained round by round, observed, checkpointed and written to a folder."""
