"""Wrong set-ups say what is wrong, and none is consistent."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from fl_audit.report.background import background_of_log
from fl_audit.report.checks import folder_canary_check
from fl_audit.report.folder import AuditedFolder, folder_statistics
from fl_audit.verdict import Claim, ClaimTests, ScoredStatistic, reach_verdict
from tests.report.wrong_setups import SETUPS

HELD, CONTRADICTED = ("arrived", "consistent"), ("arrived", "contradicted")
THERE, LONG = ("arrived", "inconclusive"), ("not_arrived", "contradicted")
LOST, UNSURE = ("not_arrived", "inconclusive"), ("cannot_tell", "inconclusive")

# fmt: off
EXPECTED = {
    name: both
    for both, names in {
        (HELD, THERE): (
            "as promised",
        ),
        (LOST, LOST): (
            "wrong sign", "canaries sent with the wrong sign", "coins inverted", "coins shuffled",
            "excluded canaries take part too",
        ),
        (LOST, UNSURE): (
            "wrong sign in every other round", "canaries zeroed", "canaries of weight 0.1",
            "half of the canaries dropped", "compressed to a tenth of the coordinates",
            "a canary shares its update with nine clients", "noise of another run",
            "rounds shuffled", "rounds counted from 0", "aggregate of the round before",
            "the first aggregate in every round", "coordinates reversed",
            "weights by columns instead of rows", "variables in another order",
            "canaries of another seed", "canaries of another family",
            "canaries numbered in another order",
        ),
        (LOST, THERE): (
            "canaries half as long as the clip norm", "clipped twice, to half the norm",
            "three of four canaries dropped", "zeroed from the middle of training on",
            "half of the variables frozen", "sum divided by twice the denominator",
            "sum divided by half the denominator", "sum not divided",
            "aggregate in units of the clip norm", "promise of the first round's clip norm",
            "promise without the denominator",
        ),
        (LONG, CONTRADICTED): (
            "canaries sent twice", "canaries not clipped",
        ),
        (CONTRADICTED, CONTRADICTED): (
            "aggregate before noise",
        ),
        (UNSURE, UNSURE): (
            "the model instead of its movement",
        ),
        (UNSURE, THERE): (
            "momentum instead of the aggregate",
        ),
    }.items()
    for name in names
}
# fmt: on
"""The canary check's state and the verdict on own_rounds, with the expected norm and without it."""

CLAIM = Claim(7.6, 1e-3)
"""A claim that holds: one release with noise 0.5 is (7.59, 1e-3)-private."""


def outcomes(setup: str, path: Path) -> tuple[tuple[str, str], ...]:
    """The states of arrival and outcomes on own_rounds, with the promise and then without it.

    A promise changes no score. So the system trains once, and its promises are taken away after.
    """
    folder = SETUPS[setup]().write(path)
    found = folder_statistics(AuditedFolder(path))
    with_promise = _outcome(path, found)
    lengths = np.load(folder.round_lengths)
    lengths[:, 1] = np.nan
    np.save(folder.round_lengths, lengths)
    return with_promise, _outcome(path, found)


def _outcome(path: Path, found: Sequence[ScoredStatistic]) -> tuple[str, str]:
    """The state of arrival and the outcome of the verdict on own_rounds."""
    (own,) = (one for one in found if one.name == "own_rounds")
    canary_check = folder_canary_check(AuditedFolder(path), found)
    tests = ClaimTests([own], 0.95, ["threshold_valid"])
    others = [one for one in found if one is not own]
    log = AuditedFolder(path).log
    assert log is not None
    background = background_of_log(log)
    verdict = reach_verdict(
        CLAIM, tests, canary_check=canary_check, others=others, background=background
    )
    return canary_check.state, str(verdict.outcome)


def test_only_the_right_set_up_is_consistent_and_only_with_the_expected_norm():
    assert EXPECTED.keys() == SETUPS.keys()
    consistent = {
        (name, has_norm)
        for name, both in EXPECTED.items()
        for has_norm, (_, outcome) in zip((True, False), both, strict=True)
        if outcome == "consistent"
    }
    assert consistent == {("as promised", True)}


QUICK = {"as promised", "wrong sign", "half of the canaries dropped"}


@pytest.mark.parametrize(
    "setup", [pytest.param(s, marks=[] if s in QUICK else pytest.mark.slow) for s in SETUPS]
)
def test_a_set_up_ends_as_expected(setup, tmp_path):
    assert outcomes(setup, tmp_path / "log") == EXPECTED[setup]
