"""Simulated audits of participation patterns against an attacker who knows no rounds.

`python -m benchmarks.secret_rounds PART [NUMBER]`, where PART is one of

- `apart`: patterns with and without secret rounds are told apart, equal ones are not;
- `level`: the share of lower bounds above 0 where nothing leaks, of NUMBER runs a cell;
- `best`: bounds by the likelihood ratio, the largest and the sum of cosines, of NUMBER audits.

Scores are drawn in memory from their exact distribution; nothing is trained. Each part takes a few
minutes of one processor. The slow tests of tests/attacks/test_secret_rounds.py call it.
"""

import functools
import itertools
import math
import sys

import numpy as np

from fl_audit.accounting.attacker_bounds import attacker_bounds
from fl_audit.accounting.release import Denominator, Noise, Party, Release
from fl_audit.accounting.sampling import OneRoundPerBlock, Sampling
from fl_audit.accounting.samplings.balls_in_bins import BallsInBinsSampling
from fl_audit.accounting.samplings.cyclic_poisson import CyclicPoissonSampling
from fl_audit.accounting.samplings.min_separation import MinSeparationSampling
from fl_audit.accounting.samplings.poisson import PoissonSampling
from fl_audit.accounting.samplings.random_allocation import AllocatedRounds
from fl_audit.array_types import Float32Array, FloatArray
from fl_audit.attacks.likelihood_null import KnownPattern, likelihood_null
from fl_audit.canaries.pool import CanaryPool
from fl_audit.estimators.null import (
    GaussianCanaryNull,
    LargestOfRoundsNull,
    Null,
    NullTail,
    ScaledNull,
)
from fl_audit.estimators.roc.summary import roc_summary
from fl_audit.estimators.scores import CanaryScores
from fl_audit.estimators.setting import AuditSetting
from fl_audit.estimators.threshold.valid_threshold import threshold_valid
from fl_audit.report.patterns import (
    Detection,
    Difference,
    PatternAttacker,
    differences,
    mean_auc,
)

DELTA = 1e-5
DIM = 10**6


