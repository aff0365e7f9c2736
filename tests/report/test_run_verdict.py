"""The verdict on a run folder: in report.json, on the page, on the terminal, as exit status."""

import dataclasses
import json
import shutil

import pytest

from fl_audit.accounting import AccountedEpsilon, Noise, PoissonSampling, UnknownRounds
from fl_audit.accounting.release import Party
from fl_audit.accounting.upper_bounds import Attacker, Guarantees
from fl_audit.commands.exit_status import exit_status_of
from fl_audit.commands.printing import print_report
from fl_audit.config.file import config_to_toml, load_config, parse_config
from fl_audit.errors import InputError
from fl_audit.report import Report, write_report
from fl_audit.report.build import run_verdict
from fl_audit.report.checks import checks_of_run, run_canary_check
from fl_audit.report.finished_run import read_finished_run
from fl_audit.report.verdict_words import meaning_of_verdict, verdict_facts
from fl_audit.verdict import Claim, Verdict
from fl_audit.verdict.curve_claim_tests import UNSTATED_CONFIDENCE
from fl_audit.verdict.record import Outcome
from tests.report.conftest import CONFIG, in_rounds
from tests.report.made_reports import guarantee

UNKNOWN = Party(UnknownRounds())

KEYS = {
    "outcome",
    "basis",
    "reason",
    "claimed_epsilon",
    "claimed_delta",
    "claimed_for",
    "epsilon_lower",
    "method",
    "statistic",
    "assumes",
    "confidence",
    "num_looks",
    "p_value",
    "simulated_epsilon",
    "power",
    "canaries_needed",
    "detectable_epsilon",
    "claim",
    "as_curve",
}


IN_ADVANCE = {"verdict_statistic": "final_minus_initial", "verdict_method": "threshold_valid"}

ENOUGH_NOISE = {"noise": Noise("gaussian", 100.0, 100.0)}
"""Noise with which accounting gives less than the claims."""


@pytest.fixture
def claim(run_folder):
    """Rewrites the config's [audit] table and reports anew."""

    def report(**audit: object) -> Report:
        overrides = [f"audit.{key}={value}" for key, value in audit.items()]
        run_folder.config.write_text(config_to_toml(load_config(run_folder.config, overrides)))
        return write_report(run_folder)

    return report


def verdict_on(run_folder, **audit: object) -> Verdict:
    """The verdict alone, of a config with another [audit] table."""
    config = parse_config({**CONFIG, "audit": {**CONFIG["audit"], **audit}}, "config")
    run_folder.config.write_text(config_to_toml(config))
    run = read_finished_run(run_folder)
    return run_verdict(run, checks_of_run(run), run_canary_check(run))


def test_where_nothing_is_to_be_tested_there_is_no_verdict(claim, run_folder, capsys):
    report = claim(claim="none")
    assert report.verdict is None
    assert exit_status_of(report) == 0
    assert 'class="verdict' not in run_folder.report_html.read_text()
    assert "No claim was tested" in run_folder.report_html.read_text()
    print_report(report)
    assert "verdict:" not in capsys.readouterr().out


def test_without_a_claim_the_configured_noise_is_tested_and_sets_no_status(run_folder, capsys):
    report = write_report(run_folder)
    assert report.verdict.claim.kind == "configured"
    assert not report.verdict.claim.is_stated
    assert report.verdict.confidence == UNSTATED_CONFIDENCE
    contradicted = dataclasses.replace(report.verdict, outcome=Outcome.CONTRADICTED)
    assert exit_status_of(dataclasses.replace(report, verdict=contradicted)) == 0
    assert "No claim was stated" in run_folder.report_html.read_text()
    print_report(report)
    assert "the configured noise (multiplier 0.3" in capsys.readouterr().out


@pytest.mark.parametrize(("key", "kind"), [("claimed_mu", "gdp"), ("claimed_rho", "zcdp")])
def test_a_claimed_curve_has_a_verdict(claim, run_folder, key, kind):
    report = claim(**{key: 4.0})
    written = json.loads(run_folder.report_json.read_text())["verdict"]
    assert written["claim"]["kind"] == kind
    assert Verdict.from_json(written) == report.verdict
    assert report.verdict.claim.words in run_folder.report_html.read_text()


