"""One run: prepared, trained round by round, checkpointed, written to its folder."""
