"""Figures 1 and 2 of Andrew et al. (2023), from the folders of a sweep."""

import shutil
from pathlib import Path

import numpy as np
import pytest

from experiments.stackoverflow import figures
from experiments.stackoverflow.figures import Setting
from fl_audit.errors import InputError

RUNS = Path(__file__).parents[1] / "recorded" / "inputs" / "runs"


@pytest.fixture
def sweep(tmp_path):
    """A sweep of two runs that differ by their seed, and one without noise on its way."""
    for name in ("noisy", "noisy_again"):
        folder = tmp_path / "runs" / name
        shutil.copytree(RUNS / name, folder)
        rows = [f"{canary},{canary % 2},{canary % 4 + 1}" for canary in range(80)]
        text = "\n".join(["canary_id,included,rounds", *rows]) + "\n"
        (folder / "canaries.csv").write_text(text)
    (tmp_path / "runs" / "begun").mkdir()
    return tmp_path


def test_runs_that_differ_by_their_seed_are_one_setting(sweep):
    settings = figures.read_settings(sweep)
    assert {noise: list(of_noise) for noise, of_noise in settings.items()} == {0.5: [1.0]}
    assert len(settings[0.5][1.0].cosines) == 37 + 33  # the included ones of both
    assert settings[0.5][1.0].dim == 610


def test_without_a_finished_run_one_line_says_so(tmp_path):
    with pytest.raises(InputError, match="has no finished run with canaries"):
        figures.read_settings(tmp_path)


def test_the_papers_numbers_stand_beside_ours(tmp_path):
    rng = np.random.default_rng(1)
    settings = {
        noise: {
            number: Setting(rng.normal(number * 1e-3, 1e-3, 50), 10**6, number / 2, number / 3)
            for number in (1, 4.9, 10)
        }
        for noise in (0.0, 0.1023, 0.3)
    }
    rows = figures.table(settings)
    assert rows[2].startswith("| 0 | 1 | 0.5 | 5.49 | 0.333 | 3.91 | ")
    assert rows[2].endswith(" | 0.464 |")
    assert rows[3].startswith("| 0 | 4.9 | 2.45 |  | 1.63 |  | ")
    assert rows[3].endswith(" |  |")
    assert rows[7].endswith(" | 0.116 |")
    assert rows[8].startswith("| 0.3 | 1 | 0.5 |  | ")
    figures.draw(settings, tmp_path / "figures.png")
    assert (tmp_path / "figures.png").stat().st_size > 10_000
