"""What the report's tables show of its records."""

import math

import pytest

from fl_audit.accounting import Guarantees, Noise, Release, UnknownRounds, account
from fl_audit.accounting.noise_distributions import HOW_OFTEN_UNKNOWN
from fl_audit.accounting.release import Denominator, Party
from fl_audit.accounting.samplings.poisson import PoissonSampling
from fl_audit.estimators import AndersonDarling
from fl_audit.report.report import Efficiency
from fl_audit.report.shown_records import (
    accounted_parties,
    accounting_rows,
    estimate_by,
    method_notes,
    methods_by_group,
    normality_words,
    upper_bound_rows,
)
from tests.report.made_reports import analytical, estimate, guarantee, report, statistic

NAMES = ("final", "final_minus_initial", "max", "sum")


def statistics(**estimates):
    return {
        name: statistic(
            estimates=tuple(estimates.get(name, ())),
            left_out={} if name in estimates else {"m": "needs at least 2 included scores"},
        )
        for name in NAMES
    }


def test_a_row_per_method_with_a_number_per_statistic():
    made = statistics(
        final=[estimate("m", "lower_bound", 0.5), estimate("e", "estimate", math.inf)],
        max=[estimate("m", "lower_bound", math.inf)],
        sum=[estimate("m", "lower_bound", 12.3456, guarantee="other")],
    )
    groups = methods_by_group(made.values())
    assert {group.title: methods for group, methods in groups.items()} == {
        "Lower bounds as published, not valid after selection": ("m",),
        "Estimates and intervals": ("e",),
    }
    rows = [[estimate_by(one, method) for one in made.values()] for method in ("m", "e")]
    assert rows == [["≥ 0.500", "–", "≥ ∞", "≥ 12.3"], ["∞", "–", "–", "–"]]
    assert method_notes(made, "m") == {
        "Guarantee (Final model, Largest round)": "g.",
        "Guarantee (Sum of rounds)": "other.",
        "Assumes (Final model, Largest round, Sum of rounds)": "a.",
        "Source (Final model, Largest round, Sum of rounds)": "s.",
        "Left out (Final − initial)": "needs at least 2 included scores.",
    }


@pytest.mark.parametrize(
    ("value", "reading"),
    [(0.3, "may be Gaussian"), (0.9, "in doubt (15 %)"), (1.2, "not Gaussian (1 %)")],
)
def test_anderson_darling_is_read_at_15_and_1_percent(value, reading):
    assert normality_words(AndersonDarling(value, {0.15: 0.574, 0.01: 1.088})) == reading


def test_each_statistic_stands_beside_the_guarantee_against_its_own_attacker():
    known, hidden = guarantee(15.0), guarantee(10.0)
    guarantees = analytical(client=guarantee(40.0), canary=known)
    attackers = {
        "knows_rounds": Guarantees(guarantee(40.0), known),
        "does_not_know_rounds": Guarantees(guarantee(40.0), hidden),
    }
    efficiency = {
        name: Efficiency(3.0, "m", 8.0, 10.0, "rdp", knows, None)
        for name, knows in (("max", False), ("own_rounds", True))
    }
    made = report(
        dict.fromkeys(efficiency, statistic()),
        guarantees,
        attackers=attackers,
        efficiency=efficiency,
    )
    canary, client = upper_bound_rows(made)
    assert canary[1:] == ("≤ 10.0", "≤ 15.0")
    assert client[1:] == ("≤ 40.0", "≤ 40.0")
    assert [*accounted_parties(made)][2:] == [
        "Included canary, attacker who does not know the participation schedule"
    ]


def test_secret_rounds_are_random_and_unknown_ones_not_stated():
    for distribution in ("gaussian", "matrix"):
        released = Release(
            rounds=4,
            noise=Noise(distribution, 1.0, 1.0),
            denominator=Denominator("expected_cohort", 1.0),
            client=Party(UnknownRounds()),
            canary=Party(PoissonSampling(0.1)),
        )
        made = report({"max": statistic()}, account(released, 1e-5))
        client, canary, *_ = accounting_rows(made)
        assert client[1:3] == ("not stated", ("None known", HOW_OFTEN_UNKNOWN))
        assert canary[1] == "random"
