"""The stand-in for Stack Overflow is read as TFF's file is, and all sweeps of experiments/ are."""

from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from experiments.stackoverflow import predicted, stand_in
from fl_audit.config import StackOverflowTask
from fl_audit.sweeps import read_grid
from fl_audit.tasks import load_task

_EXPERIMENTS = Path(__file__).parents[2] / "experiments"
_SWEEPS = sorted(path for path in _EXPERIMENTS.rglob("*.toml") if "\nbase = " in path.read_text())


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("stand_in")
    stand_in.write(path, clients=100, fewer=20.0, seed=1)
    return path


def test_the_stand_in_is_read_as_the_data(folder):
    config = StackOverflowTask(
        path=str(folder / "stackoverflow.sqlite"),
        word_counts=str(folder / "stackoverflow.word_count"),
        vocabulary_size=50,
        embedding_size=2,
        lstm_size=3,
    )
    task = load_task(config, 1)
    assert len(task.population.client_ids) == 100
    assert task.population.num_examples(0) == len(task.population.examples(0))
    words = task.population.examples(0).labels
    known = np.mean(words[words > 0] <= 50)
    assert 0.1 < known < 0.9  # Zipf's law: fifty words are a good part of a text, and not all


@pytest.mark.parametrize("split", stand_in.SPLITS, ids=lambda split: split.name)
def test_sentences_per_client_have_the_published_mean_before_they_are_cut(split):
    """The median of the Pareto law with that mean; six standard errors, so 2e-9 by chance."""
    count, mean = 100_000, split.sentences / split.clients
    shape = mean / (mean - split.fewest)
    assert shape / (shape - 1) * split.fewest == pytest.approx(mean)
    median = split.fewest * 2 ** (1 / shape)
    drawn = stand_in.sentences_per_client(split, count, np.random.default_rng(1))
    standard_error = 0.5 / np.sqrt(count) / (shape * 0.5 / median)
    assert abs(np.median(drawn) - median) < 6 * standard_error


@pytest.mark.parametrize("path", _SWEEPS, ids=lambda path: str(path.relative_to(_EXPERIMENTS)))
def test_every_sweep_describes_runs(path):
    assert len(read_grid(path)) >= 2


def test_the_second_simulation_of_table_3_is_no_copy_of_the_plans():
    perfect = predicted.jeffreys_bound(np.full(1000, 9.0), np.zeros(1000))
    # All observed and no unobserved canary above: Beta quantiles of 1000.5 and 0.5, 0.5 and 1000.5.
    least, most = stats.beta.ppf(0.05, 1000.5, 0.5), stats.beta.ppf(0.95, 0.5, 1000.5)
    assert perfect == pytest.approx(np.log((least - 341_000**-1.1) / most))
    assert perfect == pytest.approx(6.25, abs=0.01)  # the paper prints 6.24 without noise
    weak = predicted.second_simulation(0.2344, np.random.default_rng(1))
    assert 3.0 < weak < 5.5  # the paper prints 0.177
