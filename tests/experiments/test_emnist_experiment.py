"""The stand-in for EMNIST is read as TFF's file is."""

import json

import numpy as np
import pytest
from experiment_pages import ROOT, page_rows, run_config

from experiments.emnist import stand_in
from fl_audit.config import EmnistTask
from fl_audit.tasks import load_task


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("emnist")
    stand_in.write(path, writers=10, fewer=20.0, seed=1)
    return path


def test_the_stand_in_is_read_as_the_data(folder):
    task = load_task(EmnistTask(path=str(folder / "emnist_all.sqlite")), 1)
    population = task.population
    assert population.client_ids == [f"f{writer:04d}_00" for writer in range(10)]
    examples = population.examples(3)
    assert len(examples) == population.num_examples(3)
    assert examples.inputs.shape[1:] == (28, 28, 1)
    assert 0 <= examples.labels.min() <= examples.labels.max() < stand_in.CLASSES
    assert 0 <= examples.inputs.min() < 0.1  # ink
    assert np.mean(examples.inputs > 0.9) > 0.5  # on paper


STATISTICS = ("final", "final_minus_initial", "max", "own_rounds")
"""The rows of each noise multiplier, whose second bound is shift_fit's."""


@pytest.mark.slow
@pytest.mark.tff
def test_rows_of_the_table_without_noise(tmp_path):
    """Training goes on from the rounding of its sums, which differs between processors.

    Two estimates of one error differ by 5 sqrt(2) of it in 6e-7 of runs; an interval is 3.92 of it
    wide.
    """
    stand_in.write(tmp_path, writers=300, fewer=8.0, seed=1)
    settings = [f"task.path={tmp_path / 'emnist_all.sqlite'}", "mechanism.noise_multiplier=0"]
    run_config(ROOT / "experiments/emnist/small.toml", tmp_path / "run", settings)
    report = json.loads((tmp_path / "run/report.json").read_text())
    rows = page_rows("emnist")
    start = next(at for at, row in enumerate(rows) if len(row) == 6 and row[0] == "0")
    for row, statistic in zip(rows[start:], STATISTICS, strict=False):
        (fit,) = (
            one
            for one in report["statistics"][statistic]["estimates"]
            if one["method"] == "shift_fit"
        )
        error = (fit["upper"] - fit["lower"]) / 3.92
        assert abs(fit["epsilon"] - float(row[3].replace(",", ""))) < 5 * 2**0.5 * error
