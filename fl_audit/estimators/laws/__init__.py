"""Laws of a canary's score: Gaussians, and the exact cosine of a random direction."""

from fl_audit.estimators.laws.cosine import EXACT_COSINE_BELOW, ExactCosine, closed_form_null
from fl_audit.estimators.laws.gaussian import Gaussian
from fl_audit.estimators.laws.law import Law

__all__ = ["EXACT_COSINE_BELOW", "ExactCosine", "Gaussian", "Law", "closed_form_null"]
