"""The verdict and the checks as JUnit XML."""

import dataclasses
from xml.etree import ElementTree as ET

import pytest

from fl_audit.cli import main
from fl_audit.report.junit import cases
from fl_audit.verdict import Claim, Verdict
from fl_audit.verdict.sentences import claim_clause


def _claimed(reported, outcome):
    verdict = Verdict(
        outcome=outcome,
        reason="it is so & <so>",
        claim=Claim(8.0, 1e-5),
        confidence=0.95,
        num_tests=2,
    )
    return dataclasses.replace(reported.report, verdict=verdict)


@pytest.mark.parametrize(
    ("outcome", "required", "expected"),
    [
        ("contradicted", [], "failure"),
        ("contradicted", ["consistent"], "failure"),
        ("inconclusive", [], "skipped"),
        ("inconclusive", ["checks"], "skipped"),
        ("inconclusive", ["consistent"], "failure"),
        ("consistent", ["consistent", "checks"], "passed"),
    ],
)
def test_the_claim_fails_as_the_exit_status_says(reported, outcome, required, expected):
    claim = next(iter(cases(_claimed(reported, outcome), required)))
    assert (claim.name, claim.outcome) == ("claim", expected)
    assert outcome.upper() in claim.words


def test_without_a_claim_nothing_is_tested_of_it(reported):
    claim = next(iter(cases(dataclasses.replace(reported.report, verdict=None))))
    assert claim.outcome == "skipped"


def test_every_check_is_a_case_and_a_failed_one_a_failure(reported):
    report = reported.report
    checks = report.checks
    broken = dataclasses.replace(checks.results[0], log_p=-1e3)
    report = dataclasses.replace(
        report, checks=dataclasses.replace(checks, results=(broken, *checks.results[1:]))
    )
    named = {case.name: case.outcome for case in cases(report)}
    assert len(named) == 2 + len(checks.results)  # the claim, the canary check
    assert list(named.values()).count("failure") == 1


@pytest.mark.parametrize(("required", "expected"), [([], "skipped"), (["checks"], "failure")])
def test_a_check_that_made_no_test_has_not_passed(reported, required, expected):
    report = reported.report
    untested = dataclasses.replace(report.checks.results[0], num_tests=0, log_p=0.0)
    checks = dataclasses.replace(report.checks, results=(untested,))
    assert checks.passed is None
    assert untested.to_json()["passed"] is None
    *_, check = cases(dataclasses.replace(report, checks=checks), required)
    assert check.outcome == expected


def test_estimate_of_a_run_takes_its_delta_and_writes_junit(reported, tmp_path, capsys):
    path = tmp_path / "audit.xml"
    words = ["estimate", str(reported.folder.path), "--junit", str(path), "--json"]
    assert main([*words, "--methods", "gaussian_fit"]) == 0
    delta = reported.report.delta
    assert f'"delta": {delta!r}' in capsys.readouterr().out
    assert ET.parse(path).getroot()[0].get("name") == "fl-audit"


def test_the_words_do_not_depend_on_the_terminal(reported, monkeypatch):
    monkeypatch.setenv("COLUMNS", "40")
    report = _claimed(reported, "inconclusive")
    claim = next(iter(cases(report)))
    clause = claim_clause(report.verdict)
    assert claim.words.startswith(f"verdict: INCONCLUSIVE{clause}: It is so & <so>")


def test_estimates_at_delta_zero_have_a_page_without_the_runs_accounting(reported, tmp_path):
    words = ["estimate", str(reported.folder.path), "--delta", "0", "--methods", "gaussian_fit"]
    assert main([*words, "--out", str(tmp_path / "page.html")]) == 0
    assert (tmp_path / "page.html").exists()
