"""A claimed epsilon against the scores of canaries: contradicted, consistent, or inconclusive.

Nothing here imports TensorFlow. docs/verdict.md defines the words.
"""

from fl_audit.verdict.claim import LARGEST_EPSILON, Claim
from fl_audit.verdict.decision import Verdict, reach_verdict
from fl_audit.verdict.evidence import VALID_METHODS, Looks, Statistic

__all__ = [
    "LARGEST_EPSILON",
    "VALID_METHODS",
    "Claim",
    "Looks",
    "Statistic",
    "Verdict",
    "reach_verdict",
]
