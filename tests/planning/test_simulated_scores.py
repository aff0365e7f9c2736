"""The law of scores against runs with real vectors in d dimensions."""

import dataclasses

import numpy as np
import pytest
from planned_runs import facts, planned, small_config

from fl_audit.accounting import Noise
from fl_audit.canaries.families import HadamardFamily
from fl_audit.planning.simulation import (
    MIDDLE,
    Unknowns,
    draw_rounds,
    draw_scores,
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
    dim, z = run.task.dim, run.noise.sum_noise_multiplier
    pool = random.standard_normal((run.num_canaries, dim))
    pool /= np.linalg.norm(pool, axis=1, keepdims=True)
    initial = random.standard_normal(dim)
    initial *= run.task.initial_norm / np.linalg.norm(initial)
    model, momentum = initial.copy(), np.zeros(dim)
    real = _real_sums(run, unknowns, path, trial, random)
    cosines = []
    for t in range(run.num_rounds):
        total = real[t] + pool[run.canary[run.round == t]].sum(0) + z * random.standard_normal(dim)
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
        law = draw_scores(run, unknowns, rounds, random).scores
        for name in STATISTICS:
            for group, members in (("included", run.included), ("excluded", ~run.included)):
                pair = found.setdefault((name, group), ([], []))
                pair[0].append(_moments(vectors[name][members]))
                pair[1].append(_moments(getattr(law[name], group)))
    apart = {}
    for key, (vectors, law) in found.items():
        a, b = np.array(vectors), np.array(law)
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
