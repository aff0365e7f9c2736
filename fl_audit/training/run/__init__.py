"""A training run: it is prepared, trained round by round, checkpointed and written to a folder."""
