"""Exit statuses of `estimate` on logs whose mechanism checks fail or cannot be made."""

import json
from types import SimpleNamespace

import numpy as np
import pytest

from fl_audit.attacks import CanaryPool, Participation, RoundScorer
from fl_audit.cli import main
from fl_audit.commands.exit_status import exit_status_of

DIM, ROUNDS, CLIENTS, NOISE = 400, 10, 10, 0.5


def _log(folder, *, true_noise=NOISE, failing_from=ROUNDS + 1):
    """A log of canaries of one round each, whose aggregates are NaN from some round on."""
    pool = CanaryPool(seed=5, count=60, dim=DIM)
    rounds = [[1 + canary % ROUNDS] for canary in range(pool.count)]
    participation = Participation("none", client_rounds=1)
    scorer = RoundScorer.create(
        folder, pool, num_rounds=ROUNDS, canary_rounds=rounds, participation=participation
    )
    random = np.random.default_rng(1)
    for number in range(1, ROUNDS + 1):
        present = [c for c in range(pool.count) if rounds[c] == [number] and pool.included[c]]
        total = sum((pool.vector(c).astype(float) for c in present), np.zeros(DIM))
        aggregate = (total + random.normal(0, true_noise, DIM)) / CLIENTS
        if number >= failing_from:
            aggregate *= np.nan
            with pytest.raises(ValueError, match="must be finite"):
                _score(scorer, number, aggregate)
        else:
            _score(scorer, number, aggregate)
    scorer.finish()
    return folder


def _score(scorer, number, aggregate):
    scorer.score_round(
        number,
        aggregate.astype(np.float32),
        canary_length=1 / CLIENTS,
        noise_stddev=NOISE / CLIENTS,
        norm_bound=1.0,
    )


@pytest.fixture(scope="module")
def logs(tmp_path_factory):
    """A right log, one with half the noise, and one of which only the first round is finite."""
    folder = tmp_path_factory.mktemp("logs")
    return (
        _log(folder / "right"),
        _log(folder / "half", true_noise=NOISE / 2),
        _log(folder / "broken_off", failing_from=2),
    )


TRUE = ["--claimed-epsilon", "20"]  # accounting: 7.60 in one round, 17.9 with half the noise
FALSE = ["--claimed-epsilon", "4"]
CHECKS, CONSISTENT = ["--require", "checks"], ["--require", "consistent"]


def _status(folder, *words):
    asked = ["--delta", "1e-3", "--statistic", "own_rounds", "--methods", "threshold_valid"]
    return main(["estimate", str(folder), *asked, *words])


@pytest.mark.parametrize(
    ("words", "statuses"),
    [
        (TRUE, (0, 4, 0)),
        (CHECKS, (0, 4, 4)),
        ([*FALSE, *CHECKS], (3, 3, 3)),
    ],
)
def test_checks_have_an_exit_status(logs, words, statuses, capsys):
    right, half, broken_off = logs
    assert (_status(right, *words), _status(half, *words)) == statuses[:2]
    capsys.readouterr()
    assert _status(broken_off, *words) == statuses[2]
    out = " ".join(capsys.readouterr().out.split())
    assert "passed, 5 of 6" in out
    assert "9 of 10 rounds are not in the log" in out


@pytest.mark.parametrize(
    ("outcome", "passed", "is_complete", "required", "status"),
    [
        (None, False, True, [], 0),
        ("consistent", False, True, [], 4),
        ("consistent", True, False, [], 0),
        ("consistent", True, False, ["checks"], 4),
        ("consistent", True, True, ["checks", "consistent"], 0),
        ("inconclusive", True, True, [], 0),
        ("inconclusive", True, True, ["consistent"], 4),
    ],
)
def test_a_report_has_an_exit_status(outcome, passed, is_complete, required, status):
    claim = SimpleNamespace(is_stated=outcome is not None)
    report = SimpleNamespace(
        verdict=SimpleNamespace(claim=claim, outcome=outcome or "contradicted"),
        checks=SimpleNamespace(passed=passed, is_complete=is_complete),
    )
    assert exit_status_of(report, required) == status


def test_a_check_without_a_test_is_not_passed_in_json(logs, capsys):
    assert _status(logs[2], "--json") == 0
    checks = json.loads(capsys.readouterr().out)["checks"]
    by_name = {check["name"]: check["passed"] for check in checks["results"]}
    assert by_name.pop("fresh_noise") is None
    assert set(by_name.values()) == {True}
    assert "9 of 10 rounds" in checks["not_checked"]


def test_scores_alone_have_no_checks_that_could_be_made(tmp_path, capsys):
    scores = tmp_path / "scores.csv"
    rows = [f"{canary},{canary % 2},{canary % 7}" for canary in range(40)]
    scores.write_text("\n".join(["canary_id,included,score", *rows]) + "\n")
    assert main(["estimate", str(scores), "--delta", "1e-3", *CHECKS]) == 4
    assert main(["estimate", str(scores), "--delta", "1e-3", *CONSISTENT]) == 2
    assert "--require consistent: needs a claim" in capsys.readouterr().err
