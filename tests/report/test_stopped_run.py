"""Estimates on the folder of a run that its scores stopped, of which only the live bound holds."""

import re

import pytest

from fl_audit.config.file import config_to_toml, parse_config
from fl_audit.errors import InputError
from fl_audit.formats.run_record import LiveRecord
from fl_audit.report import write_report
from fl_audit.report.build import EstimateRequest, report_on_folder
from fl_audit.report.folder import AuditedFolder, folder_arms, folder_statistics
from fl_audit.report.headline import headline
from fl_audit.report.page import render_estimates
from fl_audit.verdict.claims import Claim, GaussianClaim
from tests.report.conftest import CONFIG, DIM, ROUNDS

DELTA, DONE = 300**-1.1, 20


@pytest.fixture
def stopped(run_folder, change_record):
    """The folder of a run that stopped after half of its rounds."""
    change_record(stopped_after=DONE, live=LiveRecord(1.1, 0.02, 1.05))
    lines = run_folder.metrics.read_text().splitlines()
    run_folder.metrics.write_text("\n".join(lines[: 1 + DONE]) + "\n")
    audit = {
        "threat_models": ["all_iterates", "known_rounds"],
        "claimed_epsilon": 1.0,
        "stop_when_contradicted": True,
    }
    config = parse_config({**CONFIG, "audit": audit}, "config")
    run_folder.config.write_text(config_to_toml(config))
    return run_folder


def asked(stopped, *, delta=DELTA, confidence=0.95, claim=None):
    request = EstimateRequest(delta=delta, confidence=confidence, claim=claim)
    return report_on_folder(AuditedFolder(stopped.path), request)


@pytest.mark.parametrize("is_without_metrics", [False, True])
@pytest.mark.parametrize(
    ("level", "bound"),
    [({}, 1.1), ({"delta": 1e-4}, None), ({"confidence": 0.9}, None)],
)
def test_estimates_show_the_bounds_of_the_runs_own_report(
    stopped, level, bound, is_without_metrics
):
    own = write_report(stopped)
    if is_without_metrics:  # only scores and the record remain
        stopped.metrics.unlink()
    made = asked(stopped, **level)
    for name, statistic in made.statistics.items():
        valid = {e.method for e in statistic.estimates if e.valid_for is not None}
        is_live = bound is not None and name == "own_rounds"
        assert valid == ({"live"} if is_live else set())
        if not level and name in own.statistics:
            assert statistic.estimates == own.statistics[name].estimates
    assert headline(made).lower_bound_epsilon() == bound
    if not level:
        assert headline(made).lower_bound == headline(own).lower_bound


def test_only_the_claim_that_stopped_the_run_has_a_verdict(stopped):
    own = write_report(stopped).verdict
    assert own.method == "live" or own.basis == "accounting"
    assert asked(stopped, claim=Claim(1.0, DELTA)).verdict == own
    assert asked(stopped).verdict is None
    for other in (
        {"claim": Claim(0.5, DELTA)},
        {"claim": Claim(1.0, DELTA), "confidence": 0.9},
        {"claim": Claim(1.0, 1e-4), "delta": 1e-4},
        {"claim": GaussianClaim(1.0, DELTA)},
    ):
        with pytest.raises(InputError, match="was stopped by its scores, so that only its own"):
            asked(stopped, **other)


def test_canaries_whose_rounds_had_not_come_are_unlike_the_others(stopped):
    words = "canaries in 0 to 1 rounds"
    assert write_report(stopped).estimate_is_over == words
    assert asked(stopped).estimate_is_over == words


def test_attackers_saw_no_round_that_never_ran(stopped):
    views = write_report(stopped).threat_models.values()
    assert {(view.first_round, view.last_round) for view in views} == {(1, DONE)}


def test_arms_are_not_compared_by_rounds_that_never_ran(stopped):
    header, *rows = stopped.canaries.read_text().splitlines()
    named = [f"{row},{('once', 'twice')[number % 2]}" for number, row in enumerate(rows)]
    stopped.canaries.write_text("\n".join([f"{header},arm", *named]) + "\n")
    assert folder_arms(AuditedFolder(stopped.path), DELTA, 0.95) is None


def test_a_page_without_the_runs_report_says_what_it_has(stopped):
    source = AuditedFolder(stopped.path)
    command = "fl-audit estimate run --confidence 0.9"
    page = render_estimates(source, asked(stopped), folder_statistics(source), command)
    assert f"<pre>{command}</pre>" in page
    for section in ("accounting", "efficiency"):
        assert f'id="{section}"' in page
    text = " ".join(re.sub("<[^>]*>", " ", page).split())
    assert f"and {DONE} scored rounds, in a model of d = {DIM:,}" in text
    assert f"{ROUNDS} scored rounds" not in text
    assert "ε ≤ " in text
    assert "Not shown run.json says what was trained and how well, but is not shown here." in text
    assert "So this page has no accuracy and no config." in text
    page = render_estimates(source, asked(stopped, delta=0), folder_statistics(source), command)
    assert 'id="accounting"' not in page
    assert "So this page has no accuracy, no upper bound and no config." in page
