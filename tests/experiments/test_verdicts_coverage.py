"""The page of coverage: what verdicts and the live test need, and how often they err."""

import json

import numpy as np
import pytest
from experiment_pages import ROOT, page_rows, page_text, row_of

from experiments.coverage import verdicts
from tests.attacks.partial_arrivals import Audit, alike, dropped

slow = pytest.mark.slow


def all_on_page(rows):
    """The rows that the page of coverage does not have."""
    shown = page_rows("coverage")
    missing = [row for row in rows if list(row) not in shown]
    assert not missing


@slow
def test_canaries_that_a_verdict_needs():
    all_on_page(verdicts.needed())


def test_included_canaries_that_a_sum_needs():
    number = verdicts.included_by_sum(2.0, 4.0, 1e-5)
    assert f"the sum of scores needs {number} included canaries" in page_text("coverage")
    half = int(row_of("coverage", "1e-05", "2")[-1].replace(",", "")) // 2
    docs = (ROOT / "docs/verdict.md").read_text(encoding="utf-8")
    assert f"{number} included canaries contradict" in docs
    assert f"about {round(half, -2):,}" in docs


@slow
def test_p_values_of_true_claims():
    all_on_page(verdicts.p_values())


@slow
@pytest.mark.parametrize("setting", verdicts.SHIFTS)
def test_canaries_until_a_claim_falls(setting, monkeypatch):
    monkeypatch.setattr(verdicts, "SHIFTS", [setting])
    all_on_page(verdicts.live())


@slow
def test_bounds_by_who_is_included():
    all_on_page(verdicts.inclusion())


@slow
def test_revealed_canaries():
    all_on_page(verdicts.revealed())


def test_faults_that_the_canary_check_names():
    numbers = {0: "no", 6: "six", 10: "ten"}
    found = [
        numbers[sum(Audit(lengths).run(seed).fault is not None for seed in range(10))]
        for lengths in (dropped(0.3), alike(0.75), alike(0.9))
    ]
    assert found[2] == "no"
    text = " ".join(page_text("coverage").split())
    assert (
        f"a fault was named in {found[0]} with 30 % of the canaries dropped, in {found[1]} with "
        "canaries of 0.75 times the expected norm, in none at 0.9 times." in text
    )


@slow
@pytest.mark.tff
def test_arms(tmp_path):
    from fl_audit.cli import main

    assert main(["run", str(ROOT / "experiments/coverage/arms.toml"), "--out", str(tmp_path)]) == 0
    report = json.loads((tmp_path / "report.json").read_text())["arms"]
    for arm in report["comparison"]["arms"]:
        shift, interval, allowed = row_of("coverage", f"`{arm['arm']}`")
        assert allowed == f"{report['allowed'][arm['arm']]:.2f}"
        low, high = map(float, interval.split(" to "))
        # Noise is not seeded. Each interval has half a width of 1.96 standard errors: both shifts
        # differ by less than 5 standard errors of a difference, but in 6e-7 of runs.
        error = np.hypot(arm["upper"] - arm["lower"], high - low) / 2 / 1.96
        assert abs(arm["mu"] - float(shift)) < 5 * error
