import dataclasses
import math

import pytest

from fl_audit.errors import InputError
from fl_audit.pipeline import quickstart
from tests.report.conftest import record
from tests.report.made_reports import analytical, estimate, guarantee, report, statistic

STATISTICS = ("final", "final_minus_initial", "max", "sum")


def _report(epsilon, bound):
    fit = estimate("shift_fit", "interval", epsilon, lower=epsilon / 2, upper=2 * epsilon)
    valid_for = "independent scores"
    lower_bound = estimate(
        "threshold_valid", "lower_bound", epsilon / 4, lower=epsilon / 4, valid_for=valid_for
    )
    found = statistic(estimates=(fit, lower_bound))
    return report(
        dict.fromkeys(STATISTICS, found),
        analytical(guarantee(bound), guarantee(bound)),
        dataclasses.replace(record(94), accuracy=0.95),
    )


def test_the_comparison_lays_runs_side_by_side():
    text = quickstart.comparison({0.0: _report(26812.0, math.inf), 0.3: _report(33.7, 65.29)})
    head, accuracy, upper_bound, lower_bound, estimated = [
        line.split() for line in text.splitlines()
    ]
    assert head == ["noise", "0", "noise", "0.3"]
    assert accuracy == ["accuracy", "0.950", "0.950"]
    assert upper_bound == ["upper", "bound,", "canary", "∞", "65.3"]
    assert lower_bound == ["lower", "bound", "6,700", "8.42"]
    assert estimated == ["estimate", "26,800", "33.7"]


def test_the_first_free_folder_is_taken(tmp_path):
    assert quickstart.free_folder(tmp_path / "runs").name == "quickstart-1"
    (tmp_path / "quickstart-1").mkdir()
    assert quickstart.free_folder(tmp_path).name == "quickstart-2"


def test_a_folder_that_is_not_empty_is_refused(tmp_path):
    (tmp_path / "something").write_text("")
    with pytest.raises(InputError, match="must be a new or empty folder"):
        quickstart.run(tmp_path)
