"""Laws of a canary's score, and what is known of the score of an excluded canary."""

from fl_audit.estimators.laws.concentration import Concentration, concentration_of
from fl_audit.estimators.laws.cosine import EXACT_COSINE_BELOW, ExactCosine, closed_form_null
from fl_audit.estimators.laws.gaussian import Gaussian
from fl_audit.estimators.laws.law import Law
from fl_audit.estimators.laws.null_tail import (
    AtMostNull,
    GaussianCanaryNull,
    LargestOfRoundsNull,
    NullTail,
    ScaledNull,
    SignCanaryNull,
)
from fl_audit.estimators.laws.rademacher import rademacher_log_tail_bound
from fl_audit.estimators.laws.rademacher_sum import rademacher_sum_log_tail

__all__ = [
    "EXACT_COSINE_BELOW",
    "AtMostNull",
    "Concentration",
    "ExactCosine",
    "Gaussian",
    "GaussianCanaryNull",
    "LargestOfRoundsNull",
    "Law",
    "NullTail",
    "ScaledNull",
    "SignCanaryNull",
    "closed_form_null",
    "concentration_of",
    "rademacher_log_tail_bound",
    "rademacher_sum_log_tail",
]
