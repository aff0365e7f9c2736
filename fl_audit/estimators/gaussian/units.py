"""Units of scores in which no square of one leaves floating point."""

import numpy as np

from fl_audit.estimators.laws.gaussian import scaled_to_one
from fl_audit.estimators.scores import CanaryScores
from fl_audit.estimators.setting import AuditSetting


def in_units(setting: AuditSetting) -> tuple[CanaryScores, float]:
    """The scores in units in which the largest is about 1, and the unit.

    The closed-form null is a law of cosines, whose unit is 1.
    """
    scores = setting.scores
    both = np.concatenate([scores.included, scores.excluded])
    if setting.null == "closed_form" or not both.any():
        return scores, 1.0
    scaled, unit = scaled_to_one(both)
    count = scores.num_included
    return CanaryScores(scaled[:count], scaled[count:]), unit
