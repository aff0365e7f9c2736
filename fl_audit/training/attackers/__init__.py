"""Attackers: what each sees of a run while it trains, and the scores that it gives canaries."""

from fl_audit.training.attackers.attacker import Attacker, FloatArray, SeenRound, Weights
from fl_audit.training.attackers.make import make_attackers

__all__ = ["Attacker", "FloatArray", "SeenRound", "Weights", "make_attackers"]
