"""Scoring canaries from what another system logs: a pool's few numbers and a vector per round.

Nothing here imports TensorFlow. A canary client anywhere asks `CanaryPool` for its vector; a
server hands `RoundScorer` each round's aggregate, or writes it into a folder that `fl-audit
estimate` scores. docs/logs.md has the format and an example of each.
"""

from fl_audit.attacks.arrays import flatten, unflatten
from fl_audit.attacks.scorer import RoundScorer
from fl_audit.canaries.pool import CanaryPool

__all__ = ["CanaryPool", "RoundScorer", "flatten", "unflatten"]