def test_a_claim_on_uploads_is_compared_with_the_bound_for_uploads(claim):
    report = claim(claimed_epsilon=20.0)
    uploads = Guarantees(guarantee(30.0), guarantee(30.0))
    seen = {
        name: dataclasses.replace(of, sees_uploads=True) for name, of in report.efficiency.items()
    }
    attackers = {**report.attackers, Attacker.SEES_UPLOADS: uploads}
    of_uploads = dataclasses.replace(report, efficiency=seen, attackers=attackers)
    verdict = dataclasses.replace(report.verdict, basis=None)
    said = verdict_facts(of_uploads, verdict)["Accounting"]
    assert said.startswith("ε ≤ 30") and "above the claim and so" in said
    assert "ε ≤ 30" not in verdict_facts(report, verdict)["Accounting"]


def test_a_contradicted_claim(claim, run_folder, capsys):
    report = claim(claimed_epsilon=0.5)
    verdict = json.loads(run_folder.report_json.read_text())["verdict"]
    assert Verdict.from_json(verdict) == report.verdict
    assert set(verdict) == KEYS
    assert verdict["outcome"] == "contradicted"
    assert (verdict["claimed_epsilon"], verdict["claimed_for"]) == (0.5, "client")
    assert verdict["claimed_delta"] == report.run.delta
    assert (verdict["num_looks"], verdict["confidence"]) == (8, 0.95)
    assert verdict["epsilon_lower"] > 0.5
    assert exit_status_of(report) == 3

    page = run_folder.report_html.read_text()
    assert '<section class="verdict contradicted">' in page
    assert "each at 99.375 %" in page
    assert "the claim is contradicted by accounting" in page
    assert "participates no more often" in page
    print_report(report, run_folder.report_html)
    where, _, line, *reason = capsys.readouterr().out.rpartition("\nreport: ")[2].splitlines()
    assert where == str(run_folder.report_html)
    assert line.startswith("verdict: CONTRADICTED: the claim ε ≤ 0.5 at δ = 0.0018")
    assert reason[0].startswith("  The configured noise does not give the claimed ε: accounting")
    assert any(line.startswith("  The lower bound ε ≥ ") for line in reason)


def test_the_bounds_of_a_verdict_are_rounded_to_bounds(run_folder):
    report = write_report(run_folder)
    verdict = dataclasses.replace(
        report.verdict, claim=Claim(5.0, 1e-3), epsilon_lower=11.67, statistic="max", assumes="a."
    )
    by = (AccountedEpsilon("rdp", 15.21, None),)
    party = dataclasses.replace(report.analytical.client, by_accountant=by)
    analytical = dataclasses.replace(report.analytical, client=party, canary=party)
    facts = verdict_facts(dataclasses.replace(report, analytical=analytical), verdict)
    assert facts["Accounting"].startswith("ε ≤ 15.3 for a client")
    assert facts["Largest bound"].startswith("ε ≥ 11.6 by")


UNKNOWN_EPSILON = (AccountedEpsilon("rdp", None, "not known"),)


@pytest.mark.parametrize(
    ("outcome", "basis", "topic", "words"),
    [
        ("consistent", "scores", "Tests", "2 lower bounds, each at 97.5 % or more, so that all"),
        ("consistent", "parts", "Tests", "was also tested by its parts, noise and sampling rate"),
        ("contradicted", "scores", "Accounting", "not known for this run"),
        ("contradicted", "accounting", "Accounting", "the claim is contradicted by accounting"),
        ("contradicted", "scores", "Meaning", "one of the errors that the confidence level allows"),
        ("contradicted", "accounting", "Meaning", "or an assumption below is."),
    ],
)
def test_the_page_says_on_what_a_verdict_rests(run_folder, outcome, basis, topic, words):
    report = write_report(run_folder)
    party = dataclasses.replace(report.analytical.client, by_accountant=UNKNOWN_EPSILON)
    analytical = dataclasses.replace(report.analytical, client=party)
    report = dataclasses.replace(report, analytical=analytical)
    claim = {"claim": Claim(5.0, 1e-3), "confidence": 0.95, "num_tests": 2}
    verdict = dataclasses.replace(
        report.verdict, **claim, outcome=Outcome(outcome), basis=basis, statistic="max"
    )
    facts = verdict_facts(report, verdict) | {"Meaning": meaning_of_verdict(report, verdict)}
    assert words in facts[topic]
    assert "valid for any mechanism" not in facts["Tests"]
    assert ("the errors" in facts["Meaning"]) == ((outcome, basis) == ("contradicted", "scores"))


def test_an_inconclusive_claim(run_folder, change_record):
    change_record(client=in_rounds(1))
    verdict = verdict_on(run_folder, claimed_epsilon=20.0)
    assert (verdict.outcome, verdict.canaries_needed) == ("inconclusive", None)
    assert verdict.detectable_epsilon is None or verdict.detectable_epsilon > 40
    assert "\nNext: score by own_rounds, the statistic that shows most" in verdict.reason


