"""Wrong loops of other systems fail the check that is for them, and right ones pass all."""

import pytest

from fl_audit.report.checks import checks_words, folder_canary_check, folder_checks
from fl_audit.report.folder import AuditedFolder, folder_statistics
from fl_audit.verdict import Claim, Verdict, after_checks
from fl_audit.verdict.record import Outcome
from tests.checks.loops import CLIP_PER_VARIABLE, NOT_NOTICED, RIGHT, UNSEEN, WRONG, Loop


def checks_of(loop: Loop, path, seed: int = 1):
    return folder_checks(AuditedFolder(loop.log(path / "log", seed)))


def failed(checks) -> set[str]:
    return {check.name for check in checks if check.failed}


BY_LOGS = ("half the noise", "a count without noise", "an adaptive clip", "every other round")
"""Loops whose logs are read; of the others the checks see the same aggregates in memory."""


@pytest.mark.sampled(10)
@pytest.mark.parametrize("name", [name for name in WRONG if name not in BY_LOGS])
def test_a_wrong_loop_fails_the_check_for_it(name):
    loop, expected = WRONG[name]
    assert expected in failed(loop.watched(1).checks())


@pytest.mark.sampled(5)
@pytest.mark.parametrize("name", [name for name in RIGHT if name not in BY_LOGS])
def test_a_right_loop_passes(name):
    """Six checks of 9 loops, each with a false alarm of 1e-6: 6e-5, and the seed is fixed."""
    checks = RIGHT[name].watched(1).checks()
    assert all(check.passed for check in checks)


@pytest.mark.parametrize("name", BY_LOGS)
def test_a_log_fails_the_check_or_passes(name, tmp_path):
    loop, expected = WRONG.get(name) or (RIGHT[name], None)
    checks = checks_of(loop, tmp_path)
    if expected is None:
        assert checks.passed and not failed(checks.results)
    else:
        assert expected in failed(checks.results)
        assert checks_words(checks).startswith("FAILED: ")


@pytest.mark.slow
def test_a_clip_per_variable_is_named_by_the_canary_check(tmp_path):
    folder = AuditedFolder(CLIP_PER_VARIABLE.log(tmp_path / "log", 1))
    found = folder_canary_check(folder, folder_statistics(folder))
    assert found.state == "not_arrived"
    assert found.is_longer
    assert "longer than a client's update may be" in found.reason


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", UNSEEN)
def test_a_loop_that_says_too_little_is_said_to(name, tmp_path):
    loop, expected = UNSEEN[name]
    checks = checks_of(loop, tmp_path)
    assert failed(checks.results) == set()
    assert expected in checks.not_checked
    assert expected in checks_words(checks)
    assert not checks.is_complete


@pytest.mark.parametrize("name", NOT_NOTICED)
def test_no_check_sees_it(name):
    assert failed(NOT_NOTICED[name].watched(1).checks()) == set()


def test_what_no_check_sees_a_consistent_verdict_on_a_log_says():
    found = Verdict(
        outcome=Outcome.CONSISTENT,
        reason="So.",
        claim=Claim(8.0, 1e-5),
        confidence=0.95,
        num_tests=2,
    )
    said = after_checks(found, [], None, of_log=True)
    assert "a few coordinates for a few rounds" in said.reason
    assert "a clip that is looser for clients" in said.reason
