"""Estimators: scores and counts in, epsilon out, with numpy and scipy alone.

A LARGER score always means MORE like a member. Every `Estimate` says what kind of number it is
(a lower bound, an interval, a point estimate) and for which mechanisms it is valid.

>>> import numpy as np
>>> rng = np.random.default_rng(1)
>>> scores = CanaryScores(included=rng.normal(3, 1, 200), excluded=rng.normal(0, 1, 200))
>>> result = estimate(scores, delta=1e-5, methods=["threshold_valid", "one_run_valid"])
>>> [(e.method, e.valid_for, round(e.epsilon, 2)) for e in result.estimates]
[('threshold_valid', 'independent scores', 3.09), ('one_run_valid', 'any mechanism', 3.87)]

Nothing here imports TensorFlow, so a log of scores can be audited on any machine.
"""

from fl_audit.estimators.distributions import Distribution, ExactCosine, Gaussian, closed_form_null
from fl_audit.estimators.gaussian.fit import (
    AndersonDarling,
    BestThreshold,
    anderson_darling,
    epsilon_of_distributions,
    epsilon_over_all_regions,
)
from fl_audit.estimators.methods import (
    METHODS,
    AuditResult,
    Method,
    estimate,
    register_method,
    remove_method,
    valid_methods,
)
from fl_audit.estimators.null import (
    GaussianCanaryNull,
    LargestOfRoundsNull,
    Null,
    NullTail,
    ScaledNull,
    SignCanaryNull,
)
from fl_audit.estimators.one_run.bound import epsilon_lower_bound, p_value
from fl_audit.estimators.random_signs import (
    Concentration,
    concentration_of,
    rademacher_log_tail_bound,
)
from fl_audit.estimators.result import Estimate
from fl_audit.estimators.roc import (
    RocSummary,
    auc,
    balanced_accuracy,
    bootstrap_interval,
    katz_log_bound,
    roc_summary,
    tpr_at_fpr,
)
from fl_audit.estimators.scores import CanaryScores
from fl_audit.estimators.setting import AuditSetting, NotApplicableError

__all__ = [
    "METHODS",
    "AndersonDarling",
    "AuditResult",
    "AuditSetting",
    "BestThreshold",
    "CanaryScores",
    "Concentration",
    "Distribution",
    "Estimate",
    "ExactCosine",
    "Gaussian",
    "GaussianCanaryNull",
    "LargestOfRoundsNull",
    "Method",
    "NotApplicableError",
    "Null",
    "NullTail",
    "RocSummary",
    "ScaledNull",
    "SignCanaryNull",
    "anderson_darling",
    "auc",
    "balanced_accuracy",
    "bootstrap_interval",
    "closed_form_null",
    "concentration_of",
    "epsilon_lower_bound",
    "epsilon_of_distributions",
    "epsilon_over_all_regions",
    "estimate",
    "katz_log_bound",
    "p_value",
    "rademacher_log_tail_bound",
    "register_method",
    "remove_method",
    "roc_summary",
    "tpr_at_fpr",
    "valid_methods",
]
