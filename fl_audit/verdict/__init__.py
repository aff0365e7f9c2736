"""The verdict on a claimed epsilon by the scores of canaries.

The outcome is contradicted, consistent or inconclusive, as defined in docs/verdict.md. The tests
are chosen before the scores are seen:

>>> import numpy as np
>>> from fl_audit.estimators import CanaryScores
>>> random = np.random.default_rng(1)
>>> scores = CanaryScores(included=random.normal(4, 1, 200), excluded=random.normal(0, 1, 200))
>>> tests = ClaimTests([ScoredStatistic("sum", scores)], confidence=0.95)
>>> verdict = reach_verdict(Claim(epsilon=1.0, delta=1e-5), tests)
>>> print(verdict.outcome, round(verdict.epsilon_lower, 2))
contradicted 4.45

Nothing here imports TensorFlow.
"""

from fl_audit.verdict.chosen_tests import (
    ChosenTests,
    chosen_methods,
    chosen_tests,
    scored_statistic,
)
from fl_audit.verdict.claim_tests import ClaimTests, ScoredStatistic
from fl_audit.verdict.claims import (
    LARGEST_EPSILON,
    Claim,
    ConfiguredClaim,
    CurveClaim,
    GaussianClaim,
    NoiseClaim,
    ProfileClaim,
    ZeroConcentratedClaim,
)
from fl_audit.verdict.curve_claim_tests import curve_tests
from fl_audit.verdict.decision import after_checks, reach_verdict
from fl_audit.verdict.exposure import Background
from fl_audit.verdict.record import Verdict
from fl_audit.verdict.separation import separation

__all__ = [
    "LARGEST_EPSILON",
    "Background",
    "ChosenTests",
    "Claim",
    "ClaimTests",
    "ConfiguredClaim",
    "CurveClaim",
    "GaussianClaim",
    "NoiseClaim",
    "ProfileClaim",
    "ScoredStatistic",
    "Verdict",
    "ZeroConcentratedClaim",
    "after_checks",
    "chosen_methods",
    "chosen_tests",
    "curve_tests",
    "reach_verdict",
    "scored_statistic",
    "separation",
]
