"""Audits that are simulated with all their vectors, by nothing of the package's simulation."""

import dataclasses
import functools
from collections.abc import Callable, Sequence

import numpy as np

from fl_audit.accounting.noise_distributions import GAUSSIAN, MATRIX
from fl_audit.accounting.release import Denominator, Party, Release
from fl_audit.accounting.sampling import FixedRounds
from fl_audit.accounting.samplings.poisson import PoissonSampling
from fl_audit.accounting.toeplitz import Toeplitz
from fl_audit.attacks.own_rounds import OwnRounds
from fl_audit.checks import CanaryCheck, CanaryParticipations, check_canaries
from fl_audit.estimators import CanaryScores, GaussianCanaryNull, LargestOfRoundsNull
from fl_audit.estimators.null import Null
from fl_audit.verdict import Background, ScoredStatistic

DIM = 1000

Pattern = Callable[[int, int, np.random.Generator], list[np.ndarray]]


def rounds_of(number: int) -> Pattern:
    """So many rounds of each canary, drawn at random."""
    return lambda count, rounds, random: [
        np.sort(random.choice(rounds, number, replace=False)) for _ in range(count)
    ]


def one_to_ten(count: int, rounds: int, random: np.random.Generator) -> list[np.ndarray]:
    """One to ten rounds of each canary."""
    return [
        np.sort(random.choice(rounds, random.integers(1, 11), replace=False)) for _ in range(count)
    ]


def sampled(rate: float) -> Pattern:
    """Poisson sampling of each canary in each round."""
    return lambda count, rounds, random: [
        np.flatnonzero(row) for row in random.random((count, rounds)) < rate
    ]


ONE_ROUND = rounds_of(1)


@dataclasses.dataclass(frozen=True)
class Setup:
    """A training with canaries, in units of a canary's expected length.

    Attributes:
      noise: The noise multiplier.
      count: The number of canaries, half of them included.
      rounds: The number of rounds.
      pattern: The rounds of canaries.
      most: The number of rounds of a client.
      clients: The number of clients in each round.
      alike: The cosine of any two clients' updates; the common direction is that of all rounds.
      length: The length of canaries that arrive.
      lost: The share of them that do not.
      column: The first column of the matrix that correlates noise.
      rate: The stated rate of Poisson sampling; None where clients have `most` rounds.
    """

    noise: float
    count: int = 1000
    rounds: int = 20
    pattern: Pattern = ONE_ROUND
    most: int = 1
    clients: int = 0
    alike: float = 0.0
    length: float = 1.0
    lost: float = 0.0
    column: Sequence[float] = (1.0,)
    rate: float | None = None


@dataclasses.dataclass(frozen=True, eq=False)
class Audited:
    """Its own rounds' scores, and what a verdict is given with them; checks only where asked."""

    statistic: ScoredStatistic
    background: Background
    _arrived: Callable[[], CanaryCheck]
    _others: Callable[[], Sequence[ScoredStatistic]]

    @functools.cached_property
    def canary_check(self) -> CanaryCheck:
        return self._arrived()

    @functools.cached_property
    def others(self) -> Sequence[ScoredStatistic]:
        """The scores on `sum`, `final_minus_initial` and `max`."""
        return self._others()


