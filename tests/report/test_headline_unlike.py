"""An estimate over canaries that differ is called the epsilon of none of them."""

import dataclasses

import numpy as np
import pytest

from fl_audit.estimators.known_mechanisms import gaussian
from fl_audit.estimators.null import Null
from fl_audit.estimators.scores import CanaryScores
from fl_audit.report.arms import unlike_canaries
from fl_audit.report.headline import headline
from fl_audit.report.report import Report, SeenByAttacker, report_to_json
from fl_audit.report.statistics import estimates_on, with_checks
from fl_audit.verdict import ScoredStatistic

ROUNDS = [np.arange(number) for number in (1, 3, 2)]


@pytest.mark.parametrize(
    ("arms", "rounds", "words"),
    [
        (["", ""], ROUNDS[:1] * 2, None),
        ([], [], None),
        ([], ROUNDS, "canaries in 1 to 3 rounds"),
        (["a", "b", "a"], ROUNDS, "canaries of 2 arms"),
    ],
)
def test_canaries_are_unlike_in_rounds_or_arms(arms, rounds, words):
    assert unlike_canaries(arms, rounds) == words


def test_the_page_the_terminal_and_json_say_it():
    mechanism = gaussian(2.0, 1e-3, 10**6)
    random = np.random.default_rng(1)
    bits = random.integers(0, 2, 200)
    scores = mechanism.release(random, bits)
    canaries = CanaryScores(scores[bits == 1], scores[bits == 0])
    scored = ScoredStatistic("max", canaries, Null("closed_form", dim=10**6))
    made = with_checks(estimates_on(scored, 1e-3, 0.95), scored, "all_iterates")
    alike = Report(
        statistics={"max": made},
        threat_models={"all_iterates": SeenByAttacker("All", "all", 1, 2, 100)},
        verdict=None,
        fl_audit_version="1",
    )
    unlike = dataclasses.replace(alike, estimate_is_over="canaries in 1 to 3 rounds")
    words = "a mean over canaries in 1 to 3 rounds, not the ε of any single canary"
    assert words in "\n".join(headline(unlike).lines())
    assert words not in "\n".join(headline(alike).lines())
    assert report_to_json(unlike)["estimate_is_over"] == "canaries in 1 to 3 rounds"
    assert "estimate_is_over" not in report_to_json(alike)
