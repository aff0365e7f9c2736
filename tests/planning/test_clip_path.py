"""The clip norm's path against its rule by hand, and norms of sums against vectors."""

import dataclasses

import numpy as np
import pytest
from planned_runs import facts, planned, small_config

from fl_audit.accounting import Noise
from fl_audit.planning.simulation import Unknowns, simulate_clip_path

ADAPTIVE = {
    "kind": "gaussian_adaptive",
    "noise_multiplier": 0.0,
    "clip_norm": 2.0,
    "target_quantile": 0.3,
    "clip_learning_rate": 0.1,
}


def _path(changes, unknowns, trials=1, count_noise=0.0):
    run = planned(small_config(changes), count_noise=count_noise)
    return run, simulate_clip_path(run, unknowns, trials, np.random.default_rng(1))


def test_a_fixed_clip_norm_stays():
    _, path = _path({}, Unknowns(0.0, 0.0, 0.1, 10.0))
    assert np.all(path.clip_norm == 0.5)


def test_where_all_updates_are_longer_it_grows_by_the_rule():
    """b = 0: S grows by exp(0.1 x 0.3) a round."""
    run, path = _path({"mechanism": ADAPTIVE}, Unknowns(0.0, 0.0, 1e6, 1e6))
    assert path.clip_norm[0] == pytest.approx(2.0 * np.exp(0.03 * np.arange(12)))
    assert path.real_norm[0] == pytest.approx(np.sqrt(run.clients))


def test_where_all_are_shorter_canaries_still_count_as_clipped():
    """b = n / (n + m) without noise: the average over who was there."""
    run, path = _path({"mechanism": ADAPTIVE}, Unknowns(0.0, 0.0, 1e-9, 1e-9))
    share = run.clients / (run.clients + run.canaries)
    steps = np.concatenate([[0], np.cumsum(share - 0.3)[:-1]])
    assert run.canaries.sum() > 0
    assert path.clip_norm[0] == pytest.approx(2.0 * np.exp(-0.1 * steps))


def test_with_noise_the_share_is_over_the_expected_cohort():
    """b = 1/2 + (n/2 - m/2) / E, as counts are of +1/2 and -1/2; noise of the count's size."""
    noisy = {**ADAPTIVE, "noise_multiplier": 0.1}
    run, path = _path({"mechanism": noisy}, Unknowns(0.0, 0.0, 1e-9, 1e-9), 20_000, 0.5)
    expected = run.schedule.expected_cohort
    share = 0.5 + (run.clients[0] - run.canaries[0]) / (2 * expected)
    steps = -np.log(path.clip_norm[:, 1] / 2.0) / 0.1 + 0.3
    assert np.mean(steps) == pytest.approx(share, abs=6 * 0.5 / expected / np.sqrt(20_000))
    assert np.std(steps) == pytest.approx(0.5 / expected, rel=6 / np.sqrt(40_000))


def test_it_settles_at_the_quantile_that_canaries_leave():
    """Real updates of median 1, log-normal: the share below is gamma (n + m) / n."""
    changes = {
        "mechanism": {**ADAPTIVE, "clip_learning_rate": 0.2},
        "participation": {"kind": "every_round", "rounds": 150},
    }
    config = small_config(changes)
    run = planned(config, facts(num_clients=400))
    path = simulate_clip_path(run, Unknowns(0.0, 0.0, 0.5, 0.5), 4, np.random.default_rng(1))
    quantile = 0.3 * (run.clients[0] + run.canaries[0]) / run.clients[0]
    from scipy import stats

    settled = np.exp(0.5 * stats.norm.ppf(quantile))
    assert path.clip_norm[:, -1] == pytest.approx(np.full(4, settled), rel=0.05)


@pytest.mark.parametrize(("alignment", "expected"), [(0.0, 1.0), (1.0, np.sqrt(40.0))])
def test_sums_of_orthogonal_and_of_parallel_updates(alignment, expected):
    """40 clients of length 1: sqrt(40) and 40."""
    changes = {"participation": {"kind": "every_round", "rounds": 1}}
    _, path = _path(changes, Unknowns(alignment, 0.0, 1e6, 1e6))
    assert path.real_norm[0, 0] == pytest.approx(expected * np.sqrt(40.0))


def test_many_clients_are_stood_for_by_a_thousand():
    changes = {"participation": {"kind": "every_round", "rounds": 2}}
    run = planned(small_config(changes), facts(num_clients=5_000))
    few = simulate_clip_path(run, Unknowns(0.0, 0.0, 1e6, 1e6), 1, np.random.default_rng(1))
    assert few.real_norm[0] == pytest.approx(np.sqrt([5_000.0] * 2))


def test_momentum_weights():
    """By hand: the aggregate of the last round once, of the one before 1 + b times."""
    run = planned(small_config({"server": {"momentum": 0.5, "learning_rate": 2.0}}))
    weights = run.round_weights(run.server)
    assert weights[-3:] == pytest.approx([2 * 1.75, 2 * 1.5, 2 * 1.0])


def test_noise_that_is_not_added_leaves_the_clip_rule_alone():
    """A fault on the sum alone: the path is that of the config."""
    changes = {"mechanism": {**ADAPTIVE, "noise_multiplier": 0.1}}
    run = planned(small_config(changes), count_noise=0.5)
    faulty = dataclasses.replace(run, noise=Noise("gaussian", 0.1, 0.0, 0.5))
    unknowns = Unknowns(0.1, 0.1, 1.0, 1.0)
    paths = [simulate_clip_path(r, unknowns, 2, np.random.default_rng(1)) for r in (run, faulty)]
    assert np.array_equal(paths[0].clip_norm, paths[1].clip_norm)
