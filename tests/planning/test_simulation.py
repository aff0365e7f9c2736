"""The law of scores against runs with real vectors in d dimensions."""

import dataclasses

import numpy as np
import pytest
from planned_runs import facts, planned, small_config

from fl_audit.accounting import Noise
from fl_audit.accounting.noise_distributions import noise_on_sum
from fl_audit.canaries.families import HadamardFamily
from fl_audit.planning.simulation import (
    MIDDLE,
    TrialScores,
    Unknowns,
    draw_rounds,
    draw_scores,
    simulate_clip_path,
    with_uploads,
)

TRIALS = 100
STATISTICS = ("final", "final_minus_initial", "max", "sum")


def _real_sums(run, unknowns, path, trial, random):
    """[rounds, d] sums of real updates with the norms and the drift that are asked for."""
    common = random.standard_normal(run.task.dim)
    own = random.standard_normal((run.num_rounds, run.task.dim))
    common /= np.linalg.norm(common)
    own -= (own @ common)[:, None] * common
    own /= np.linalg.norm(own, axis=1, keepdims=True)
    direction = np.sqrt(unknowns.drift) * common + np.sqrt(1 - unknowns.drift) * own
    return path.real_norm[trial][:, None] * direction


def _by_vectors(run, unknowns, path, trial, random):
    """Scores by statistic of a run with one vector a canary, a round a loop, as training has it."""
    dim, z = run.task.dim, noise_on_sum(run.noise, run.canaries + run.clients)
    pool = random.standard_normal((run.num_canaries, dim))
    pool /= np.linalg.norm(pool, axis=1, keepdims=True)
    initial = random.standard_normal(dim)
    initial *= run.task.initial_norm / np.linalg.norm(initial)
    model, momentum = initial.copy(), np.zeros(dim)
    real = _real_sums(run, unknowns, path, trial, random)
    cosines = []
    for t in range(run.num_rounds):
        total = real[t] + pool[run.canary[run.round == t]].sum(0)
        total += z[t] * random.standard_normal(dim)
        aggregate = path.clip_norm[trial, t] * total / run.schedule.expected_cohort
        momentum = run.server.momentum * momentum + aggregate
        model += run.server.learning_rate * momentum
        norm = np.linalg.norm(aggregate)
        cosines.append(pool @ aggregate / norm if norm > 0 else np.zeros(len(pool)))
    change = model - initial
    return {
        "final": pool @ model / np.linalg.norm(model),
        "final_minus_initial": pool @ change / np.linalg.norm(change),
        "max": np.max(cosines, axis=0),
        "sum": np.sum(cosines, axis=0),
    }


def _moments(scores):
    """Mean, mean square about 0 and deviation of one group of one trial."""
    return np.mean(scores), np.mean(scores**2), np.std(scores)


def _compare(run, unknowns, by_vectors=None):
    """Moments of both simulations, as numbers of standard errors that they are apart.

    `by_vectors` is what vectors are drawn for, where it is another run.
    """
    random = np.random.default_rng(7)
    path = simulate_clip_path(run, unknowns, TRIALS, random)
    found = {}
    for trial in range(TRIALS):
        vectors = _by_vectors(by_vectors or run, unknowns, path, trial, random)
        rounds = draw_rounds(run, path, trial, random)
        distribution = draw_scores(run, unknowns, rounds, random).scores
        for name in STATISTICS:
            for group, members in (("included", run.included), ("excluded", ~run.included)):
                pair = found.setdefault((name, group), ([], []))
                pair[0].append(_moments(vectors[name][members]))
                pair[1].append(_moments(getattr(distribution[name], group)))
    apart = {}
    for key, (vectors, distribution) in found.items():
        a, b = np.array(vectors), np.array(distribution)
        error = np.sqrt((a.var(0) + b.var(0)) / TRIALS)
        apart[key] = (a.mean(0) - b.mean(0)) / error
    return apart


