"""Claims about sampled clients, in logs that say how they sample: right ones and half the noise.

Logs are simulated in this process: rounds are drawn here, by no schedule of the package. Every
canary has four rounds of 40 on average, under a noise multiplier of 2. Vectors are
Gaussian, whose null distribution is exact in 1,000 dimensions.
"""

from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from fl_audit.accounting.attacker_bounds import attacker_bounds
from fl_audit.attacks import Audit, CanaryPool, Participation, RunFacts
from fl_audit.attacks.log_release import release_of
from fl_audit.attacks.log_scores import score_seen
from fl_audit.attacks.logs import ListedCanaries, SeenLog
from fl_audit.attacks.own_rounds import OwnRounds
from fl_audit.attacks.round_cosines import AggregateFiles
from fl_audit.attacks.threat_models import STATISTICS
from fl_audit.formats.folders import LogFolder
from fl_audit.verdict.claim_tests import ClaimTests, ScoredStatistic
from fl_audit.verdict.claims import Claim, sampled_claim
from fl_audit.verdict.curve_claim_tests import curve_tests
from fl_audit.verdict.decision import reach_verdict
from fl_audit.verdict.scope import Scope, scope_of_log

ROUNDS, COUNT, DIM, NOISE, DELTA = 40, 100, 1000, 2.0, 1e-3


def _coins(random, q):
    return random.random((ROUNDS, COUNT)) < q


def _cut(turns, random, largest):
    for row in turns:
        present = np.flatnonzero(row)
        row[random.permutation(present)[largest:]] = False
    return turns


def _groups(random, groups):
    """The rounds of groups of one size that take turns."""
    group = random.permutation(np.arange(COUNT) % groups)
    return group[None, :] == (np.arange(ROUNDS) % groups)[:, None]


def _bins(random, bins):
    chosen = random.integers(bins, size=COUNT)
    return chosen[None, :] == (np.arange(ROUNDS) % bins)[:, None]


def _k_of_all(random, k):
    return np.argsort(random.random((ROUNDS, COUNT)), axis=0) < k


def _rested(random, coin, separation):
    """Coins with a rest, begun long before the first round."""
    turns = np.zeros((200 + ROUNDS, COUNT), bool)
    for t in range(len(turns)):
        rests = turns[max(t - separation + 1, 0) : t].any(axis=0)
        turns[t] = (random.random(COUNT) < coin) & ~rests
    return turns[200:]


PATTERNS = {
    "poisson": (Participation("poisson", 0.1), lambda r: _coins(r, 0.1)),
    "fixed_size": (
        Participation("fixed_size", 0.1, members=COUNT),
        lambda r: np.argsort(r.random((ROUNDS, COUNT)), axis=1) < COUNT // 10,
    ),
    "truncated_poisson": (
        Participation("truncated_poisson", 0.1, members=COUNT, largest_round=25),
        lambda r: _cut(_coins(r, 0.1), r, 25),
    ),
    "cyclic_poisson": (
        Participation("cyclic_poisson", 0.4, separation=4),
        lambda r: _groups(r, 4) & _coins(r, 0.4),
    ),
    "balls_in_bins": (Participation("balls_in_bins", separation=10), lambda r: _bins(r, 10)),
    "random_allocation": (
        Participation("random_allocation", client_rounds=4), lambda r: _k_of_all(r, 4)
    ),
    "b_min_sep": (
        Participation("b_min_sep", 1 / 7, separation=4), lambda r: _rested(r, 1 / 7, 4)
    ),
}  # fmt: skip


def own_rounds_of(turns) -> OwnRounds:
    return OwnRounds(tuple(np.flatnonzero(mine) for mine in turns.T))


