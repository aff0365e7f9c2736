"""Guarantees in full on the page, in the terminal and in report.json."""

import json

import pytest

from fl_audit.accounting import OneRoundPerBlock
from fl_audit.accounting.upper_bounds import Attacker, upper_bounds
from fl_audit.estimators import CanaryScores
from fl_audit.estimators.roc.summary import roc_summary
from fl_audit.report import report_from_json, report_to_json, summary_lines
from fl_audit.report.report import Efficiency
from fl_audit.report.shown_records import (
    attacker_risks,
    most_detected,
    mu_words,
    profile_words,
    rho_words,
    risk_lines,
)
from tests.accounting.releases import release
from tests.report.made_reports import analytical, report, statistic

DELTA = 1e-3


def made_report(sampling, noise=0.3, **facts):
    attackers = upper_bounds(release(noise, sampling, **facts), DELTA).attackers
    known = attackers[Attacker.KNOWS_ROUNDS]
    scores = CanaryScores(included=[5.0, 6.0, 0.5, 9.0], excluded=[float(i) for i in range(4)])
    statistics = {
        name: statistic(threat_model=model, roc=roc_summary(scores))
        for name, model in (("max", "all_iterates"), ("own_rounds", "known_rounds"))
    }
    efficiency = {
        name: Efficiency(3.0, "m", 8.0, 10.0, "rdp", knows, None)
        for name, knows in (("max", False), ("own_rounds", True))
    }
    return report(
        statistics,
        analytical(known.client, known.canary),
        attackers=attackers,
        efficiency=efficiency,
    )


def test_each_attacker_stands_beside_what_such_an_attack_found():
    known, hidden = attacker_risks(made_report(7, canary=OneRoundPerBlock(1, ((100, 1),))))
    parties = {party: (mu_words(full), rho_words(full)) for party, full in known.parties.items()}
    assert parties == {"Real client": ("8.82", "38.9"), "Included canary": ("3.34", "5.56")}
    assert mu_words(hidden.curves.canary) == "3.34, or 2.57 except with probability 10⁻⁴"
    assert known.attack != hidden.attack
    rate = known.rates[0]
    assert (rate, most_detected(known.curves.canary, rate)) == (0.001, "≤ 59.7 %")
    assert known.found(rate) == "too few excluded (9) to tell"
    assert most_detected(hidden.curves.canary, rate) == "≤ 17.7 %"


@pytest.mark.parametrize("facts", [{"distribution": "skellam"}, {"noise": 0.0}])
def test_without_a_guarantee_the_reason_is_said_and_no_risk(facts):
    (both,) = attacker_risks(made_report(1, **facts))
    (full,) = both.parties.values()
    assert mu_words(full) == rho_words(full) == "none known"
    assert both.rates == []
    assert len(profile_words(full)) > 10
    line = risk_lines(made_report(1, **facts))[-1]
    assert line == f"  client or canary: none ({profile_words(full)})"


def test_the_page_and_the_json_of_a_run_have_them(reported):
    made = reported.report
    fields = json.loads(json.dumps(report_to_json(made), allow_nan=False))
    full = fields["analytical"]["attackers"]["knows_rounds"]["in_full"]
    # Four rounds of a client at noise 0.3, one of a canary.
    assert full["client"]["mu"] == pytest.approx(2 / 0.3)
    assert full["canary"]["rho"] == pytest.approx(1 / (2 * 0.3**2))
    assert [p["delta"] for p in full["canary"]["profile"]][1] == pytest.approx(made.delta)
    assert {p["false_positive_rate"] for p in full["canary"]["found"]} == {0.001, 0.01, 0.1}
    again = report_from_json(fields, "report.json")
    assert again.attackers == made.attackers
    assert any("upper bounds in full" in line for line in summary_lines(made))
    assert "Upper bounds in full" in reported.html
