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

EXPECTED = {
    "as promised": (("arrived", "consistent"), ("arrived", "inconclusive")),
    "wrong sign": (("not_arrived", "inconclusive"), ("not_arrived", "inconclusive")),
    "wrong sign in every other round": (
        ("not_arrived", "inconclusive"),
        ("cannot_tell", "inconclusive"),
    ),
    "canaries sent with the wrong sign": (
        ("not_arrived", "inconclusive"),
        ("not_arrived", "inconclusive"),
    ),
    "canaries zeroed": (("not_arrived", "inconclusive"), ("cannot_tell", "inconclusive")),
    "canaries of weight 0.1": (("not_arrived", "inconclusive"), ("cannot_tell", "inconclusive")),
    "canaries half as long as the clip norm": (
        ("not_arrived", "inconclusive"),
        ("arrived", "inconclusive"),
    ),
    "clipped twice, to half the norm": (
        ("not_arrived", "inconclusive"),
        ("arrived", "inconclusive"),
    ),
    "half of the canaries dropped": (
        ("not_arrived", "inconclusive"),
        ("cannot_tell", "inconclusive"),
    ),
    "three of four canaries dropped": (
        ("not_arrived", "inconclusive"),
        ("arrived", "inconclusive"),
    ),
    "zeroed from the middle of training on": (
        ("not_arrived", "inconclusive"),
        ("arrived", "inconclusive"),
    ),
    "compressed to a tenth of the coordinates": (
        ("not_arrived", "inconclusive"),
        ("cannot_tell", "inconclusive"),
    ),
    "half of the variables frozen": (("not_arrived", "inconclusive"), ("arrived", "inconclusive")),
    "a canary shares its update with nine clients": (
        ("not_arrived", "inconclusive"),
        ("cannot_tell", "inconclusive"),
    ),
    "canaries sent twice": (("not_arrived", "contradicted"), ("arrived", "contradicted")),
    "canaries not clipped": (("not_arrived", "contradicted"), ("arrived", "contradicted")),
    "aggregate before noise": (("arrived", "contradicted"), ("arrived", "contradicted")),
    "sum divided by twice the denominator": (
        ("not_arrived", "inconclusive"),
        ("arrived", "inconclusive"),
    ),
    "sum divided by half the denominator": (
        ("not_arrived", "inconclusive"),
        ("arrived", "inconclusive"),
    ),
    "sum not divided": (("not_arrived", "inconclusive"), ("arrived", "inconclusive")),
    "aggregate in units of the clip norm": (
        ("not_arrived", "inconclusive"),
        ("arrived", "inconclusive"),
    ),
    "promise of the first round's clip norm": (
        ("not_arrived", "inconclusive"),
        ("arrived", "inconclusive"),
    ),
    "promise without the denominator": (
        ("not_arrived", "inconclusive"),
        ("arrived", "inconclusive"),
    ),
    "noise of another run": (("not_arrived", "inconclusive"), ("cannot_tell", "inconclusive")),
    "rounds shuffled": (("not_arrived", "inconclusive"), ("cannot_tell", "inconclusive")),
    "rounds counted from 0": (("not_arrived", "inconclusive"), ("cannot_tell", "inconclusive")),
    "aggregate of the round before": (
        ("not_arrived", "inconclusive"),
        ("cannot_tell", "inconclusive"),
    ),
    "the first aggregate in every round": (
        ("not_arrived", "inconclusive"),
        ("cannot_tell", "inconclusive"),
    ),
    "the model instead of its movement": (
        ("cannot_tell", "inconclusive"),
        ("cannot_tell", "inconclusive"),
    ),
    "momentum instead of the aggregate": (
        ("cannot_tell", "inconclusive"),
        ("arrived", "inconclusive"),
    ),
    "coordinates reversed": (("not_arrived", "inconclusive"), ("cannot_tell", "inconclusive")),
    "weights by columns instead of rows": (
        ("not_arrived", "inconclusive"),
        ("cannot_tell", "inconclusive"),
    ),
    "variables in another order": (
        ("not_arrived", "inconclusive"),
        ("cannot_tell", "inconclusive"),
    ),
    "canaries of another seed": (("not_arrived", "inconclusive"), ("cannot_tell", "inconclusive")),
    "canaries of another family": (
        ("not_arrived", "inconclusive"),
        ("cannot_tell", "inconclusive"),
    ),
    "coins inverted": (("not_arrived", "inconclusive"), ("not_arrived", "inconclusive")),
    "coins shuffled": (("not_arrived", "inconclusive"), ("not_arrived", "inconclusive")),
    "excluded canaries take part too": (
        ("not_arrived", "inconclusive"),
        ("not_arrived", "inconclusive"),
    ),
    "canaries numbered in another order": (
        ("not_arrived", "inconclusive"),
        ("cannot_tell", "inconclusive"),
    ),
}
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


QUICK = {
    "as promised",
    "wrong sign",
    "canaries zeroed",
    "canaries of weight 0.1",
    "canaries half as long as the clip norm",
    "half of the canaries dropped",
    "zeroed from the middle of training on",
    "compressed to a tenth of the coordinates",
    "canaries not clipped",
    "aggregate before noise",
    "sum divided by half the denominator",
    "promise of the first round's clip norm",
    "noise of another run",
    "rounds shuffled",
    "the first aggregate in every round",
}
"""One of every part that goes wrong: sign, length, loss, clip, noise, denominator, rounds."""


@pytest.mark.parametrize(
    "setup", [pytest.param(s, marks=[] if s in QUICK else pytest.mark.slow) for s in SETUPS]
)
def test_a_set_up_ends_as_expected(setup, tmp_path):
    assert outcomes(setup, tmp_path / "log") == EXPECTED[setup]
