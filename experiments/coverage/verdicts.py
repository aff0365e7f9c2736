"""How much a verdict and a live test need, and how often they err, by simulation; see README.md.

Usage: python -m experiments.coverage.verdicts needed|p_values|live|inclusion|revealed
"""

import math
import sys
from collections.abc import Iterator, Sequence

import numpy as np
from scipy.special import log_ndtr, ndtri

from fl_audit.estimators import METHODS, AuditSetting, CanaryScores
from fl_audit.estimators.anytime import AnytimeBound
from fl_audit.estimators.gaussian.mechanism import sigma_of_epsilon
from fl_audit.estimators.known_mechanisms import (
    KnownMechanism,
    bounds_on,
    gaussian,
    laplace,
    randomised_response,
)
from fl_audit.estimators.null import GaussianCanaryNull, Null, NullTail
from fl_audit.verdict.claim_tests import ClaimTests, ScoredStatistic, p_value
from fl_audit.verdict.claims import Claim
from fl_audit.verdict.exposure import WITHOUT_DIM, VectorExposure
from fl_audit.verdict.less_noise import least_noise
from fl_audit.verdict.power import PointTests, SimulatedAudit

LEVEL = 0.05
BOTH = ("threshold_valid", "one_run_valid")

COLUMNS: Sequence[tuple[int, tuple[str, ...], NullTail | None]] = (
    (8, BOTH, None),
    (1, BOTH[:1], None),
    (1, BOTH[1:], None),
    (1, BOTH[:1], GaussianCanaryNull(WITHOUT_DIM)),
)
"""Number of bounds of a verdict, its methods, and the null where it is known."""

TOO_FEW = 20
"""A number of canaries that contradicts none of the claims."""

SHIFTS = (
    (1, 1, 1.0),
    (1, 3.33, 1.0),
    (5, 2, 1.0),
    (5, 3.33, 1.0),
    (10, 3.33, 1.0),
    (5, 3.33, 0.2),
    (5, 50, 1.0),
    (5, 50, 0.1),
    (2, 0.9, 1.0),
    (0.5, 0.3, 1.0),
)
"""Claims, shifts of an included canary's score in deviations, and shares of them that shift."""

LIVE_DELTA, MOST_INCLUDED, LIVE_RUNS = 1e-3, 2000, 200


def needed() -> Iterator[tuple[str, ...]]:
    """Canaries with which 80 % of verdicts contradict a claim half as large as the truth."""
    for delta in (1e-3, 1e-5):
        for epsilon in (1, 2, 4, 8):
            cells = [needed_for(epsilon, delta, *column) for column in COLUMNS]
            by_sum = included_by_sum(epsilon, 2 * epsilon, delta)
            yield f"{delta:g}", f"{epsilon:g}", *cells, str(by_sum)


