"""Patterns against attackers: differences of AUC, the table and the sentence."""

import json
import math
import re
import types

import numpy as np
import pytest

from fl_audit.comparison import compare, render_comparison
from fl_audit.comparison.as_text import brief_lines
from fl_audit.comparison.ranking import clients_bounds
from fl_audit.comparison.settings import Spread
from fl_audit.estimators.roc.summary import roc_summary
from fl_audit.estimators.scores import CanaryScores
from fl_audit.report.patterns import (
    Detection,
    PatternAttacker,
    PatternTable,
    differences,
    mean_auc,
)


def detection(shift: float, random: np.random.Generator, canaries: int = 300) -> Detection:
    scores = CanaryScores(
        random.normal(shift, 1, canaries // 2), random.normal(0, 1, canaries // 2)
    )
    return Detection(str(shift), None, None, *mean_auc([roc_summary(scores)]), 1.0)


def test_equal_patterns_differ_seldom_and_unequal_ones_always():
    random = np.random.default_rng(3)
    wrong = told = 0
    for _ in range(40):
        equal = PatternAttacker("a", "s", tuple(detection(1.0, random) for _ in range(3)))
        also_equal = PatternAttacker("b", "t", tuple(detection(2.5, random) for _ in range(3)))
        found = differences([equal, also_equal], 0.95)
        wrong += any(d.lower > 0 for row in found for d in row)
        pair = PatternAttacker("a", "s", (detection(0.8, random), detection(2.0, random)))
        told += differences([pair], 0.95)[0][0].lower > 0
    # At most 5 % are wrong: more than 10 of 40 with probability 1e-6.
    assert wrong <= 10
    assert told == 40


def test_only_settings_of_equal_noise_are_compared():
    random = np.random.default_rng(4)
    one, two = detection(1.0, random), detection(1.0, random)
    moved = Detection("x", None, None, two.auc, two.deviation, 0.5)
    assert differences([PatternAttacker("a", "s", (one, moved))], 0.95) == [[]]


def test_the_table_and_the_sentence(make_run):
    """Both runs have the same scores, so that nothing is told apart."""
    first = make_run("a", {"config.participation.clients_per_round": 5})
    found = compare([first, make_run("b")])
    text = "\n".join(brief_lines(found))
    words = " ".join(text.split())
    for attacker in (
        "without the schedule (sees all rounds, not who took part when)",
        "with the final model (initial and final model only)",
    ):
        none = f"To an attacker {attacker}: no difference detected (AUC 0."
        assert none in words
    assert "One run per pattern: another may give other numbers." in words
    rows = [line for line in text.splitlines() if "0." in line and "…" in line]
    assert len(rows) == 4
    assert max(map(len, text.splitlines())) <= 100
    page = render_comparison(found)
    assert "an attacker without the schedule" in page
    assert "Upper bound, client" in page
    assert "Upper bound, canary" not in page, "its attacker would not be named"
    assert json.loads((first / "report.json").read_text())["statistics"].keys() >= {"max", "sum"}


@pytest.mark.parametrize(
    ("bounds", "words"),
    [
        ((22.551, 9.78), "accounting for a client: “b” ε ≤ 9.78, “a” ε ≤ 22.6. "),
        ((9.78, 9.775), ""),
        ((9.78, None), ""),
        ((9.78, math.inf), ""),
    ],
)
def test_clients_bounds_are_next_to_the_answer_where_they_differ(bounds, words):
    """A shuffled canary draws its own rounds, which a client does not."""
    settings = [
        types.SimpleNamespace(label=label, guarantee=lambda _, e=e: Spread.from_values([e]))
        for label, e in zip("ab", bounds, strict=True)
    ]
    assert clients_bounds(types.SimpleNamespace(settings=settings)).endswith(words)
    assert bool(clients_bounds(types.SimpleNamespace(settings=settings))) == bool(words)


def test_the_answer_names_the_least_and_the_most_with_those_not_told_apart():
    random = np.random.default_rng(5)
    made = tuple(detection(shift, random, 2_000) for shift in (0.5, 3.0, 1.5, 0.52))
    table = PatternTable((PatternAttacker("with x", "s", made),), "5 rounds each", 0.95)
    assert table.lines()[0] == table.question == "Which pattern leaks least (5 rounds each)?"
    head, least_line, most_line = table.answers[0].sentences
    least = r"least “0\.52?” \(AUC 0\.6\d\d\) and “0\.52?” \(0\.6\d\d\), not distinguished"
    assert head == "To an attacker with x:"
    assert re.fullmatch(f"  {least}", least_line), least_line
    assert re.fullmatch(r"  most “3\.0” \(AUC 0\.98\d\)", most_line), most_line


def found(label: str, auc: float, deviation: float, upper: float) -> Detection:
    return Detection(label, upper, None, auc, deviation, 1.0)


def test_a_pattern_between_is_no_winner_and_the_largest_bound_is_named():
    """The first and the last differ alone; the first has the largest upper bound."""
    made = (found("a", 0.6, 0.1, 9.0), found("b", 0.66, 0.4, 5.0), found("c", 0.75, 0.1, 5.0))
    (answer,) = PatternTable((PatternAttacker("with x", "s", made),), "", 0.95).answers
    assert [d.label for d in (*answer.least, *answer.most, *answer.unclear)] == ["a", "c", "b"]
    assert answer.sentences == [
        "To an attacker with x:",
        "  least for the average canary “a” (AUC 0.600)",
        "  for the most exposed canary the upper bound of “a” is the largest: ε ≤ 9.00, others ≤ "
        "5.00",
        "  most “c” (AUC 0.750)",
        "  in between, distinguished neither from the least nor from the most: “b” (AUC 0.660)",
    ]
