"""Verdicts on systems as an engineer would set them up: wrong ones, and right but unusual ones.

Every system is simulated in plain NumPy (systems.py) and judged by the command line. The few that
run by default take a second or two each; the others are marked slow.
"""

import math
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.outside.right import RIGHT
from tests.outside.systems import Answer, System, ask
from tests.outside.wrong import WRONG

QUICK = {
    "canaries half as long",
    "three of four presentations lost",
    "all excluded canaries take part",
    "wrong sign",
    "coordinates reversed",
    "coins shuffled",
    "a score file of canaries that never came",
    "a log of files",
    "a loop",
    "pairs",
    "d = 10, signs",
    "one included canary",
    "float64 aggregates",
    "no rounds handed over",
}

OPEN: dict[str, str] = {}
"""Why some are judged wrongly, by name; a system that is judged rightly must not be listed."""


def _parameters(systems: Mapping[str, object]) -> list:
    return [
        pytest.param(
            name,
            marks=[
                *([] if name in QUICK else [pytest.mark.slow]),
                *([pytest.mark.xfail(reason=OPEN[name], strict=True)] if name in OPEN else []),
            ],
        )
        for name in systems
    ]


def _answer(system: System, folder: Path) -> Answer:
    """The answer for the statistic that proves most, where rounds are handed over."""
    arguments = system.write(folder)
    has_rounds = system.way != "scores" and system.listed(system) is not None
    statistic = ["--statistic", "own_rounds"] if has_rounds else []
    return ask([*arguments, *statistic, "--methods", "threshold_valid"])


@pytest.mark.parametrize("name", _parameters(WRONG))
def test_a_wrong_system_is_not_consistent(name, tmp_path):
    system = WRONG[name]()
    found = _answer(system, tmp_path / "audit")
    if found.outcome == "consistent":
        seen = math.inf if found.detectable is None else found.detectable
        assert system.truth_of_a_client() <= seen < math.inf, found.text


@pytest.mark.parametrize("name", _parameters(RIGHT))
def test_a_right_system_is_not_contradicted_nor_said_to_be_lost(name, tmp_path):
    found = _answer(RIGHT[name](), tmp_path / "audit")
    assert found.outcome in ("consistent", "inconclusive"), found.text
    assert found.arrival != "not_arrived", found.text


def test_quick_and_open_ones_are_in_the_tables():
    assert len(WRONG) >= 45
    assert len(RIGHT) >= 40
    assert {*QUICK, *OPEN} <= {*WRONG, *RIGHT}
    assert not WRONG.keys() & RIGHT.keys()
