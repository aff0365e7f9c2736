"""The attackers of a run that trains, which include those that need TensorFlow."""

from fl_audit.training.attackers.make import make_attackers

__all__ = ["make_attackers"]
