"""The attackers of a run that trains: those of `fl_audit.attacks` and those that need TensorFlow."""

from fl_audit.training.attackers.make import make_attackers

__all__ = ["make_attackers"]
