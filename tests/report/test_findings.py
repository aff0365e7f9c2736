"""What a report comes to, in three sentences."""

import dataclasses
import math

import pytest

from fl_audit.report.findings import findings
from fl_audit.report.model import ThreatModelReport
from tests.report import made_reports
from tests.report.conftest import record
from tests.report.made_reports import analytical, estimate, guarantee, statistic

SEES = {
    "final": "the final model alone",
    "final_and_initial": "the initial and the final model",
    "all_iterates": "the noised update of every round",
    "window": "the noised updates of rounds 3 to 9 alone",
    **{f"model_{i}": f"model {i}" for i in range(12)},
}


def fit(threat_model, epsilon):
    found = (estimate("shift_fit", "estimate", epsilon or 0.0),)
    found += (estimate("threshold_valid", "lower_bound", 0.25),)
    return statistic(estimates=found if epsilon else (), threat_model=threat_model)


def _model(name):
    """Of 94 included canaries 90 took part in the run, 30 of them in the window."""
    first, last, present = (3, 9, 30) if name == "window" else (1, 20, 90)
    return ThreatModelReport(
        title=name,
        sees=SEES[name],
        first_round=first,
        last_round=last,
        num_included_in_rounds=present,
    )


def report(statistics, canary=30.0, client=30.0):
    return made_reports.report(
        statistics,
        analytical(guarantee(client), guarantee(canary)),
        dataclasses.replace(record(94), delta=1e-3, rounds=20),
        threat_models={name: _model(name) for name in SEES},
    )


def sentences(*arguments):
    found = findings(report(*arguments))
    assert len(found) == 3
    assert all(sentence.endswith(".") for sentence in found)
    return [sentence.replace("\N{NO-BREAK SPACE}", " ") for sentence in found]


@pytest.mark.parametrize(
    ("epsilons", "seen", "guaranteed"),
    [
        ((1.5, 20.0, 30.0, 30.0), ("1.50", "20.0"), "ε ≤ 30.0; what lies between"),
        ((1.5, 20.0, 30.0, 60.0), ("1.50", "20.0"), "ε ≤ 30.0 to a canary and ε ≤ 60.0 to a real"),
        ((1.5, 40.0, 30.0, 60.0), ("1.50", "40.0"), "above the canary’s is chance"),
        ((1.5, math.inf, 30.0, 30.0), ("1.50", "∞"), "above the canary’s is chance"),
        ((1.5, 40.0, math.inf, math.inf), ("1.50", "40.0"), "No noise was added"),
        ((None, 40.0, 50.0, None), ("unknown", "40.0"), "is not known for this run."),
    ],
)
def test_findings_of_a_default_run(epsilons, seen, guaranteed):
    final, largest, canary, client = epsilons
    statistics = {
        "final": fit("final", 0.5),
        "final_minus_initial": fit("final_and_initial", final),
        "max": fit("all_iterates", largest),
        "sum": fit("all_iterates", 3.0),
    }
    first, second, third = sentences(statistics, canary, client)
    assert first == (
        "An attacker who sees the initial and the final model learns about a canary as much as "
        f"ε ≈ {seen[0]} allows (δ = 0.00100); one who sees the noised update of every round, as "
        f"much as ε ≈ {seen[1]}."
    )
    proven = "unknown" if final is None else "0.250"
    assert second == (
        f"With 95 % confidence each, ε ≥ {proven} for the first and ε ≥ 0.250 for the second: "
        "these bounds hold, the estimates may not."
    )
    assert guaranteed in third


def test_one_threat_model_alone():
    first, second, third = sentences({"final": fit("final", 0.5)})
    assert first == (
        "An attacker who sees the final model alone learns about a canary as much as ε ≈ 0.500 "
        "allows (δ = 0.00100)."
    )
    assert second == "With 95 % confidence, ε ≥ 0.250: this bound holds, the estimate may not."
    assert third.startswith("Against any attacker, the noise guarantees ε ≤ 30.0; what lies")


def test_a_window_and_statistics_of_another_name():
    first, second, third = sentences(
        {
            "final_loss": fit("final", 0.5),
            "loss_difference": fit("final_and_initial", 1.0),
            "white_box": fit("all_iterates", 2.0),
            "window_max": fit("window", 40.0),
        }
    )
    assert first.endswith(
        "one who sees the noised updates of rounds 3 to 9 alone, as much as ε ≈ 40.0 (fitted to 94 "
        "canaries, of which 30 took part then)."
    )
    assert first.count("fitted to") == 1
    assert "ε ≥ 0.250 for the second and ε ≥ 0.250 for the third: these" in second
    assert "the final model alone" not in first
    assert "above the canary’s is chance" in third


def test_no_threat_model_is_dropped_however_many_there_are():
    _, second, _ = sentences({f"s{i}": fit(f"model_{i}", 1.0) for i in range(12)})
    assert second.count("ε ≥ 0.250 for the") == 12
    assert "for the sixth, " in second
    assert second.endswith(
        "ε ≥ 0.250 for the 11th and ε ≥ 0.250 for the 12th: these bounds hold, the estimates may "
        "not."
    )
