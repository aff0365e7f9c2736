"""The distribution of planned scores against runs with real vectors in d dimensions."""

import dataclasses

import numpy as np
import pytest
from planned_runs import facts, planned, small_config

from fl_audit.accounting import Noise
from fl_audit.accounting.noise_distributions import noise_on_sum
from fl_audit.accounting.tree_nodes import Trees
from fl_audit.config import ServerSgd
from fl_audit.errors import InputError
from fl_audit.planning.predicted_background import (
    MIDDLE,
    ClipPath,
    Unknowns,
    predicted_background,
    simulate_clip_path,
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
    cosines, directions = [], np.zeros(dim)
    for t in range(run.num_rounds):
        sums = real[t] + pool[run.canary[run.round == t]].sum(0)
        sums += z[t] * random.standard_normal(dim)
        aggregate = path.clip_norm[trial, t] * sums / run.schedule.expected_cohort
        momentum = run.server.momentum * momentum + aggregate
        model += run.server.learning_rate * momentum
        norm = np.linalg.norm(aggregate)
        if norm > 0:
            directions += aggregate / norm
            cosines.append(pool @ aggregate / norm)
    change = model - initial
    return {
        "final": pool @ model / np.linalg.norm(model),
        "final_minus_initial": pool @ change / np.linalg.norm(change),
        "max": np.max(cosines, axis=0),
        "sum": pool @ directions / np.linalg.norm(directions),
    }


def planned_path(run, unknowns) -> ClipPath:
    """The path of a plan, which draws its own chance from one seed."""
    return simulate_clip_path(run, unknowns, 1, np.random.default_rng(20_230_206))


def _moments(scores):
    """Mean, mean square about 0 and deviation of one group of one trial."""
    return np.mean(scores), np.mean(scores**2), np.std(scores)


def _compare(run, unknowns, by_vectors=None):
    """Moments of both simulations, as numbers of standard errors that they are apart.

    `by_vectors` is what vectors are drawn for, where it is another run.
    """
    random = np.random.default_rng(7)
    path = planned_path(run, unknowns)
    background = predicted_background(run, unknowns)
    exposures = {name: background.exposure(name) for name in STATISTICS}
    lengths, num_excluded = np.ones(int(run.included.sum())), int((~run.included).sum())
    found = {}
    for _ in range(TRIALS):
        vectors = _by_vectors(by_vectors or run, unknowns, path, 0, random)
        for name, exposure in exposures.items():
            drawn = exposure.scores(exposure.draw(num_excluded, random), exposure.at(1.0, lengths))
            for group, members in enumerate((run.included, ~run.included)):
                pair = found.setdefault((name, group), ([], []))
                pair[0].append(_moments(vectors[name][members]))
                pair[1].append(_moments(drawn[group]))
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


@pytest.mark.sampled(3)
@pytest.mark.parametrize("case", CASES)
def test_scores_have_the_moments_of_those_of_vectors(case):
    """168 comparisons at 6 standard errors: by chance one fails with probability below 1e-6."""
    changes, unknowns = CASES[case]
    apart = _compare(planned(small_config(changes)), unknowns)
    worst = {key: np.round(values, 1) for key, values in apart.items() if max(abs(values)) > 6}
    assert not worst


@pytest.mark.sampled(1)
@pytest.mark.parametrize("repeats", [1, 3])
def test_scores_of_uploads_have_the_moments_of_those_of_vectors(repeats):
    """Within five standard errors of 100 trials: a false alarm in 12 numbers has chance 7e-6."""
    mechanism = {"kind": "client_gaussian", "noise_multiplier": 0.1, "clip_norm": 0.5}
    run = planned(
        small_config({"mechanism": mechanism, "participation": {"canary_repeats": repeats}}),
        facts(dim=10_000),
    )
    exposure = predicted_background(run, MIDDLE).exposure("one_upload")
    lengths, num_excluded = np.ones(exposure.num_included), int((~run.included).sum())
    random = np.random.default_rng(7)
    found = [([], []), ([], [])]
    for _ in range(TRIALS):
        pool = random.standard_normal((run.num_canaries, run.task.dim))
        pool /= np.linalg.norm(pool, axis=1, keepdims=True)
        uploads = 0.1 * random.standard_normal((repeats, *pool.shape))
        uploads += pool * run.included[:, None]
        total = (uploads / np.linalg.norm(uploads, axis=2, keepdims=True)).sum(0)
        vectors = np.sum(pool * total, axis=1) / np.linalg.norm(total, axis=1)
        drawn = exposure.scores(exposure.draw(num_excluded, random), exposure.at(1.0, lengths))
        for group, members in enumerate((run.included, ~run.included)):
            found[group][0].append(_moments(vectors[members]))
            found[group][1].append(_moments(drawn[group]))
    for vectors, distribution in found:
        a, b = np.array(vectors), np.array(distribution)
        error = np.sqrt((a.var(0) + b.var(0)) / TRIALS)
        assert np.abs((a.mean(0) - b.mean(0)) / error).max() < 5


def _tree_noise(trees, z, dim, random):
    """The noise of each round: differences of sums of nodes' estimates (Honaker 2015)."""
    estimates, rounds = {}, []

    def estimate(first, height):
        """A node's estimate from its own noise and its children's, and its variance."""
        if (first, height) not in estimates:
            found, variance = z * random.standard_normal(dim), 1.0
            if height:
                halves = (first, first + (1 << height - 1))
                (left, below), (right, _) = (estimate(half, height - 1) for half in halves)
                variance = 1 / (1 + 1 / (2 * below))
                found = variance * found + (1 - variance) * (left + right)
            estimates[first, height] = found, variance
        return estimates[first, height]

    for start in range(0, trees.num_rounds, trees.period):
        before = np.zeros(dim)
        for end in range(start + 1, min(start + trees.period, trees.num_rounds) + 1):
            first, total = start, np.zeros(dim)
            while first < end:
                height = (end - first).bit_length() - 1
                total = total + estimate(first, height)[0]
                first += 1 << height
            rounds.append(total - before)
            before = total
    return np.array(rounds)


def _matrix_noise(column, z, shape, random):
    strategy = sum(np.diag(np.full(shape[0] - lag, c), -lag) for lag, c in enumerate(column))
    return np.linalg.solve(strategy, z * random.standard_normal(shape))


@pytest.mark.sampled(2)
@pytest.mark.parametrize("pattern", ["shuffle", "balls_in_bins"])
@pytest.mark.parametrize(
    "mechanism",
    [
        {"kind": "matrix_factorisation", "strategy": "sqrt"},
        {"kind": "tree_aggregation"},
        {"kind": "tree_aggregation", "restart_every": 5},
    ],
)
def test_own_rounds_under_correlated_noise_are_those_of_vectors(mechanism, pattern):
    """Mean scores of included canaries differ by less than 5 standard errors: chance 6e-7."""
    changes = {
        "mechanism": {**mechanism, "noise_multiplier": 0.6, "clip_norm": 0.5},
        "participation": {"kind": pattern, "rounds": 12, "clients_per_round": 6},
    }
    run, z, random = planned(small_config(changes), facts(dim=1000)), 0.6, np.random.default_rng(3)
    path, exposure = planned_path(run, MIDDLE), predicted_background(run, MIDDLE)
    exposure = exposure.exposure("own_rounds")
    presences = np.zeros((run.num_canaries, run.num_rounds))
    for canary, own in enumerate(run.own_rounds.of_canary):
        presences[canary, own] = 1
    correlation = run.release.correlation
    weights, shape = correlation.weights(presences), (run.num_rounds, run.task.dim)
    found, drawn = [], []
    for _ in range(40):
        pool = random.standard_normal((run.num_canaries, run.task.dim))
        pool /= np.linalg.norm(pool, axis=1, keepdims=True)
        sums = _real_sums(run, MIDDLE, path, 0, random)
        if isinstance(correlation, Trees):
            sums += _tree_noise(correlation, z, run.task.dim, random)
        else:
            sums += _matrix_noise(correlation.first_column, z, shape, random)
        np.add.at(sums, run.round, pool[run.canary])
        compared = (weights @ sums)[run.included]
        cosines = np.sum(pool[run.included] * compared, 1) / np.linalg.norm(compared, axis=1)
        found.append(np.mean(cosines))
        lengths = np.ones(exposure.num_included)
        drawn.append(
            np.mean(exposure.scores(exposure.draw(1, random), exposure.at(1.0, lengths))[0])
        )
    error = np.hypot(np.std(found), np.std(drawn)) / 40**0.5
    assert abs(np.mean(found) - np.mean(drawn)) < 5 * error


@pytest.mark.slow
def test_the_comparison_finds_a_wrong_law():
    """Otherwise the test above could not fail: 10 % less noise is seen."""
    run = planned(small_config())
    less = Noise("gaussian", 0.18, 0.18)
    apart = _compare(dataclasses.replace(run, noise=less), MIDDLE, by_vectors=run)
    assert max(abs(values).max() for values in apart.values()) > 6


def test_without_anything_in_any_round_nothing_is_planned():
    config = small_config({"mechanism": {"noise_multiplier": 0.0}})
    empty = np.zeros(0, int)
    nothing = {"clients": np.zeros(12, int), "canary": empty, "round": empty}
    run = dataclasses.replace(planned(config), **nothing)
    with pytest.raises(InputError, match="no round has a client, a canary or noise"):
        predicted_background(run, MIDDLE)


def test_a_server_that_adapts_leaves_the_models_out():
    run = dataclasses.replace(planned(small_config()), server=None)
    background = predicted_background(run, MIDDLE)
    found = [name for name in STATISTICS if background.exposure(name) is not None]
    assert found == ["max", "sum"]


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
    weights = ServerSgd(momentum=0.5, learning_rate=2.0).weights_in_model(3)
    assert weights == pytest.approx([2 * 1.75, 2 * 1.5, 2 * 1.0])


def test_noise_that_is_not_added_leaves_the_clip_rule_alone():
    """A fault on the sum alone: the path is that of the config."""
    changes = {"mechanism": {**ADAPTIVE, "noise_multiplier": 0.1}}
    run = planned(small_config(changes), count_noise=0.5)
    faulty = dataclasses.replace(run, noise=Noise("gaussian", 0.1, 0.0, 0.5))
    unknowns = Unknowns(0.1, 0.1, 1.0, 1.0)
    paths = [simulate_clip_path(r, unknowns, 2, np.random.default_rng(1)) for r in (run, faulty)]
    assert np.array_equal(paths[0].clip_norm, paths[1].clip_norm)