def equal_patterns(rounds: int, mean: int) -> list[Sampling]:
    """Patterns with one expected number of rounds, which divides the number of rounds."""
    apart = rounds // mean
    return [
        OneRoundPerBlock(mean, ((apart, mean),)),
        PoissonSampling(mean / rounds),
        AllocatedRounds(mean, rounds),
        BallsInBinsSampling(apart, rounds),
        CyclicPoissonSampling(0.5, apart // 2, 2 * mean),
        MinSeparationSampling(1 / (apart / 2 + 1), apart // 2, rounds),
    ]


def directions(rounds: int, dim: int, canaries: int, random: np.random.Generator) -> FloatArray:
    """Scores of excluded `gaussian` canaries in orthonormal directions, (rounds, canaries)."""
    z = random.standard_normal((rounds, canaries))
    others = random.chisquare(dim - rounds, canaries) if dim > rounds else 0.0
    return np.asarray(z * math.sqrt(dim) / np.sqrt((z**2).sum(axis=0) + others))


def scores(
    pattern: KnownPattern, canaries: int, random: np.random.Generator
) -> dict[str, CanaryScores]:
    """One audit's scores by statistic; the first half of the canaries is included."""
    present = pattern.sampling.draw(pattern.rounds, canaries, random)
    is_in = np.arange(canaries) < canaries // 2
    z = directions(pattern.rounds, DIM, canaries, random) + pattern.shift * (present & is_in)
    number = np.maximum(present.sum(axis=0), 1)
    own = np.where(present.any(axis=0), (z * present).sum(axis=0), z[0])
    found = {
        "likelihood_ratio": pattern.log_ratios(z, np.arange(pattern.rounds)),
        "max": z.max(axis=0) / math.sqrt(DIM),
        "sum": z.sum(axis=0) / math.sqrt(DIM),
        "own_rounds": own / np.sqrt(number),
    }
    return {name: CanaryScores(s[is_in], s[~is_in]) for name, s in found.items()}


def difference(first: CanaryScores, second: CanaryScores) -> Difference:
    """The difference of two patterns' AUC as `compare` has it, with its interval at 95 %."""
    made = [
        Detection("", None, None, *mean_auc([roc])) for roc in map(roc_summary, (first, second))
    ]
    ((only,),) = differences([PatternAttacker("", "", tuple(made))], 0.95)
    return only


def apart(seeds: int, canaries: int = 1_000) -> int:
    """The number of seeds at which Poisson sampling and known rounds differ, T = 100, z = 0.6.

    The shift of a detection is sqrt(2) times the quantile of its AUC: intervals of shifts are
    disjoint where those of AUC are.
    """
    poisson = KnownPattern(PoissonSampling(0.05), 1 / 0.6, 100)
    known = KnownPattern(OneRoundPerBlock(5, ((20, 5),)), 1 / 0.6, 100)
    number = 0
    for seed in range(seeds):
        random = np.random.default_rng([1, seed])
        secret = roc_summary(scores(poisson, canaries, random)["likelihood_ratio"])
        open_ = roc_summary(scores(known, canaries, random)["own_rounds"])
        number += secret.auc_interval.upper < open_.auc_interval.lower
    return number


EQUAL = [
    ("own_rounds", OneRoundPerBlock(5, ((20, 5),)), AllocatedRounds(5, 100)),
    ("own_rounds", OneRoundPerBlock(5, ((20, 5),)), BallsInBinsSampling(20, 100)),
    ("likelihood_ratio", OneRoundPerBlock(1, ((100, 1),)), AllocatedRounds(1, 100)),
    ("likelihood_ratio", PoissonSampling(0.05), CyclicPoissonSampling(0.05, 1, 100)),
]
"""Pairs of patterns between which, for a statistic's attacker, nothing differs."""


def wrongly_apart(seeds: int, noise: float, canaries: int = 1_000) -> list[int]:
    """The number of seeds at which each pair of `EQUAL` patterns is told apart."""
    numbers = []
    for index, (name, *pair) in enumerate(EQUAL):
        patterns = [KnownPattern(sampling, 1 / noise, 100) for sampling in pair]
        wrong = 0
        for seed in range(seeds):
            random = np.random.default_rng([2, index, seed])
            found = [scores(pattern, canaries, random)[name] for pattern in patterns]
            wrong += difference(*found).lower > 0
        numbers.append(wrong)
    return numbers


def excluded_scores(
    family: str, rounds: int, dim: int, canaries: int, random: np.random.Generator
) -> FloatArray:
    """Scores of excluded canaries of a family in orthonormal directions, (rounds, canaries).

    Those of `rademacher` canaries are exact for directions that are constant on disjoint blocks of
    coordinates: a score is then a sum of as many signs as a block has coordinates. `hadamard`
    canaries, which depend on one another, are made (50 pools in turn), and compared with dense
    random directions.
    """
    if family == "gaussian":
        return directions(rounds, dim, canaries, random)
    if family == "rademacher":
        block = dim // rounds
        heads = random.binomial(block, 0.5, (rounds, canaries))
        return np.asarray((2 * heads - block) / math.sqrt(block))
    basis, _ = np.linalg.qr(random.standard_normal((dim, rounds)))
    vectors = _hadamard(int(random.integers(50)), canaries, dim)
    return np.asarray(math.sqrt(dim) * (vectors @ basis).T)


@functools.lru_cache(maxsize=50)
def _hadamard(seed: int, canaries: int, dim: int) -> Float32Array:
    """The vectors of a pool, (canaries, dim)."""
    pool = CanaryPool(seed=seed, count=canaries, dim=dim, family="hadamard")
    return np.stack([pool.vector(canary) for canary in range(canaries)])


LEVEL_CELLS = [
    *itertools.product(("gaussian", "rademacher"), (100, 1_000, 10**4, 10**6), range(6)),
    *itertools.product(("hadamard",), (100, 1_000), (1,)),
]
"""The family, the dimension, and the index in `equal_patterns(60, 5)`."""


_AT_ONCE = 20
"""The number of runs whose likelihood ratios are computed at once."""


def level(family: str, dim: int, which: int, runs: int, canaries: int = 200) -> tuple[float, float]:
    """The shares of runs without leak whose bound exceeds 0, and that reject the null, both at 5 %.

    Canaries of signs have no known null: theirs is the empirical one, whose level follows from fair
    coins at any dimension, and the second share is 0.
    """
    pattern, seen = KnownPattern(equal_patterns(60, 5)[which], 1 / 0.6, 60), np.arange(60)
    random = np.random.default_rng([3, dim, which])
    null = likelihood_null(pattern, seen, dim) if family == "gaussian" else None
    given = Null() if null is None else Null(tail=null)
    positive = rejected = 0
    for start in range(0, runs, _AT_ONCE):
        drawn = [
            (excluded_scores(family, 60, dim, canaries, random), random.permutation(canaries))
            for _ in range(min(_AT_ONCE, runs - start))
        ]
        ratios = pattern.log_ratios(np.concatenate([z for z, _ in drawn], axis=1), seen)
        for of_run, (_, order) in zip(np.split(ratios, len(drawn)), drawn, strict=True):
            is_in = order < canaries // 2
            made = CanaryScores(of_run[is_in], of_run[~is_in])
            positive += threshold_valid(AuditSetting(made, DELTA, 0.95, given)).epsilon > 0
            rejected += null is not None and null.p_value(made.excluded) < 0.05
    return positive / runs, rejected / runs


def bounds(pattern: KnownPattern, audits: int) -> dict[str, FloatArray]:
    """The lower bounds of audits of 1,000 canaries by each statistic, each of shape (audits,)."""
    rounds = pattern.rounds
    null, one = likelihood_null(pattern, np.arange(rounds), DIM), GaussianCanaryNull(DIM)
    nulls: dict[str, NullTail] = {
        "likelihood_ratio": null,
        "max": LargestOfRoundsNull((one,) * rounds),
        "sum": ScaledNull(one, math.sqrt(rounds)),
    }
    found: dict[str, list[float]] = {name: [] for name in nulls}
    for seed in range(audits):
        made = scores(pattern, 1_000, np.random.default_rng([4, seed]))
        for name, tail in nulls.items():
            setting = AuditSetting(made[name], DELTA, 0.95, Null(tail=tail))
            found[name].append(threshold_valid(setting).epsilon or 0.0)
    return {name: np.array(values) for name, values in found.items()}


def upper_bound(pattern: KnownPattern) -> float:
    """Accounting's upper bound against an attacker who does not know the rounds."""
    party, z = Party(pattern.sampling), 1 / pattern.shift
    release = Release(
        rounds=pattern.rounds,
        noise=Noise("gaussian", z, z),
        denominator=Denominator("expected_cohort", 50.0),
        client=party,
        canary=party,
    )
    epsilon = attacker_bounds(release, party, DELTA).not_knowing_rounds.guarantee.epsilon
    return math.inf if epsilon is None else epsilon


SETTINGS = [
    KnownPattern(sampling, 1 / noise, rounds)
    for rounds, noise in ((60, 0.5), (100, 0.8))
    for sampling in equal_patterns(rounds, 5)
]


def main(part: str, number: str = "") -> None:
    """Prints one part."""
    match part:
        case "apart":
            print(f"Poisson 0.05 and known rounds apart at {apart(10)} of 10 seeds", flush=True)
            for noise in (0.6, 1.5):
                for (name, *pair), wrong in zip(EQUAL, wrongly_apart(20, noise), strict=True):
                    names = " and ".join(type(sampling).__name__ for sampling in pair)
                    print(f"z {noise}: {name}, {names}: {wrong} of 20 apart", flush=True)
        case "level":
            runs = int(number or 2_000)
            for family, dim, which in LEVEL_CELLS:
                share, rejected = level(family, dim, which, runs)
                spread = math.sqrt(share * (1 - share) / runs)
                print(
                    f"{family} d {dim} {type(equal_patterns(60, 5)[which]).__name__}: {share:.4f} "
                    f"± {spread:.4f} of {runs} bounds above 0, {rejected:.4f} of nulls rejected "
                    "at 0.05",
                    flush=True,
                )
        case _:
            audits = int(number or 40)
            for pattern in SETTINGS:
                found = bounds(pattern, audits)
                ratio = found.pop("likelihood_ratio")
                other = max(found, key=lambda name: found[name].mean())
                gain = ratio - found[other]
                print(
                    f"{type(pattern.sampling).__name__} T {pattern.rounds} z {1 / pattern.shift}: "
                    f"ε ≥ {ratio.mean():.2f}, {other} {found[other].mean():.2f}; by "
                    f"{gain.mean():.2f} ± {gain.std(ddof=1) / math.sqrt(audits):.2f}, as large in "
                    f"{(gain >= 0).sum()} of {audits}; largest {ratio.max():.2f} of "
                    f"{upper_bound(pattern):.2f}",
                    flush=True,
                )


if __name__ == "__main__":
    main(*sys.argv[1:])
