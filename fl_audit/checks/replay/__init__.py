"""Replay of one round with the noise held fixed (docs/replay.md)."""
