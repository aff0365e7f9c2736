"""The experiment on correlated noise: its two scenes are what they say, and so are its runs."""

import math
from pathlib import Path

import numpy as np
import pytest

from experiments.production import patterns_and_mechanisms as experiment
from experiments.production.simulated import (
    prefix_error,
    presences,
    random_directions,
    simulate,
)


@pytest.mark.parametrize("mechanism", experiment.MECHANISMS)
def test_errors_are_equal_at_equal_utility(mechanism):
    utility, _ = experiment.SCENES
    noise = experiment.noise_of(utility, "min_separation", mechanism)
    run = experiment.designed("min_separation", mechanism, noise, 1)
    rounds = np.arange(1, experiment.ROUNDS + 1)
    assert prefix_error(run) == pytest.approx(math.sqrt(rounds.mean()), rel=1e-9)


@pytest.mark.parametrize("mechanism", experiment.MECHANISMS)
def test_upper_bounds_are_equal_at_equal_epsilon(mechanism):
    _, epsilon = experiment.SCENES
    noise = experiment.noise_of(epsilon, "min_separation", mechanism)
    run = experiment.designed("min_separation", mechanism, noise, 1)
    assert experiment.upper_bounds(run)[0] == pytest.approx(experiment.EPSILON, rel=1e-3)


@pytest.mark.parametrize("mechanism", ["independent", "blt 3", "tree"])
def test_canaries_stand_where_the_noise_lets_them(mechanism):
    run = experiment.designed("min_separation", mechanism, 4.0, 1)
    vectors = random_directions(1, experiment.CANARIES, experiment.DIM)
    scores = simulate(run, vectors, experiment.COHORT, 1, presences(run))
    standard = scores.whitened * math.sqrt(experiment.DIM)
    excluded = standard[~run.included]
    apart = standard[run.included] - scores.allowed[run.included]
    # Means of over 200 normals have a standard error below 1 / 14; six of them fail once in 5e8.
    assert abs(excluded.mean()) < 6 / 14
    assert abs(apart.mean()) < 6 / 14
    assert 0.8 < excluded.std() < 1.2  # 1 within 4 standard errors of 1 / 20


def test_the_page_has_the_tables_numbers():
    folder = Path(experiment.__file__).parent
    page = (folder / "README.md").read_text()
    cells = experiment.read(folder / "patterns_and_mechanisms.csv")
    assert len(cells) == 2 * len(experiment.PATTERNS) * len(experiment.MECHANISMS)
    for one in cells:
        if one.lower is not None:
            lower, least, most = one.lower, one.lower_least, one.lower_most
            assert f"/ {lower:.3g} ({least:.3g} to {most:.3g}) / {one.estimate:.3g} |" in page
        if one.upper_secret is not None and one.upper_secret != one.upper_known:
            assert f"; secret {one.upper_secret:.3g} / {one.lower:.3g} (" in page


def test_the_table_and_the_picture_are_written(tmp_path):
    cells = [
        experiment.cell(experiment.SCENES[0], "min_separation", mechanism, [1])
        for mechanism in ("independent", "bands 32")
    ]
    experiment.write(cells, tmp_path / "table.csv")
    experiment.draw(cells, tmp_path / "picture.png")
    again = experiment.read(tmp_path / "table.csv")
    assert [one.upper_known for one in again] == pytest.approx([12.07, 3.744], rel=1e-3)
    assert [one.lower for one in again] == pytest.approx([one.lower for one in cells], rel=1e-3)
    assert (tmp_path / "picture.png").stat().st_size > 10_000
