"""The answer of an audit in three numbers and a sentence, and the summary for the terminal."""

import dataclasses
import math

import pytest

from fl_audit.accounting import Guarantees
from fl_audit.report import summary_lines
from fl_audit.report.headline import headline
from fl_audit.report.report import Efficiency, SeenByAttacker
from fl_audit.report.shown_records import methods_by_group
from tests.report import made_reports
from tests.report.conftest import NO_NOISE, built
from tests.report.made_reports import (
    analytical,
    estimate,
    fitted_and_proven,
    guarantee,
    statistic,
)

STATISTICS = {
    "final": fitted_and_proven("final", 0.1, 0.5, 0.2, 1.0),
    "max": fitted_and_proven("all_iterates", 6.0, 10.0, 9.0, 11.0),
    "own_rounds": fitted_and_proven("known_rounds", 11.4, 15.6, 14.8, 16.4),
}


def report(canary=15.2, participations=1, statistics=None):
    sees = {"final": "the model", "all_iterates": "rounds", "known_rounds": "rounds and clients"}
    return made_reports.report(
        STATISTICS if statistics is None else statistics,
        analytical(guarantee(65.3, 7), guarantee(canary, participations, "a reason")),
        threat_models={n: SeenByAttacker(n, words, 1, 5, 9) for n, words in sees.items()},
    )


def test_three_numbers_and_a_sentence():
    assert headline(report()).lines() == [
        "upper bound   ε ≤ 15.2 for a canary in one round, from accounting",
        "              ε ≤ 65.3 for a client in up to 7 rounds",
        "lower bound   ε ≥ 11.4 for a canary, with 95 % confidence, if canaries’ scores are "
        "independent",
        "estimate      ε ≈ 15.2 (14.8 … 15.2, capped at the upper bound), if the noise is Gaussian",
        "threat model  known_rounds (the attacker has rounds and clients): audited ε ≥ 11.4, "
        "75 % of the upper bound 15.2.",
    ]


@pytest.mark.parametrize(
    ("details", "is_most"),
    [
        ({"false_negatives": 0, "false_positives": 0}, True),
        ({"false_negatives": 0, "false_positives": 1}, False),
        ({"false_negatives": 0}, False),  # a known null: higher scores would prove more
        ({"m": 18, "correct": 18, "guesses": 18}, True),
        ({"m": 18, "correct": 17, "guesses": 17}, False),
    ],
)
def test_a_bound_without_an_error_is_said_to_be_the_most(details, is_most):
    made = fitted_and_proven("final", 3.1, 9.0, 8.0, 10.0)
    fit, lower_bound = made.estimates
    lower_bound = dataclasses.replace(lower_bound, details=details)
    found = headline(
        report(statistics={"final": dataclasses.replace(made, estimates=(fit, lower_bound))})
    )
    (line,) = [line for line in found.lines() if line.startswith("lower bound")]
    assert line.endswith(", the most that this method can prove with 18 canaries") == is_most


def test_a_bound_for_any_mechanism_says_so_and_one_that_claims_nothing_does_not_lead():
    valid = estimate("one_run_valid", "lower_bound", 3.0, valid_for="any mechanism", lower=3.0)
    after_stop = estimate("threshold_valid", "lower_bound", 9.0, lower=9.0)
    made = report(statistics={"m": statistic(estimates=(after_stop, valid))})
    line = headline(made).lines()[2]
    assert line == "lower bound   ε ≥ 3.00 for a canary, with 95 % confidence, for any mechanism"


