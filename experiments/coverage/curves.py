"""How often claimed curves are contradicted that are true, and how often ones that are not.

Usage: python -m experiments.coverage.curves laws|vectors|power [RUNS, 2000 by default]

`laws` draws scores with the very tail that a claim allows: no mechanism of that claim is worse.
`vectors` has real vectors in every round (own_rounds.py), scored and tested by fl_audit's own code.
`power` claims an epsilon of 2 at delta = 1e-5 where 4 is true.
"""

import copy
import math
import sys
from collections.abc import Callable, Iterator, Mapping

import numpy as np
import numpy.typing as npt

from experiments.coverage import own_rounds
from experiments.coverage.own_rounds import Cell
from fl_audit.accounting.attacker_bounds import SeenRounds
from fl_audit.accounting.hidden_rounds import one_round_of_each
from fl_audit.array_types import FloatArray
from fl_audit.attacks.live_test import LiveTest
from fl_audit.canaries.families import WITH_KNOWN_NULL
from fl_audit.estimators import CanaryScores
from fl_audit.estimators.curve_tests import CurveWealth, claimed_tail, sum_test
from fl_audit.estimators.gaussian.mechanism import epsilon_of_mu, sigma_of_epsilon
from fl_audit.estimators.one_run.f_dp import guesses_p_value
from fl_audit.estimators.trade_off import (
    GaussianTradeOff,
    PointTradeOff,
    TradeOff,
    trade_off_of_profile,
    trade_off_of_tests,
    zcdp_trade_off,
)
from fl_audit.verdict import GaussianClaim, ScoredStatistic, curve_tests
from fl_audit.verdict.curve_claim_tests import LEADING_SHARE

LEVEL = 0.05
NUMBERS = (20, 50, 100, 200, 500, 1000, 2000)
"""Numbers of canaries, half of them included."""

_IN_A_ROUND = 10
"""Included canaries of a round, after which the live test looks."""

_LAPLACE = np.linspace(0, 2, 400)

CURVES: Mapping[str, TradeOff] = {
    "Gaussian, μ = 1": GaussianTradeOff(1.0),
    "Poisson sampling, rounds seen": trade_off_of_tests(
        SeenRounds.by_coins(0.1, 20, 0.8).optimal_tests()
    ),
    "one unknown round of 20": trade_off_of_tests(
        one_round_of_each(0.5, ((20, 1),), 1e-5).optimal_tests()
    ),
    "Laplace, ε = 2": trade_off_of_profile(_LAPLACE, -np.expm1((_LAPLACE - 2) / 2)),
    "zCDP, ρ = 0.5": zcdp_trade_off(0.5),
    "point, ε = 1, δ = 1e-3": PointTradeOff(1.0, 1e-3),
}


# Scores as large as a claim allows.


def as_claimed(curve: TradeOff, shape: tuple[int, ...], random: np.random.Generator) -> FloatArray:
    """Deviates of included canaries with the very tail that a curve allows, float64 of a shape."""
    grid = np.arange(-9, 45, 0.002) + 0.0013  # not at a point of a table, where T steps up
    tail = np.exp(claimed_tail(curve, grid))
    return grid[np.maximum(len(grid) - 1 - np.searchsorted(tail[::-1], random.random(shape)), 0)]


def independent(curve: TradeOff, shape: tuple[int, int], random: np.random.Generator) -> FloatArray:
    """Every canary shows all that the claim allows, independently of the others."""
    return as_claimed(curve, shape, random)


def after_high_ones(
    curve: TradeOff, shape: tuple[int, int], random: np.random.Generator
) -> FloatArray:
    """A canary shows all that the claim allows if those before it scored high, and else nothing."""
    z, nothing = as_claimed(curve, shape, random), random.standard_normal(shape)
    total = np.zeros(shape[0])
    for canary in range(shape[1]):
        z[:, canary] = np.where(total >= 0, z[:, canary], nothing[:, canary])
        total += z[:, canary]
    return z


Dependence = Callable[[TradeOff, tuple[int, int], np.random.Generator], FloatArray]
DEPENDENCES: Mapping[str, Dependence] = {
    "independent": independent,
    "on those before": after_high_ones,
}


