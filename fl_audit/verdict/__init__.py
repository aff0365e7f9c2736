"""The verdict on a claimed epsilon by the scores of canaries.

It is contradicted, consistent or inconclusive; docs/verdict.md defines these words. Nothing here
imports TensorFlow.
"""

from fl_audit.verdict.chosen_tests import (
    ChosenTests,
    chosen_methods,
    chosen_tests,
    scored_statistic,
)
from fl_audit.verdict.claim_tests import LARGEST_EPSILON, Claim, ClaimTests, ScoredStatistic
from fl_audit.verdict.decision import Verdict, after_checks, reach_verdict
from fl_audit.verdict.separation import separation

__all__ = [
    "LARGEST_EPSILON",
    "ChosenTests",
    "Claim",
    "ClaimTests",
    "ScoredStatistic",
    "Verdict",
    "after_checks",
    "chosen_methods",
    "chosen_tests",
    "reach_verdict",
    "scored_statistic",
    "separation",
]
