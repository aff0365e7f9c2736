"""Laws of a canary's score: Gaussians, the exact cosine of a random direction, and a bound."""

from fl_audit.estimators.laws.cosine import EXACT_COSINE_BELOW, ExactCosine, closed_form_null
from fl_audit.estimators.laws.gaussian import Gaussian
from fl_audit.estimators.laws.law import Law
from fl_audit.estimators.laws.rademacher import rademacher_log_tail_bound

__all__ = [
    "EXACT_COSINE_BELOW",
    "ExactCosine",
    "Gaussian",
    "Law",
    "closed_form_null",
    "rademacher_log_tail_bound",
]