def audited(setup: Setup, seed: int, stated: float | None = None) -> Audited:
    """Trains once.

    Args:
      setup: The training.
      seed: What chance is drawn from.
      stated: The noise multiplier that is stated; None states none.
    """
    random, k, t = np.random.default_rng([seed, 7]), setup.count, setup.rounds
    vectors = random.standard_normal((k, DIM))
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    included, own = random.random(k) < 0.5, setup.pattern(k, t, random)
    presences = np.zeros((k, t))
    for canary, its_rounds in enumerate(own):
        presences[canary, its_rounds] = 1
    sent = included & (random.random(k) >= setup.lost)
    sums = setup.length * (presences * sent[:, None]).T @ vectors
    common = random.standard_normal(DIM) / DIM**0.5
    apart = random.standard_normal((t, DIM)) / DIM**0.5 * setup.clients**0.5
    sums += setup.alike**0.5 * setup.clients * common + (1 - setup.alike) ** 0.5 * apart
    matrix = sum(value * np.eye(t, k=-lag) for lag, value in enumerate(setup.column))
    sums += np.linalg.solve(matrix, setup.noise * random.standard_normal((t, DIM)))
    lengths = np.linalg.norm(sums, axis=1)
    is_plain = len(setup.column) == 1
    scored = presences.copy()
    scored[presences.sum(axis=1) == 0, 0] = 1  # a canary without a round is scored in the first
    weights = scored / lengths if is_plain else scored @ (matrix.T @ matrix)
    seen = weights @ sums
    scores = np.einsum("jd,jd->j", seen, vectors) / np.linalg.norm(seen, axis=1)
    null = Null("closed_form", GaussianCanaryNull(DIM), DIM)
    canaries = CanaryScores(scores[included], scores[~included])
    correlation = None if is_plain else Toeplitz.from_column(np.array(setup.column), t)
    background = Background(OwnRounds(tuple(own)), included, DIM, correlation)
    background = background.with_rounds(np.arange(t), lengths, np.ones(t))
    background = dataclasses.replace(background, client_sensitivity=sensitivity(setup))
    if not is_plain:
        background = dataclasses.replace(background, sum_lengths=np.linalg.norm(seen, axis=1))
    else:
        units = sums / lengths[:, None]
        share = (np.sum(units.sum(axis=0) ** 2) - t) / (t * (t - 1))
        shared = max(share, 0.0) * lengths**2
        background = dataclasses.replace(background, in_common=shared, surely_common=0.9 * shared)
    if stated is not None:
        background = dataclasses.replace(
            background.with_noise(stated), release=_release(setup, stated)
        )
    background = dataclasses.replace(background, weights=np.ones(t))
    cosines = functools.cache(lambda: vectors @ (sums / lengths[:, None]).T)

    def arrived() -> CanaryCheck:
        arrivals = [presences * (included == is_in)[:, None] for is_in in (True, False)]
        return check_canaries(*(_arrivals(own, cosines(), lengths) for own in arrivals), {})

    def others() -> Sequence[ScoredStatistic]:
        in_sum = _in_one(vectors, (sums.T / lengths).sum(axis=1), included)
        in_model = _in_one(vectors, sums.sum(axis=0), included)
        largest = cosines().max(axis=1)
        of_rounds = Null("closed_form", LargestOfRoundsNull(t * (GaussianCanaryNull(DIM),)), DIM)
        return (
            ScoredStatistic("sum", in_sum, null),
            ScoredStatistic("final_minus_initial", in_model, null),
            ScoredStatistic("max", CanaryScores(largest[included], largest[~included]), of_rounds),
        )

    own_rounds = ScoredStatistic("own_rounds", canaries, null)
    return Audited(own_rounds, background, arrived, others)


def _in_one(vectors, direction, included):
    """The cosines of canaries with one vector."""
    cosines = vectors @ direction / np.linalg.norm(direction)
    return CanaryScores(cosines[included], cosines[~included])


def _arrivals(presences, cosines, lengths):
    """The participations of canaries in some rounds, for the canary check."""
    canaries, rounds = np.nonzero(presences)
    others = presences.sum(axis=0)[rounds] - 1
    is_first = np.diff(canaries, prepend=-1) > 0
    seen = (cosines[canaries, rounds], lengths[rounds], np.ones(len(rounds)), others, is_first)
    return CanaryParticipations(canaries, rounds, *seen, dim=DIM, knows_tails=True)


def sensitivity(setup: Setup) -> float:
    """The squared sensitivity to a client, whose rounds the matrix spreads over later ones."""
    return setup.most * float(np.sum(np.square(setup.column)))


def _release(setup: Setup, noise: float) -> Release:
    is_plain = len(setup.column) == 1
    distribution = GAUSSIAN if is_plain else MATRIX
    squared = None if is_plain else sensitivity(setup)
    sampling = FixedRounds(setup.most) if setup.rate is None else PoissonSampling(setup.rate)
    party = Party(sampling, squared)
    return Release(
        rounds=setup.rounds,
        noise=distribution.noise(noise, noise),
        denominator=Denominator("expected_cohort", 1.0),
        client=party,
        canary=party,
        correlation=(
            None if is_plain else Toeplitz.from_column(np.array(setup.column), setup.rounds)
        ),
    )