def of_laws(curve: TradeOff, dependence: Dependence, number: int, runs: int) -> list[float]:
    """The share of runs that contradict a true curve: by the sum, by guesses, by both, and live.

    Args:
      curve: The curve, which is claimed and true.
      dependence: How scores depend on each other.
      number: The number of canaries, half of them included.
      runs: The number of runs.
    """
    random = np.random.default_rng([number, 17])
    z = dependence(curve, (runs, number // 2), random)
    excluded = random.standard_normal((runs, number - number // 2))
    pairs = zip(z, excluded, strict=True)
    guesses = np.array([guesses_p_value(CanaryScores(*scores), curve) for scores in pairs])
    by_both = _of_sum(curve, z, LEADING_SHARE * LEVEL) | (guesses <= (1 - LEADING_SHARE) * LEVEL)
    start = CurveWealth(curve)
    falls_live = [_falls_live(start, scores) for scores in z]
    found = (_of_sum(curve, z, LEVEL), guesses <= LEVEL, by_both, falls_live)
    return [float(np.mean(one)) for one in found]


def _of_sum(curve: TradeOff, z: FloatArray, level: float) -> npt.NDArray[np.bool_]:
    test = sum_test(curve, z.shape[1], level)
    return np.asarray(test.statistic(z) >= test.critical_value(level))


def _falls_live(start: CurveWealth, z: FloatArray) -> bool:
    wealth = copy.deepcopy(start)
    for first in range(0, len(z), _IN_A_ROUND):
        wealth.add(z[first : first + _IN_A_ROUND])
        if wealth.p_value <= LEVEL:
            return True
    return False


def laws(runs: int) -> Iterator[str]:
    """A row for each curve, dependence and number of canaries."""
    yield from _head("curve", "scores", "canaries", "sum", "guesses", "both", "live")
    for name, curve in CURVES.items():
        for words, dependence in DEPENDENCES.items():
            for number in NUMBERS:
                shares = of_laws(curve, dependence, number, runs)
                yield _row(name, words, number, *map(_percent, shares))


# Real vectors.


def of_vectors(cell: Cell, mu: float, seed: int) -> list[bool]:
    """Whether one run contradicts a claimed mu, at its end and, with one own round, live."""
    run = own_rounds.simulated(cell, seed)
    statistic = ScoredStatistic("own_rounds", *own_rounds.scored(cell, run))
    tests = curve_tests(GaussianClaim(mu, own_rounds.DELTA), [statistic], 1 - LEVEL)
    p_values = ((test.p_value, test.level) for test in tests.tests)
    found = [any(p is not None and p <= level for p, level in p_values)]
    if cell.own == 1:
        canaries = own_rounds.live_canaries(cell, run)
        test = LiveTest(canaries, own_rounds.DELTA, curve=GaussianTradeOff(mu))
        own_rounds.see_all_rounds(test, cell, run)
        found.append(test.p_value_of_curve() <= LEVEL)
    return found


def vectors(runs: int) -> Iterator[str]:
    """A row for each cell of own_rounds.py; a quarter of the runs where there are 2,000 rounds."""
    head = ("canaries", "in each round", "k", "ε", "T", "own", "d", "runs", "at the end", "live")
    yield from _head(*head)
    for cell in (*own_rounds.live(), *own_rounds.worlds(), *own_rounds.sizes()):
        number = runs // 4 if cell.rounds == 2000 else runs
        mu = math.sqrt(cell.own) / cell.noise_multiplier
        found = np.mean([of_vectors(cell, mu, seed) for seed in range(number)], axis=0)
        words = [_percent(share) for share in found] + ["–"] * (cell.own > 1)
        about = (cell.family, cell.world, cell.canaries, f"{cell.epsilon:g}", cell.rounds, cell.own)
        yield _row(*about, cell.dim, number, *words)


CLAIMED, TRUE, DELTA = 2.0, 4.0, 1e-5


def power(runs: int) -> Iterator[str]:
    """A row for each family and number of canaries: how often a claim of half the truth falls."""
    yield from _head("canaries", "k", "at the end", "live")
    mus = [1 / sigma_of_epsilon(epsilon, DELTA) for epsilon in (CLAIMED, TRUE)]
    truth = epsilon_of_mu(mus[1], own_rounds.DELTA)
    for family in WITH_KNOWN_NULL:
        for number in (70, 100, 140):
            cell = Cell(truth, number, 20, 1, 20_000, family, "noise alone")
            found = np.mean([of_vectors(cell, mus[0], seed) for seed in range(runs)], axis=0)
            yield _row(family, number, *map(_percent, found))


def _percent(share: float) -> str:
    return f"{100 * share:.1f} %"


def _head(*names: str) -> Iterator[str]:
    yield _row(*names)
    yield "|---" * len(names) + "|"


def _row(*cells: object) -> str:
    return f"| {' | '.join(map(str, cells))} |"


def main() -> None:
    """Prints a table."""
    rows = {"laws": laws, "vectors": vectors, "power": power}[sys.argv[1]]
    for row in rows(int(sys.argv[2]) if len(sys.argv) > 2 else 2000):
        print(row, flush=True)


if __name__ == "__main__":
    main()
