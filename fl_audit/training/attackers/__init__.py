"""The attackers of a run that trains, which include those that need TensorFlow."""

from fl_audit.training.attackers.make import attack_context, make_attackers

__all__ = ["attack_context", "make_attackers"]