def test_a_statistic_that_was_not_asked_about_and_sees_far_more_is_not_kept_silent(
    run_folder, change_record
):
    change_record(client=in_rounds(1))
    verdict = verdict_on(run_folder, claimed_epsilon=20.0, **IN_ADVANCE)
    assert verdict.outcome == "inconclusive"
    assert "max, which was not tested, separates included from" in verdict.reason


def test_one_statistic_and_one_method_named_in_advance(claim, run_folder, change_record):
    change_record(client=in_rounds(1))
    for other in ("max", "sum"):
        shutil.copy(run_folder.scores("final_minus_initial"), run_folder.scores(other))
    report = claim(claimed_epsilon=20, **IN_ADVANCE)
    verdict = report.verdict
    assert (verdict.outcome, verdict.num_tests) == ("inconclusive", 1)
    assert (verdict.statistic, verdict.method) == ("final_minus_initial", "threshold_valid")
    assert "canaries, scored by final_minus_initial, at the expected norm" in verdict.reason
    assert (report.canary_check.state, report.canary_check.ratio) == ("arrived", None)
    # A single look needs no correction.
    found = report.statistics["final_minus_initial"].estimates
    (same,) = (made.epsilon for made in found if made.method == "threshold_valid")
    assert verdict.epsilon_lower == same
    assert exit_status_of(report) == 0
    assert '<section class="verdict inconclusive">' in run_folder.report_html.read_text()


def test_the_claims_delta_is_that_of_everything(claim, change_record, run_folder):
    change_record(delta=1e-4)
    claim(claimed_epsilon=0.5, claimed_delta=1e-4, **IN_ADVANCE)
    report = json.loads(run_folder.report_json.read_text())
    assert report["verdict"]["claimed_delta"] == report["config"]["audit"]["delta"] == 1e-4


@pytest.mark.parametrize(
    ("participation", "reason"),
    [
        ({"canary": in_rounds(5)}, "participated in up to 5 rounds and a client in at most 4"),
        ({"client": UNKNOWN}, "sampled from another distribution"),
        ({"canary": UNKNOWN}, "sampled from another distribution"),
        ({"canary": UNKNOWN, "client": UNKNOWN}, "sampled from another distribution"),
    ],
)
def test_a_canary_that_may_take_part_more_often_contradicts_nothing(
    change_record, run_folder, participation, reason
):
    change_record(**participation, **ENOUGH_NOISE)
    verdict = verdict_on(run_folder, claimed_epsilon=0.5, **IN_ADVANCE)
    assert (verdict.outcome, verdict.p_value) == ("inconclusive", None)
    assert reason in verdict.reason
    assert verdict.epsilon_lower > 0.5


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        (["claimed_epsilon=0"], "`audit.claimed_epsilon`: must be a number above 0"),
        (["claimed_epsilon=1000"], "`audit.claimed_epsilon`: must be a number of at most 300"),
        (["claimed_delta=1e-5"], "`audit`: claimed_delta needs a claim"),
        (["verdict_statistic=max"], "`audit`: verdict_statistic needs a claim"),
        (["verdict_method=one_run_valid"], "`audit`: verdict_method needs a claim"),
        (["claimed_epsilon=1", "verdict_method=one_run"], "did you mean 'one_run_valid'"),
        (["claimed_epsilon=1", "verdict_statistic=fnal"], "did you mean 'final'"),
        (["claimed_epsilon=1", "delta=1e-3", "claimed_delta=1e-5"], "they must be equal"),
        (["claimed_epsilon=1", "claimed_mu=1"], "exclude each other; state one claim"),
        (["claim=confgured"], "unknown 'confgured'; did you mean 'configured'"),
        (["claimed_epsilom=1"], "did you mean 'claimed_epsilon'"),
    ],
)
def test_a_claim_that_makes_no_sense_is_refused(run_folder, overrides, message):
    with pytest.raises(InputError, match=message) as caught:
        load_config(run_folder.config, [f"audit.{override}" for override in overrides])
    assert "\n" not in str(caught.value)


def test_known_rounds_alone_do_not_bear_on_a_claim_that_counts_on_sampling(
    run_folder, change_record
):
    sampled = Party(PoissonSampling(0.1))
    change_record(client=sampled, canary=sampled, **ENOUGH_NOISE)
    verdict = verdict_on(run_folder, claimed_epsilon=0.1, threat_models=["known_rounds"])
    assert verdict.outcome == "inconclusive"
    assert "The attacker knows in which rounds a client is online" in verdict.reason
