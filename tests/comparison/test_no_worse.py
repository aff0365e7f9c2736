"""`compare NEW OLD --require no-worse`: a gate against the last release."""

import json
import math
import os

import numpy as np
import pytest

from fl_audit.cli import main
from fl_audit.comparison.no_worse import Leakage, interval_of_difference
from fl_audit.formats.round_chain import ChainWriter, Reported, digest_of
from tests.comparison.conftest import LOST, list_rounds

NOISE, CANARY = "config.mechanism.noise_multiplier", "analytical.canary.epsilon"
HIDDEN = "analytical.attackers.does_not_know_rounds.canary.epsilon"


def run_of(make_run, name, noise, epsilon, **changes):
    """A run whose fit says so much, in an interval of a tenth on each side."""
    folder = make_run(
        name,
        {NOISE: noise, CANARY: 100.0, HIDDEN: 100.0, **changes},
        {"shift_fit": epsilon, "threshold_valid": epsilon / 2, "one_run_valid": 0.0},
    )
    written = Reported(files={"report.json": digest_of(folder / "report.json")})
    ChainWriter.go_on(folder / "chain.jsonl").add(written)
    return folder


def test_a_run_that_leaks_more_is_status_5(make_run, capsys):
    old, new = run_of(make_run, "old", 0.3, 5.0), run_of(make_run, "new", 0.2, 6.0)
    assert main(["compare", str(new), str(old), "--require", "no-worse"]) == 5
    # 1 is more than the root of 0.6² and 0.5²; the two intervals touch, from 5.4 and up to 5.5.
    assert "the new run leaks significantly more" in capsys.readouterr().out.splitlines()[-1]
    assert main(["compare", str(new), str(old), "--require", "no-worse", "--json"]) == 5
    gate = json.loads(capsys.readouterr().out)["no_worse"]
    assert gate["is_worse"] is True and gate["statistic"] == "max"
    assert gate["lower"] == pytest.approx(1 - math.hypot(0.6, 0.5))
    assert main(["compare", str(old), str(new), "--require", "no-worse"]) == 0
    assert "does not leak significantly more" in capsys.readouterr().out.splitlines()[-1]


def test_a_difference_within_chance_passes(make_run, capsys):
    old, new = run_of(make_run, "old", 0.3, 5.0), run_of(make_run, "new", 0.3, 5.6)
    assert main(["compare", str(new), str(old), "--require", "no-worse"]) == 0
    assert main(["compare", str(new), str(old), "--json"]) == 0
    assert "no_worse" not in json.loads(capsys.readouterr().out.splitlines()[-1])


def test_estimates_that_pages_cap_say_so(make_run, capsys):
    old = run_of(make_run, "old", 0.3, 5.0)
    new = run_of(make_run, "new", 0.3, 5.4, **{CANARY: 5.2, HIDDEN: 5.2})
    assert main(["compare", str(new), str(old), "--require", "no-worse"]) == 0
    of_new, of_old = capsys.readouterr().out.splitlines()[-1].split(" against ")
    assert "5.94, not capped at the upper bound)" in of_new
    assert "capped" not in of_old


def test_what_cannot_be_compared_is_no_pass(make_run, capsys):
    drawn = {"kind": "PoissonSampling", "probability": 0.8}
    sampled = {
        "config.participation": {"kind": "bernoulli", "rounds": 8, "clients_per_round": 10},
        "run.release.canary.sampling": drawn,
        "analytical.client.participations": None,
    }
    once, often = (
        run_of(make_run, "once", 0.3, 5.0),
        run_of(make_run, "often", 0.3, 5.0, **sampled),
    )
    assert main(["compare", str(often), str(once), "--require", "no-worse"]) == 2
    assert "canaries participate in different numbers of rounds, 6.4" in capsys.readouterr().err
    lost = run_of(make_run, "lost", 0.3, 0.1, arrival=LOST)
    for pair in ((lost, once), (once, lost)):
        assert main(["compare", *map(str, pair), "--require", "no-worse"]) == 2
        assert f"the canary check of {lost} failed" in capsys.readouterr().err
    stopped = list_rounds(run_of(make_run, "stopped", 0.3, 0.1, **{"run.stopped_after": 1}), "2")
    assert main(["compare", str(stopped), str(once), "--require", "no-worse"]) == 2
    assert "different numbers of rounds, 0.500 against 1" in capsys.readouterr().err
    third = run_of(make_run, "third", 0.3, 5.0)
    assert main(["compare", *map(str, (once, often, third)), "--require", "no-worse"]) == 2
    assert "two folders, got 3" in capsys.readouterr().err


def test_others_see_the_report_of_a_run_whose_chain_is_secret(make_run, monkeypatch, capsys):
    run = run_of(make_run, "run", 0.3, 5.0)
    (run / "chain.jsonl").write_text("not for others")
    assert main(["show", str(run)]) == 2
    monkeypatch.setattr(os, "access", lambda path, mode: path != run / "chain.jsonl")
    assert main(["show", str(run)]) == 0


@pytest.mark.parametrize("name", ["chain.jsonl", "run.json", "the report's line in chain.jsonl"])
def test_a_run_whose_files_cannot_be_tied_together_is_no_pass(make_run, capsys, name):
    old, new = run_of(make_run, "old", 0.3, 5.0), run_of(make_run, "new", 0.3, 5.0)
    if name.startswith("the report's line"):
        *lines, _ = (new / "chain.jsonl").read_text().splitlines(keepends=True)
        (new / "chain.jsonl").write_text("".join(lines))
    else:
        (new / name).unlink()
    assert main(["compare", str(new), str(old), "--require", "no-worse"]) == 2
    assert f"{new} lacks {name}" in capsys.readouterr().err


def test_a_report_that_was_changed_is_refused(make_run, capsys):
    old, new = run_of(make_run, "old", 0.3, 5.0), run_of(make_run, "new", 0.3, 5.6)
    report = new / "report.json"
    assert main(["compare", str(new), str(old)]) == 0
    report.write_text(report.read_text().replace("5.6", "0.6"))
    for command in (["compare", str(new), str(old)], ["show", str(new)]):
        assert main(command) == 2
        assert f"{report}: has changed since the run wrote it" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("new", "old", "difference"),
    [
        # Any value of the new run's interval, minus any of the old one's.
        (Leakage(math.inf, 3.0, math.inf), Leakage(2.0, 1.0, 4.0), (-1.0, math.inf)),
        (Leakage(math.inf, math.inf, math.inf), Leakage(2.0, 1.0, 4.0), (math.inf, math.inf)),
        (Leakage(0.0, 0.0, math.inf), Leakage(*[math.inf] * 3), (-math.inf, math.inf)),
        (Leakage(2.0, 1.0, 4.0), Leakage(*[math.inf] * 3), (-math.inf, -math.inf)),
    ],
)
def test_the_difference_of_infinite_epsilons(new, old, difference):
    assert interval_of_difference(new, old) == difference


def test_equal_runs_fail_one_time_in_forty():
    """Intervals of 95 % of normal estimates with unequal errors: 2.5 % of differences are above 0.

    Of 20,000 pairs 500 are expected; outside 380 to 620 with a probability below 1e-7.
    """
    random = np.random.default_rng(5)
    errors = np.array([0.5, 1.3])
    centres = 8 + errors * random.standard_normal((20_000, 2))
    worse = 0
    for both in centres.tolist():
        new, old = (
            Leakage(centre, centre - 1.96 * error, centre + 1.96 * error)
            for centre, error in zip(both, errors.tolist(), strict=True)
        )
        worse += interval_of_difference(new, old)[0] > 0
    assert 380 < worse < 620