def needed_for(
    epsilon: float, delta: float, bounds: int, methods: tuple[str, ...], null: NullTail | None
) -> str:
    """One cell of `needed`."""
    level = LEVEL / bounds
    claim, ones = Claim(epsilon, delta), np.ones(TOO_FEW // 2)
    noise = WITHOUT_DIM * sigma_of_epsilon(epsilon, delta) ** 2
    scores = CanaryScores(0 * ones, 0 * ones)
    audit = SimulatedAudit(
        epsilon,
        PointTests(claim, methods, level),
        ScoredStatistic(None, scores, Null(tail=null)),
        VectorExposure(ones, ones, noise * ones, 0 * ones, WITHOUT_DIM),
        least_noise(claim),
        TOO_FEW // 2,
    )
    found = audit.canaries_needed(audit.twice, above=audit.num_canaries)
    return "–" if found is None else f"{found:,}"


def included_by_sum(claimed: float, true: float, delta: float) -> int:
    """Included canaries with which a sum of Gaussian scores contradicts a claim in 80 % of audits.

    Their sum is N(n m, n) for a shift m of each: n is the square of the quantiles of level and
    power together, over the distance of both shifts.
    """
    distance = 1 / sigma_of_epsilon(true, delta) - 1 / sigma_of_epsilon(claimed, delta)
    return math.ceil(((ndtri(1 - LEVEL) + ndtri(0.8)) / distance) ** 2)


def p_values(runs: int = 300) -> Iterator[tuple[str, ...]]:
    """How often a true claim's p-value is at most 0.05 and at most 0.5."""
    for mechanism in (gaussian(1.0, 1e-3), randomised_response(1.0), laplace(1.0)):
        found = [_p_value_of_the_truth(mechanism, seed) for seed in range(runs)]
        yield mechanism.name, *(str(sum(p <= most for p in found)) for most in (0.05, 0.5))


def _p_value_of_the_truth(mechanism: KnownMechanism, seed: int) -> float:
    rng = np.random.default_rng(seed)
    bits = rng.integers(0, 2, 200)
    scores = mechanism.release(rng, bits)
    statistic = ScoredStatistic("max", CanaryScores(scores[bits == 1], scores[bits == 0]))
    tests = ClaimTests([statistic], 1 - LEVEL, ["one_run_valid"])
    claim = Claim(mechanism.epsilon, mechanism.delta)
    return p_value(tests, tests.bounds(claim.delta), claim)


def live() -> Iterator[tuple[str, ...]]:
    """Included canaries until a claim falls: 10 %, 50 % and 90 % of the runs."""
    for claim, shift, share in SHIFTS:
        found = sorted(_until_it_falls(claim, shift, share, seed) for seed in range(LIVE_RUNS))
        ends = (found[round(q * LIVE_RUNS) - 1] for q in (0.1, 0.5, 0.9))
        words = " / ".join("–" if math.isinf(end) else f"{end:.0f}" for end in ends)
        yield f"{claim:g}", f"{shift:g}", f"{100 * share:.0f} %", words


def _until_it_falls(claim: float, shift: float, share: float, seed: int) -> float:
    """The number of included canaries, one a round; infinite where 2,000 are not enough."""
    rng = np.random.default_rng(seed)
    moved = rng.random(MOST_INCLUDED) < share
    z = rng.standard_normal(MOST_INCLUDED) + shift * moved
    bound = AnytimeBound(LIVE_DELTA, claim)
    for number, log_tail in enumerate(log_ndtr(-z), start=1):
        bound.add_round(np.array([log_tail]))
        if bound.p_value(claim) <= LEVEL:
            return number
    return math.inf


def inclusion() -> Iterator[tuple[str, ...]]:
    """Median bounds of `one_run_valid` by how canaries are included; ε = 4, 200 seeds."""
    mechanism = gaussian(4.0, 1e-5)
    for kind, probability in (("coins", 0.5), ("unequal_coins", 0.25), ("pairs", 0.5)):
        found = bounds_on(
            mechanism,
            ["one_run_valid"],
            num_canaries=1000,
            runs=200,
            seed=1,
            inclusion=kind,
            inclusion_probability=probability,
        )
        yield f"{kind} {probability:g}", f"{np.median(found['one_run_valid']):.2f}"


def revealed(runs: int = 2000) -> Iterator[tuple[str, ...]]:
    """How often bounds exceed 0 where 20 of 1,000 canaries are revealed together, at (0, δ)-DP."""
    count, shown, delta = 1000, 20, 1e-3
    for method in BOTH:
        above = 0
        for seed in range(runs):
            rng = np.random.default_rng(seed)
            bits = rng.integers(0, 2, count)
            scores = rng.standard_normal(count)
            if rng.random() < count * delta / shown:
                at = rng.choice(count, shown, replace=False)
                scores[at] = np.where(bits[at] == 1, 50.0, -50.0)
            setting = AuditSetting(
                CanaryScores(scores[bits == 1], scores[bits == 0]), delta, 1 - LEVEL
            )
            above += METHODS[method](setting).epsilon > 0
        yield method, f"{100 * above / runs:.1f} %"


TABLES = {f.__name__: f for f in (needed, p_values, live, inclusion, revealed)}


def main() -> None:
    """Prints one table's rows."""
    for row in TABLES[sys.argv[1]]():
        print(f"| {' | '.join(row)} |", flush=True)


if __name__ == "__main__":
    main()
