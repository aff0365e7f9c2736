"""Published settings have their published guarantees, to the last printed digit."""

import json
import tomllib
from pathlib import Path

import numpy as np
import pytest

from fl_audit.cli import main

ROOT = Path(__file__).parents[2]
PUBLISHED = tomllib.loads((ROOT / "experiments/production/published.toml").read_text())["setting"]


@pytest.mark.parametrize(
    "setting",
    [
        pytest.param(
            one, id=one["name"], marks=pytest.mark.slow if "Poisson" in one["name"] else ()
        )
        for one in PUBLISHED
    ],
)
def test_account_prints_what_the_source_prints(setting, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(ROOT)
    options = setting["account"]
    if "decays" in setting:
        column = tmp_path / "column.npy"
        np.save(column, blt_column(setting["decays"], setting["scales"], 100))
        options = options.replace("BLT", str(column))
    assert main(["account", *options.split(), "--json"]) == 0
    client = json.loads(capsys.readouterr().out)["client"]
    found = {**client, **client["by_accountant"]}
    for key, printed in setting["printed"].items():
        digits = len(printed.partition(".")[2])
        assert f"{found[key]:.{digits}f}" == printed, key


def blt_column(decays, scales, rounds):
    """The first column of a buffered linear Toeplitz matrix (Dvijotham et al. 2024, 2404.16706)."""
    powers = np.array(decays) ** np.arange(rounds - 1)[:, None]
    return np.concatenate([[1.0], powers @ np.array(scales)])