@pytest.mark.parametrize(
    ("statistic", "epsilon", "share"), [("own_rounds", 15.2, "75 %"), ("max", 9.9, "60 %")]
)
def test_the_guarantee_is_the_one_against_the_attacker_of_the_proof(statistic, epsilon, share):
    whole = report(statistics={statistic: STATISTICS[statistic]})
    against = {"knows_rounds": 15.2, "does_not_know_rounds": 9.9}
    attackers = {
        name: Guarantees(guarantee(65.3), guarantee(bound)) for name, bound in against.items()
    }
    knows = statistic == "own_rounds"
    made = headline(
        dataclasses.replace(
            whole,
            attackers=attackers,
            efficiency={statistic: Efficiency(1.0, "m", 2.0, epsilon, "rdp", knows, None)},
        )
    )
    assert made.upper_bound == epsilon
    assert f"{share} of the upper bound {epsilon}" in made.sentence()


@pytest.mark.parametrize(
    ("canary", "upper_bound", "sentence"),
    [
        (math.inf, "none, because no noise is added", "accounting gives no upper bound."),
        (None, "unknown (a reason)", "(the attacker has rounds and clients): audited ε ≥ 11.4."),
    ],
)
def test_without_a_guarantee(canary, upper_bound, sentence):
    made = headline(report(canary))
    assert made.lines()[0] == f"upper bound   {upper_bound}"
    by_label = {line[:14].strip(): line for line in made.lines()}
    assert by_label["estimate"] == "estimate      ε ≈ 15.6 (14.8 … 16.4), if the noise is Gaussian"
    assert made.sentence().endswith(sentence)


@pytest.mark.parametrize(
    ("client", "upper_bound"),
    [
        (guarantee(7.581, 3), "ε ≤ 7.59 for a client in up to 3 rounds, from accounting"),
        (guarantee(math.inf), "none, because no noise is added"),
        (guarantee(None, None, "a reason"), "unknown (a reason)"),
    ],
)
def test_a_run_without_canaries_has_the_upper_bound_of_a_client(client, upper_bound):
    made = made_reports.report({}, analytical(client, client), efficiency={})
    none = dataclasses.replace(made, run=dataclasses.replace(made.run, num_canaries=0))
    assert headline(none).lines() == [
        f"upper bound   {upper_bound}",
        "lower bound   none, because the run had no canaries",
        "estimate      none, because the run had no canaries",
        "This run had no canaries, so nothing was audited.",
    ]


# The summary for the terminal.


@pytest.mark.parametrize(
    ("client", "canary", "words"),
    [
        (4.0, 4.0, "4.00 for a client"),
        (8.0, 4.0, "8.00 for a client, 4.00 for a canary"),
        (None, 8.787, "none known for a client (a reason), 8.79 for a canary"),
        (8.0, None, "8.00 for a client, none known for a canary (a reason)"),
        (None, None, "none known (a reason)"),
    ],
)
def test_each_partys_upper_bound_is_in_the_summary(client, canary, words):
    parties = (guarantee(epsilon, 1, "a reason") for epsilon in (client, canary))
    lines = summary_lines(made_reports.report(STATISTICS, analytical(*parties)))
    assert f"upper bound         {words}" in lines


SUMMARISED = ("final", "final_minus_initial", "max", "sum")


def test_summary_is_an_aligned_table_and_the_analytical_epsilon(run_folder, change_record):
    change_record(noise=NO_NOISE)
    report = built(run_folder)
    lines = summary_lines(report)
    start = next(i for i, line in enumerate(lines) if "final_minus_initial" in line)
    table = lines[start : lines.index("", start)]
    rows = [line for line in table[1:] if line.startswith("  ")]
    assert lines[start - 1].split() == [
        *("threat", "model"),
        *("final", "final_and_initial", "all_iterates"),
    ]
    assert [line.split()[0] for line in rows] == [
        method
        for methods in methods_by_group(report.statistics.values()).values()
        for method in methods
    ]
    assert len({len(line) for line in [table[0], *rows]}) == 1
    assert table[0].split() == ["statistic", *SUMMARISED]
    assert table[1] == "valid lower bounds"
    assert any("94.3 %" in line and "held-out images" in line for line in lines)
    assert any(line.startswith("upper bound         ∞") for line in lines)