class Log:
    """A log of a training, with some of the noise that it tells."""

    def __init__(self, turns, seed, *, share=1.0):
        random = np.random.default_rng([seed, 7])
        pool = CanaryPool(seed=seed, count=COUNT, dim=DIM, family="gaussian")
        vectors = np.stack([pool.vector(canary) for canary in range(COUNT)])
        self.included, self.own = pool.included, own_rounds_of(turns)
        sums = (turns & self.included).astype(float) @ vectors
        sums += random.normal(0, share * NOISE, (ROUNDS, DIM))
        sums += random.normal(0, 1, DIM) / DIM**0.5  # what clients have in common
        rounds = sums.astype(np.float32)
        paths = {t + 1: Path(str(t)) for t in range(ROUNDS)}
        cosines = AggregateFiles(
            pool, paths, lambda path: rounds[int(path.name)], list, keep_directions=True
        )
        zeros = np.zeros(DIM, np.float32)
        listed = ListedCanaries(self.included, self.own)
        nowhere = LogFolder(Path("/nowhere"))
        log = SeenLog(nowhere, pool, listed, cosines, ROUNDS, None)
        seen = score_seen(log, zeros, rounds.sum(axis=0))
        facts = RunFacts(Audit(), DIM, pool.family, seen.compared)
        self.statistics = [
            ScoredStatistic(
                name,
                scores.canary_scores(),
                STATISTICS[name].null(facts),
            )
            for name, scores in seen.scores.items()
        ]

    def of_noise(self, claim, confidence=0.999):
        """The outcome for the noise that the log tells, as `estimate` asks without a claim."""
        tests = curve_tests(claim, self.statistics, confidence)
        return reach_verdict(claim, tests, Scope(whom="for a canary")).outcome

    def of_claim(self, said, epsilon):
        """The outcome for an epsilon that somebody claims, by the statistics that it covers."""
        scope = scope_of_log(said, self.own.of_canary, self.included, range(ROUNDS), "file")
        covered = [one for one in self.statistics if scope.covers(one.name)]
        assert "own_rounds" not in {one.name for one in covered}
        tests = ClaimTests(covered, 0.95)
        return reach_verdict(Claim(epsilon, DELTA), tests, scope).outcome


def claims_of(said, turns):
    """The claim that the noise is as told, and the epsilon of a sampled client."""
    release = release_of(said, own_rounds_of(turns), range(ROUNDS), NOISE)
    assert release is not None and release.canary == release.client
    statistics = [STATISTICS[one] for one in ("max", "sum", "own_rounds", "final_minus_initial")]
    claim = sampled_claim(release, DELTA, statistics)
    epsilon = attacker_bounds(release, release.client, DELTA).not_knowing_rounds.guarantee.epsilon
    return claim, epsilon


def contradictions(name, numbers, *, with_claims=0):
    """How many logs are contradicted, right ones and of half the noise: by noise, and by claim.

    Only the first `with_claims` are held against the claimed epsilon.
    """
    said, draw = PATTERNS[name]
    counts = {"right": [0, 0], "half": [0, 0]}
    claims = None
    for number in numbers:
        turns = draw(np.random.default_rng([number, 11]))
        claim, epsilon = claims = claims or claims_of(said, turns)
        for kind, share in (("right", 1.0), ("half", 0.5)):
            log = Log(turns, number, share=share)
            counts[kind][0] += log.of_noise(claim) == "contradicted"
            if number < with_claims:
                counts[kind][1] += log.of_claim(said, epsilon) == "contradicted"
    return counts


def check(counts, number, with_claims):
    """Right logs are contradicted more often than this with a chance of 1e-6 each.

    The levels are 0.1 % for the noise that is told, and 5 % for a claimed epsilon.
    """
    by_noise, by_claim = counts["right"]
    assert by_noise <= stats.binom.isf(1e-6, number, 1e-3)
    assert by_claim <= stats.binom.isf(1e-6, with_claims, 0.05)
    assert counts["half"][0] >= 0.9 * number


@pytest.mark.parametrize(
    ("number", "with_claims"), [(2, 1), pytest.param(200, 50, marks=pytest.mark.slow)]
)
@pytest.mark.parametrize(
    "name",
    [
        name if name in ("poisson", "fixed_size", "b_min_sep")
        else pytest.param(name, marks=pytest.mark.slow)
        for name in PATTERNS
    ],
)  # fmt: skip
def test_right_logs_hold_and_half_the_noise_is_found(name, number, with_claims):
    check(contradictions(name, range(number), with_claims=with_claims), number, with_claims)
