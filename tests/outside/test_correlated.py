"""Checks of systems with correlated noise, by `fl-audit estimate` on what engineers hand over."""

import contextlib
import io
import json

import pytest

from fl_audit.cli import main
from tests.outside.correlated import RIGHT, WRONG

QUICK = {"four bands", "half the noise"}


def _parameters(systems) -> list:
    return [
        pytest.param(name, way, marks=[] if name in QUICK and way == "log" else [pytest.mark.slow])
        for name in systems
        for way in ("log", "loop")
    ]


def estimated(system, folder) -> dict:
    """What the command says of the folder that a system hands over."""
    arguments = system.write(folder)
    out = io.StringIO()
    asked = ["--delta=1e-3", "--claimed-epsilon=30", "--statistic=own_rounds", "--json"]
    with contextlib.redirect_stdout(out):
        main(["estimate", *arguments, *asked, "--methods=threshold_valid"])
    return json.loads(out.getvalue())


def failed(found: dict) -> set[str]:
    return {check["name"] for check in found["checks"]["results"] if not check["passed"]}


@pytest.mark.parametrize(("name", "way"), _parameters(WRONG))
def test_a_wrong_system_is_found(name, way, tmp_path):
    make, check = WRONG[name]
    found = estimated(make(way=way), tmp_path / "audit")
    assert check in failed(found)
    assert found["verdict"]["outcome"] != "consistent"


@pytest.mark.parametrize(("name", "way"), _parameters(RIGHT))
def test_a_right_system_passes(name, way, tmp_path):
    """Five checks of ten folders: 5e-5 by the bounds, seeds fixed."""
    found = estimated(RIGHT[name](way=way), tmp_path / "audit")
    assert failed(found) == set()
    assert found["checks"]["not_checked"] is None
    (enough,) = (c for c in found["checks"]["results"] if c["name"] == "enough_noise")
    assert enough["detectable_ratio"] > 0.9
