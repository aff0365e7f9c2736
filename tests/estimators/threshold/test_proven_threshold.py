"""The strongest of several thresholds, by hand."""

import math

import numpy as np
import pytest

from fl_audit.estimators.threshold.error_rates import LogRates
from fl_audit.estimators.threshold.published import strongest_threshold


def rates(*errors: float) -> LogRates:
    with np.errstate(divide="ignore"):
        return LogRates(error=np.log(errors), success=np.log1p(-np.array(errors)))


def strongest(fnr: LogRates, fpr: LogRates, delta: float = 0.0):
    t = len(fnr.error)
    return strongest_threshold(np.arange(t) + 0.5, np.arange(t), fnr, fpr, delta)


def test_guess_included():
    best = strongest(rates(0.2, 0.4, 0.6), rates(0.5, 0.1, 0.05), delta=0.1)
    assert best.epsilon == pytest.approx(math.log(0.3 / 0.05))
    assert (best.threshold, best.guess, best.false_negatives) == (2.5, "included", 2)
    assert best.fnr_upper == pytest.approx(0.6)
    assert best.log_fpr_upper == pytest.approx(math.log(0.05))


def test_guess_excluded():
    best = strongest(rates(0.01, 0.4), rates(0.5, 0.1), delta=0.1)
    assert best.epsilon == pytest.approx(math.log(0.4 / 0.01))
    assert (best.threshold, best.guess, best.false_negatives) == (0.5, "excluded", 0)


def test_never_below_zero():
    assert strongest(rates(0.9), rates(0.9)).epsilon == 0.0
    assert strongest(rates(1.0), rates(1.0), delta=0.5).epsilon == 0.0


def test_infinite_without_false_positives():
    assert strongest(rates(0.5), rates(0.0)).epsilon == math.inf


def test_details_name_every_number():
    assert strongest(rates(0.2), rates(0.1)).details() == {
        "threshold": 0.5,
        "direction": "included",
        "false_negatives": 0,
        "fnr_upper": pytest.approx(0.2),
        "log_fpr_upper": pytest.approx(math.log(0.1)),
    }
