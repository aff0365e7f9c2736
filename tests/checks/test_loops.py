"""Wrong loops of other systems fail the check that is for them, and right ones pass all."""

import pytest

from fl_audit.report.build import EstimateRequest, report_on_statistics
from fl_audit.report.checks import checks_words, folder_canary_check, folder_checks
from fl_audit.report.folder import AuditedFolder, folder_statistics
from fl_audit.verdict import after_checks
from fl_audit.verdict.record import Outcome
from tests.checks.loops import CLIP_PER_VARIABLE, NOT_NOTICED, RIGHT, UNSEEN, WRONG, Loop


def checks_of(loop: Loop, path, seed: int = 1):
    return folder_checks(AuditedFolder(loop.log(path / "log", seed)))


def failed(checks) -> set[str]:
    return {check.name for check in checks.results if check.failed}


@pytest.mark.sampled(8)  # by the same checks each is found in test_told_servers.py
@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_loop_fails_the_check_for_it(name, tmp_path):
    loop, expected = WRONG[name]
    checks = checks_of(loop, tmp_path)
    assert expected in failed(checks)
    assert checks_words(checks).startswith("FAILED: ")


@pytest.mark.sampled(4)
@pytest.mark.parametrize("name", RIGHT)
def test_a_right_loop_passes(name, tmp_path):
    """Seven checks of 10 loops, each with a false alarm of 1e-6: 7e-5, and the seed is fixed."""
    checks = checks_of(RIGHT[name], tmp_path)
    assert failed(checks) == set()
    assert checks.passed


def test_a_clip_per_variable_is_named_by_the_canary_check(tmp_path):
    folder = AuditedFolder(CLIP_PER_VARIABLE.log(tmp_path / "log", 1))
    found = folder_canary_check(folder, folder_statistics(folder))
    assert found.state == "not_arrived"
    assert found.is_longer
    assert "longer than a client's update may be" in found.reason


@pytest.mark.parametrize("name", UNSEEN)
def test_a_loop_that_says_too_little_is_said_to(name, tmp_path):
    loop, expected = UNSEEN[name]
    checks = checks_of(loop, tmp_path)
    assert failed(checks) == set()
    assert expected in checks.not_checked
    assert expected in checks_words(checks)
    assert not checks.is_complete


@pytest.mark.parametrize("name", NOT_NOTICED)
def test_what_no_check_sees_a_consistent_verdict_on_a_log_says(name, tmp_path):
    path = NOT_NOTICED[name].log(tmp_path / "log", 1)
    folder = AuditedFolder(path)
    assert failed(folder_checks(folder)) == set()
    asked = EstimateRequest(1e-3, methods=("threshold_valid",))
    made = report_on_statistics(folder, folder_statistics(folder), asked).verdict
    said = after_checks(
        made.__class__(**{**vars(made), "outcome": Outcome.CONSISTENT, "reason": "So."}),
        [],
        None,
        of_log=True,
    )
    assert "a few coordinates for a few rounds" in said.reason
    assert "a clip that is looser for clients" in said.reason
