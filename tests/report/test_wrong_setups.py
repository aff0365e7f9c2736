"""Wrong set-ups say what is wrong, and none is consistent: the table of docs/arrival.md."""

import re
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from fl_audit.report.checks import folder_arrival
from fl_audit.report.folder import AuditedFolder, folder_statistics
from fl_audit.verdict import Claim, ClaimTests, ScoredStatistic, reach_verdict
from tests.report.wrong_setups import SETUPS

_DOCUMENT = Path(__file__).parents[2] / "docs" / "arrival.md"

CLAIM = Claim(9.0, 1e-3)
"""A claim that holds: one release with noise 0.5 is (8.4, 1e-3)-private."""


def table() -> dict[str, tuple[str, str]]:
    """The outcomes with and without a promise, by set-up, as the document states them."""
    rows = re.findall(r"^\| ([^|]+) \| ([a-z_]+), ([a-z]+) \| ([a-z_]+), ([a-z]+) \|", *_text())
    return {row[0].strip(): ((row[1], row[2]), (row[3], row[4])) for row in rows}


def _text() -> tuple[str, re.RegexFlag]:
    return _DOCUMENT.read_text(), re.MULTILINE


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
    arrival = folder_arrival(AuditedFolder(path), found)
    tests = ClaimTests([own], 0.95, ["threshold_valid"])
    others = [one for one in found if one is not own]
    verdict = reach_verdict(CLAIM, tests, arrival=arrival, others=others)
    return arrival.state, str(verdict.outcome)


def test_the_table_lists_all_set_ups_and_calls_only_the_right_one_consistent():
    listed = table()
    assert listed.keys() == SETUPS.keys()
    assert len(listed) > 30
    consistent = {
        name for name, both in listed.items() if "consistent" in {outcome for _, outcome in both}
    }
    assert consistent == {"as promised"}


@pytest.mark.parametrize("setup", SETUPS)
def test_a_set_up_ends_as_the_table_says(setup, tmp_path):
    assert outcomes(setup, tmp_path / "log") == table()[setup]
