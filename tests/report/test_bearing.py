"""Which statistics of a log bear on a claim, and for whom its canaries stand."""

import numpy as np
import pytest

from fl_audit.attacks import CanaryPool, Participation, RoundScorer
from fl_audit.cli import main
from fl_audit.report.build import EstimateRequest, report_on_folder, report_on_statistics
from fl_audit.report.folder import AuditedFolder, folder_statistics
from fl_audit.verdict import Claim

DIM, ROUNDS, COHORT, NOISE = 2000, 20, 10, 0.5
POOL = CanaryPool(seed=3, count=400, dim=DIM)
"""One release with noise 0.5 is (8.4, 1e-3)-private."""

DEALT = [[1 + canary % ROUNDS] for canary in range(POOL.count)]


def log(path, participation, rounds=DEALT, released=ROUNDS):
    """The log of a right system, whose canaries are as long as its clip norm of 1."""
    scorer = RoundScorer.create(path, POOL, released, rounds, participation=participation)
    random = np.random.default_rng(5)
    for number in range(1, released + 1):
        here = [c for c in np.flatnonzero(POOL.included) if number in rounds[c]]
        total = sum((POOL.vector(int(c)) for c in here), np.zeros(DIM))
        noised = (total + NOISE * random.standard_normal(DIM)) / COHORT
        scorer.score_round(number, noised.astype(np.float32), canary_length=1 / COHORT)
    scorer.finish()
    return AuditedFolder(path)


def verdict_on(folder, epsilon, statistic=None):
    asked = EstimateRequest(delta=1e-3, methods=["threshold_valid"], claim=Claim(epsilon, 1e-3))
    if statistic is None:
        return report_on_folder(folder, asked).verdict
    found = folder_statistics(folder)
    chosen = [one for one in found if one.name == statistic]
    others = [one for one in found if one.name != statistic]
    return report_on_statistics(folder, chosen, asked, others).verdict


DEALT_BEFOREHAND = Participation("none", client_rounds=1, client_weight=1)
DRAWN = Participation("poisson", probability=0.05)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("participation", [None, DRAWN])
def test_known_rounds_contradict_no_claim_that_may_count_on_sampling(tmp_path, participation):
    """Claim 1 counts on a draw; the attacker of own_rounds, who knows it, proves far more."""
    folder = log(tmp_path / "audit", participation)
    alone = verdict_on(folder, 1.0, "own_rounds")
    assert alone.outcome == "inconclusive"
    assert alone.epsilon_lower > 2
    assert "say in participation.json whether the claim counts on sampling" in alone.reason
    everything = verdict_on(folder, 8.4)
    assert everything.num_tests == len(folder_statistics(folder)) - 1
    assert everything.statistic != "own_rounds"
    assert "score by own_rounds" not in everything.reason


@pytest.mark.parametrize(
    ("said", "words"),
    [
        (
            {"client_rounds": 10},
            "canaries participated in 1 round at most, and a client may participate in 10",
        ),
        ({"client_weight": 100}, "a client may weigh 100 times as much as a canary"),
    ],
)
def test_canaries_show_nothing_in_favour_of_clients_who_may_do_more(tmp_path, said, words):
    folder = log(tmp_path / "audit", Participation("none", **said))
    verdict = verdict_on(folder, 8.4, "own_rounds")
    assert verdict.outcome == "inconclusive"
    assert words in verdict.reason
    assert verdict_on(folder, 1.0, "own_rounds").outcome == "contradicted"


@pytest.mark.parametrize(
    ("said", "words"),
    [
        (
            {"sampling": "fixed_size", "probability": 0.05, "members": 400, "client_rounds": 1},
            "participated in up to 2 rounds and a client in at most 1",
        ),
        (
            {"sampling": "none", "client_rounds": 2, "separation": 8},
            "in rounds 7 apart and a client only in rounds at least 8 apart",
        ),
        (
            {"sampling": "none", "client_rounds": 2, "client_weight": 0.5},
            "client weighs at most 0.5 times as much as a canary",
        ),
    ],
)
def test_canaries_that_are_no_clients_contradict_nothing(tmp_path, said, words):
    often = [[1 + canary % (ROUNDS - 7), 8 + canary % (ROUNDS - 7)] for canary in range(POOL.count)]
    said = Participation(**{"claim_counts_on_sampling": False, **said})
    verdict = verdict_on(log(tmp_path / "audit", said, often), 1.0, "own_rounds")
    assert (verdict.outcome, verdict.p_value) == ("inconclusive", None)
    assert words in verdict.reason


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("claim", "required", "status"),
    [
        ("7.6", True, 0),
        ("30", True, 4),  # at delta 0, where nothing is simulated
        ("30", False, 0),
        ("1", True, 3),
        (None, True, 2),
    ],
)
def test_consistent_can_be_required(tmp_path, capsys, claim, required, status):
    folder = log(tmp_path / "audit", DEALT_BEFOREHAND).path
    delta = "0" if claim == "30" else "1e-3"
    words = ["estimate", str(folder), "--delta", delta, "--statistic", "own_rounds", "--json"]
    words += ["--methods", "threshold_valid"] + (
        [] if claim is None else ["--claimed-epsilon", claim]
    )
    assert main(words + ["--require", "consistent"] * required) == status
    if status == 2:
        line = "--require consistent: needs a claim; give --claimed-epsilon"
        assert line in capsys.readouterr().err


def amplified_log(path, noise):
    """The log of a system that draws everybody by a coin of 0.05 in each of 20 rounds."""
    random = np.random.default_rng(6)
    rounds = [(1 + np.flatnonzero(random.random(ROUNDS) < 0.05)).tolist() for _ in range(400)]
    drawn = Participation("poisson", probability=0.05, claim_counts_on_sampling=True)
    scorer = RoundScorer.create(path, POOL, ROUNDS, rounds, participation=drawn)
    for number in range(1, ROUNDS + 1):
        here = [c for c in np.flatnonzero(POOL.included) if number in rounds[c]]
        total = sum((POOL.vector(int(c)) for c in here), np.zeros(DIM))
        noised = (total + noise * random.standard_normal(DIM)) / COHORT
        scorer.score_round(number, noised.astype(np.float32), canary_length=1 / COHORT)
    scorer.finish()
    return AuditedFolder(path)


@pytest.mark.parametrize(("noise", "outcome"), [(1.0, "inconclusive"), (0.3, "contradicted")])
def test_a_claim_that_counts_on_sampling_is_audited_by_who_does_not_know_rounds(
    tmp_path, noise, outcome
):
    """Noise of 1.0 is (1.03, 1e-3)-private under these coins, by dp_accounting; 0.3 is 21.7."""
    verdict = verdict_on(amplified_log(tmp_path / "audit", noise), 1.04, "max")
    assert verdict.outcome == outcome
    assert verdict.num_tests == 1
    assert "own_rounds" not in verdict.reason