CASES = {
    "noise": ({}, MIDDLE),
    "no noise, orthogonal clients": (
        {"mechanism": {"noise_multiplier": 0.0}},
        Unknowns(0.0, 0.0, 1.0, 1.0),
    ),
    "no noise, parallel clients, one direction": (
        {"mechanism": {"noise_multiplier": 0.0}},
        Unknowns(1.0, 1.0, 1.0, 1.0),
    ),
    "momentum, adaptive clip": (
        {
            "server": {"momentum": 0.8, "learning_rate": 0.5},
            "mechanism": {
                "kind": "gaussian_adaptive",
                "noise_multiplier": 0.2,
                "clip_norm": 0.5,
            },
        },
        Unknowns(0.3, 0.5, 3.0, 0.3),
    ),
    "noise at the client": (
        {"mechanism": {"kind": "client_gaussian", "noise_multiplier": 0.1, "clip_norm": 0.5}},
        MIDDLE,
    ),
    "repeats": ({"participation": {"canary_repeats": 4}}, MIDDLE),
    "every round": ({"participation": {"kind": "every_round", "rounds": 12}}, MIDDLE),
    "Poisson sampling": (
        {"participation": {"kind": "bernoulli", "rounds": 12, "clients_per_round": 6}},
        Unknowns(0.5, 0.0, 1.0, 1.0),
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_scores_have_the_moments_of_those_of_vectors(case):
    """168 comparisons at 6 standard errors: by chance one fails with probability below 1e-6."""
    changes, unknowns = CASES[case]
    apart = _compare(planned(small_config(changes)), unknowns)
    worst = {key: np.round(values, 1) for key, values in apart.items() if max(abs(values)) > 6}
    assert not worst


@pytest.mark.parametrize("repeats", [1, 3])
def test_scores_of_uploads_have_the_moments_of_those_of_vectors(repeats):
    """Within five standard errors of 100 trials: a false alarm in 12 numbers has chance 7e-6."""
    mechanism = {"kind": "client_gaussian", "noise_multiplier": 0.1, "clip_norm": 0.5}
    run = planned(
        small_config({"mechanism": mechanism, "participation": {"canary_repeats": repeats}})
    )
    random = np.random.default_rng(7)
    found = {group: ([], []) for group in ("included", "excluded")}
    for _ in range(TRIALS):
        pool = random.standard_normal((run.num_canaries, run.task.dim))
        pool /= np.linalg.norm(pool, axis=1, keepdims=True)
        uploads = 0.1 * random.standard_normal((repeats, *pool.shape))
        uploads += pool * run.included[:, None]
        total = (uploads / np.linalg.norm(uploads, axis=2, keepdims=True)).sum(0)
        vectors = np.sum(pool * total, axis=1) / np.linalg.norm(total, axis=1)
        distribution = with_uploads(TrialScores({}, {}), run, random).scores["one_upload"]
        for group, members in (("included", run.included), ("excluded", ~run.included)):
            found[group][0].append(_moments(vectors[members]))
            found[group][1].append(_moments(getattr(distribution, group)))
    for vectors, distribution in found.values():
        a, b = np.array(vectors), np.array(distribution)
        error = np.sqrt((a.var(0) + b.var(0)) / TRIALS)
        assert np.abs((a.mean(0) - b.mean(0)) / error).max() < 5


def test_the_comparison_finds_a_wrong_law():
    """Otherwise the test above could not fail: 10 % less noise is seen."""
    run = planned(small_config())
    less = Noise("gaussian", 0.2, 0.18)
    apart = _compare(dataclasses.replace(run, noise=less), MIDDLE, by_vectors=run)
    assert max(abs(values).max() for values in apart.values()) > 6


def test_hadamard_canaries_talk_less_across():
    """Variance of inner products times d; 780 pairs give it to 5 %, and 6 of that are allowed."""
    config = small_config({"canaries": {"family": "hadamard"}})
    run = planned(config, facts(dim=100_000))
    family = HadamardFamily(1, 40, 100_000)
    products = np.concatenate([family.inner_products(family.vector(j))[:j] for j in range(1, 40)])
    assert run.canary_correlation == pytest.approx(1 - 100_000 / 131_072)
    measured = 100_000 * np.mean(products**2)
    assert measured == pytest.approx(run.canary_correlation, rel=6 * np.sqrt(2 / len(products)))


def test_without_anything_in_a_round_its_cosines_are_0():
    """Nobody and no noise: the aggregate is 0, as a run scores it."""
    config = small_config(
        {
            "mechanism": {"noise_multiplier": 0.0},
            "participation": {"kind": "bernoulli", "rounds": 3, "clients_per_round": 1},
            "canaries": {"count": 2},
        },
        seed=3,
    )
    run = planned(config, facts(num_clients=40_000))
    run = dataclasses.replace(
        run, clients=np.zeros(3, int), canary=np.zeros(0, int), round=np.zeros(0, int)
    )
    random = np.random.default_rng(0)
    path = simulate_clip_path(run, MIDDLE, 1, random)
    scores = draw_scores(run, MIDDLE, draw_rounds(run, path, 0, random), random).scores
    for name in ("max", "sum", "final_minus_initial"):
        assert np.all(scores[name].included == 0)


def test_a_server_that_adapts_leaves_the_models_out():
    run = dataclasses.replace(planned(small_config()), server=None)
    random = np.random.default_rng(0)
    path = simulate_clip_path(run, MIDDLE, 1, random)
    drawn = draw_scores(run, MIDDLE, draw_rounds(run, path, 0, random), random)
    assert set(drawn.scores) == {"max", "sum"}


def test_the_length_of_the_sum_is_what_excluded_scores_deviate_by():
    """Over trials, an excluded canary's sum is |U| / sqrt(d) times a standard normal number."""
    run, trials = planned(small_config({"canaries": {"count": 200}})), 30
    random = np.random.default_rng(5)
    path = simulate_clip_path(run, MIDDLE, trials, random)
    squares = []
    for trial in range(trials):
        drawn = draw_scores(run, MIDDLE, draw_rounds(run, path, trial, random), random)
        assert drawn.compared["max"].vectors[0].count == run.num_rounds
        deviation = drawn.compared["sum"].scale / run.task.dim**0.5
        squares.extend((drawn.scores["sum"].excluded / deviation) ** 2)
    # Chi-square numbers of one degree: six standard errors of their mean.
    assert abs(np.mean(squares) - 1) < 6 * (2 / len(squares)) ** 0.5


# The clip norm's path against its rule by hand, and norms of sums against vectors.


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
