"""Claims against what accounting gives for the configured or stated noise."""

import functools
import math

import numpy as np
import pytest
from scipy import linalg, special

from fl_audit.accounting import (
    OneRoundPerBlock,
    Party,
    PoissonSampling,
    UnknownRounds,
    epsilon_at_least,
    exact_shift,
)
from fl_audit.accounting.samplings.min_separation import MinSeparationSampling
from fl_audit.accounting.toeplitz import Toeplitz
from fl_audit.accounting.tree_nodes import Trees
from fl_audit.accounting.upper_bounds import Attacker
from fl_audit.config.design import design_run
from fl_audit.config.file import parse_config
from fl_audit.estimators.gaussian.mechanism import epsilon_of_mu
from fl_audit.verdict import (
    Claim,
    GaussianClaim,
    NoiseClaim,
    ProfileClaim,
    Verdict,
    ZeroConcentratedClaim,
)
from fl_audit.verdict.accounting_basis import (
    Accounted,
    accounted_of_log,
    accounted_of_run,
    after_accounting,
)
from fl_audit.verdict.decision import after_checks
from fl_audit.verdict.record import Outcome
from fl_audit.verdict.scope import Scope
from tests.accounting.releases import release as release_of

DELTA = 1e-3


_release = functools.partial(release_of, rounds=20)


def _verdict(claim, outcome=Outcome.CONSISTENT, reason="Nothing contradicts it.\nNext: publish."):
    return Verdict(outcome, reason, claim, 0.95, 1, assumes="Scores are independent.")


POISSON = PoissonSampling(1 / 15)  # the case of the issue, whose epsilon is 25.6
SAMPLED = Scope(counts_on_sampling=True)


@pytest.mark.parametrize(
    ("release", "scope", "claimed", "gives"),
    [
        (_release(0.3, POISSON), SAMPLED, 11.66, "25.6"),
        (_release(0.79, 10), Scope(), 7.59, "19.7"),
        (_release(0.0, POISSON), SAMPLED, 7.59, "∞"),
        (_release(0.0, POISSON), Scope(), 7.59, "∞"),
    ],
)
def test_a_claim_below_what_the_noise_gives_is_contradicted(release, scope, claimed, gives):
    found = after_accounting(_verdict(Claim(claimed, DELTA)), accounted_of_run(release, scope))
    assert (found.outcome, found.basis) == ("contradicted", "accounting")
    first, *rest = found.reason.splitlines()
    assert first == (f"The configured noise does not give the claimed ε: accounting gives {gives}.")
    wanted = (
        "train with noise." if gives == "∞" else "claim what accounting gives, or train with more"
    )
    assert rest[-1].startswith(f"Next: do not publish this claim; {wanted}")
    assert sum(line.startswith("Next: ") for line in rest) == 1
    assert found.assumes == "The noise and the rounds are as configured."
    assert found.to_json()["basis"] == "accounting"
    assert Verdict.from_json(found.to_json()) == found


@pytest.mark.parametrize("sampling", [POISSON, 3])
def test_a_claim_is_read_with_a_margin_of_one_percent(sampling):
    release = _release(0.8, sampling)
    exact = epsilon_at_least(release, release.client, DELTA, knows_rounds=False)
    accounted = accounted_of_run(release, SAMPLED)
    for factor, outcome in ((1.0, "consistent"), (1 / 1.009, "consistent"), (0.98, "contradicted")):
        assert (
            after_accounting(_verdict(Claim(factor * exact, DELTA)), accounted).outcome == outcome
        )


def test_scores_that_contradict_too_are_said_second():
    by_scores = _verdict(Claim(7.59, DELTA), Outcome.CONTRADICTED, "Scores are high.\nNext: look.")
    found = after_accounting(by_scores, accounted_of_run(_release(0.79, 10), Scope()))
    assert found.basis == "accounting"
    assert "Scores are high." in found.reason.splitlines()
    assert "Next: look." not in found.reason
    failed = after_checks(found, ["Enough noise"], None)
    assert failed.outcome == "contradicted"
    assert failed.reason.startswith("The configured noise does not give")
    assert "repair what the checks name" in failed.reason.splitlines()[-1]


def test_an_upper_bound_alone_contradicts_nothing_and_confirms_nothing():
    # Of the nodes of trees, accounting has an upper bound on what the released sums show.
    trees = Trees(20, None)
    squared = {"client_squared": 5.0, "canary_squared": 5.0}
    release = _release(1.0, 1, distribution="tree", **squared, correlation=trees)
    assert exact_shift(release, release.client) is None
    accounted = accounted_of_run(release, Scope())
    above = epsilon_of_mu(math.sqrt(5.0), DELTA)
    consistent = _verdict(Claim(above / 2, DELTA))
    found = after_accounting(consistent, accounted)
    assert (found.outcome, found.basis) == ("inconclusive", "scores")
    assert found.reason.startswith("Accounting does not confirm the claim")
    assert "Nothing contradicts it." in found.reason
    kept = _verdict(Claim(above, DELTA))
    assert after_accounting(kept, accounted) == kept
    open_ = _verdict(Claim(above / 2, DELTA), Outcome.INCONCLUSIVE)
    assert after_accounting(open_, accounted) == open_


@pytest.mark.parametrize(
    ("claim", "outcome", "says"),
    [
        (GaussianClaim(3.9, DELTA), "contradicted", "the claimed μ: accounting gives 4.00"),
        (GaussianClaim(3.99, DELTA), "consistent", ""),
        (ZeroConcentratedClaim(7.9, DELTA), "contradicted", "the claimed ρ: accounting gives 8.00"),
        (ZeroConcentratedClaim(8.0, DELTA), "consistent", ""),
        (NoiseClaim(0.6, DELTA), "contradicted", "the claimed noise multiplier: it is 0.500"),
        (NoiseClaim(0.5, DELTA), "consistent", ""),
    ],
)
def test_curves_of_known_rounds_are_compared_in_their_own_units(claim, outcome, says):
    release = _release(0.5, 4)
    found = after_accounting(_verdict(claim), accounted_of_run(release, Scope()))
    assert found.outcome == outcome
    assert says in found.reason


@pytest.mark.parametrize(("share", "is_kept"), [(1.0, True), (0.95, False), (0.88, False)])
def test_a_rho_of_secret_rounds_without_amplification_is_compared_as_such(share, is_kept):
    """Trees give a sampled client the bound of known rounds, whoever knows them."""
    squared = {"client_squared": 16.0, "canary_squared": 16.0, "correlation": Trees(64, None)}
    sampled = MinSeparationSampling(0.5, 32, 64)
    release = release_of(5.0, sampled, rounds=64, distribution="tree", **squared)
    noise = Accounted(release, release.client, Attacker.DOES_NOT_KNOW_ROUNDS, "configured")
    kept = _verdict(ZeroConcentratedClaim(share * 16 / 50, DELTA))
    assert (after_accounting(kept, [noise]) == kept) == is_kept


@pytest.mark.parametrize(
    ("claim", "says"),
    [
        (GaussianClaim(2.1, DELTA), "noise gives μ ≤ 2.24 for"),
        (GaussianClaim(2.23, DELTA), None),
        # The curve of this ρ allows a larger ε at each delta than a Gaussian mechanism has.
        (ZeroConcentratedClaim(2.25, DELTA), "noise gives ρ ≤ 2.50 for"),
        (ZeroConcentratedClaim(2.49, DELTA), None),
        (ProfileClaim(((10.0, DELTA), (10.0, DELTA / 1000)), DELTA), "where the claim allows 10"),
        (ProfileClaim(((10.0, DELTA), (14.0, DELTA / 1000)), DELTA), None),
    ],
)
def test_a_curve_below_an_upper_bound_is_not_confirmed(claim, says):
    """A client of squared sensitivity 5 under trees, so that only an upper bound is known."""
    squared = {"client_squared": 5.0, "canary_squared": 5.0}
    release = _release(1.0, 1, distribution="tree", **squared, correlation=Trees(20, None))
    kept = _verdict(claim)
    found = after_accounting(kept, accounted_of_run(release, Scope()))
    assert (found == kept) == (says is None)
    if says is not None:
        assert (found.outcome, found.basis) == ("inconclusive", "scores")
        assert says in found.reason.splitlines()[0]


def test_a_curve_of_sampled_rounds_is_compared_at_four_deltas():
    """Sampled rounds have no mu of their own; at a small delta they leak more than one allows."""
    release = _release(0.8, PoissonSampling(0.05), rounds=60)
    at = {d: epsilon_at_least(release, release.client, d, knows_rounds=False) for d in (1e-3, 1e-6)}
    mu = next(m for m in np.arange(0.1, 9, 0.01) if epsilon_of_mu(m, 1e-3) > at[1e-3])
    assert epsilon_of_mu(mu, 1e-6) < 0.95 * at[1e-6]
    accounted = accounted_of_run(release, SAMPLED)
    found = after_accounting(_verdict(GaussianClaim(float(mu), 1e-3)), accounted)
    assert found.outcome == "contradicted"
    assert "where the claim allows" in found.reason
    enough = next(m for m in np.arange(0.1, 9, 0.01) if epsilon_of_mu(m, 1e-6) > 1.01 * at[1e-6])
    assert after_accounting(_verdict(GaussianClaim(float(enough), 1e-3)), accounted).outcome == (
        "consistent"
    )


@pytest.mark.parametrize(
    ("points", "outcome"),
    [
        (((2.0, DELTA),), "contradicted"),
        (((0.5, 0.1), (2.0, DELTA)), "contradicted"),
        (((1.0, 0.3), (30.0, DELTA)), "consistent"),
    ],
)
def test_a_profile_is_compared_at_a_point_of_its_own(points, outcome):
    accounted = accounted_of_run(_release(0.5, 4), Scope())
    found = after_accounting(_verdict(ProfileClaim(points, DELTA)), accounted)
    assert found.outcome == outcome
    assert outcome == "consistent" or found.reason.splitlines()[0].endswith("allows 2.04.")


def test_under_a_matrix_the_shift_is_exact_where_the_sensitivity_is():
    falling = Toeplitz.from_column(np.array([1.0, 0.5]), 20)
    rising = Toeplitz.from_column(np.array([1.0, 1.5]), 20)
    exact, loose = (
        _release(0.5, 2, distribution="matrix", client_squared=2.5, correlation=strategy)
        for strategy in (falling, rising)
    )
    assert exact_shift(exact, exact.client) == pytest.approx(math.sqrt(2.5) / 0.5)
    assert exact_shift(loose, loose.client) is None
    assert epsilon_at_least(loose, loose.client, DELTA, knows_rounds=True) is None


def test_one_round_that_a_draw_hides_leaks_less_than_a_known_one():
    release = _release(0.5, OneRoundPerBlock(1, ((20, 1),)))
    hidden, known = (
        epsilon_at_least(release, release.client, DELTA, knows_rounds=knows)
        for knows in (False, True)
    )
    assert hidden < known == pytest.approx(epsilon_of_mu(2.0, DELTA))


# Logs.


def test_a_log_that_says_nothing_of_clients_is_about_those_like_canaries():
    unknown = _release(0.35, UnknownRounds(), 1)
    at_least = epsilon_at_least(unknown, unknown.canary, DELTA, knows_rounds=True)
    (known,) = accounted_of_log(unknown, None, None, Scope(counts_on_sampling=False))
    found = after_accounting(_verdict(Claim(7.59, DELTA)), (known,))
    assert found.reason.startswith(
        "The stated noise does not give the claimed ε: accounting gives 12.3."
    )
    # Nothing says that the claim counts on no draw, which hides the round among all.
    (maybe,) = accounted_of_log(unknown, None, None, Scope(counts_on_sampling=None))
    hidden = maybe.at_least(DELTA)
    assert hidden < at_least
    between = _verdict(Claim((hidden + at_least) / 2, DELTA))
    assert after_accounting(between, (maybe,)).outcome == "inconclusive"
    below = _verdict(Claim(hidden / 1.02, DELTA))
    assert after_accounting(below, (maybe,)).outcome == "contradicted"


def test_coins_of_unknown_probability_give_no_lower_bound():
    # With a probability of 0.002 over ten rounds the exact epsilon is 0.75 at a delta of 1e-5.
    one_round = _release(0.6, 1, rounds=10)
    claim, scope = Claim(5.0, 1e-5), Scope(counts_on_sampling=True)
    exact = epsilon_at_least(one_round, Party(PoissonSampling(0.002)), 1e-5, knows_rounds=False)
    assert exact < 1
    assert epsilon_of_mu(1 / 0.6, 1e-5) > 5.5
    accounted = accounted_of_log(one_round, None, None, scope)
    assert after_accounting(_verdict(claim), accounted).outcome == "inconclusive"
    assert "client in one round, against an attacker who does not" in accounted[0].whom


@pytest.mark.parametrize("is_log", [False, True])
@pytest.mark.parametrize(
    ("client", "claim", "outcome"),
    [
        (4, Claim(0.97 * epsilon_of_mu(2.0, DELTA), DELTA), "contradicted"),
        (4, Claim(epsilon_of_mu(2.0, DELTA), DELTA), "consistent"),
        (4, GaussianClaim(1.9, DELTA), "contradicted"),
        (4, GaussianClaim(2.0, DELTA), "consistent"),
        (4, ZeroConcentratedClaim(1.9, DELTA), "contradicted"),
        (UnknownRounds(), Claim(0.1, DELTA), "consistent"),
    ],
)
def test_a_client_whose_uploads_are_seen_has_one_gaussian_mechanism(is_log, client, claim, outcome):
    facts = {} if is_log else {"client_squared": 0.04, "canary_squared": 0.04}
    release = _release(1.0, client, distribution="client_gaussian", **facts)
    accounted = accounted_of_run(release, Scope())
    if is_log:
        accounted = accounted_of_log(None, release, None, Scope())
    assert after_accounting(_verdict(claim), accounted).outcome == outcome


def test_rounds_with_more_noise_do_not_count_as_the_one_with_least():
    # Five rounds: one with noise of 0.5, four of 2, so that mu is sqrt(5) and not sqrt(20).
    stated = _release(0.5, 5)
    scope = Scope(counts_on_sampling=False)
    (noise,) = accounted_of_log(stated, None, None, scope, most_noise=2.0)
    right = _verdict(Claim(epsilon_of_mu(5**0.5, DELTA), DELTA))
    assert after_accounting(right, (noise,)).outcome != "contradicted"
    wrong = _verdict(Claim(0.9 * epsilon_of_mu(5**0.5 / 2, DELTA), DELTA))
    assert after_accounting(wrong, (noise,)).outcome == "contradicted"
    # One round may be that with the least noise.
    one = _release(0.5)
    (noise,) = accounted_of_log(one, None, None, scope, most_noise=2.0)
    assert noise.at_least(DELTA) == pytest.approx(epsilon_of_mu(2.0, DELTA))


@pytest.mark.parametrize("weight", [0.5, 2.0])
def test_clients_of_another_weight_are_not_accounted_for_by_canaries(weight):
    unknown = _release(0.35, UnknownRounds(), 1)
    assert accounted_of_log(unknown, None, weight, Scope()) == ()
    assert accounted_of_log(None, None, None, Scope()) == ()


@pytest.mark.parametrize("mechanism", ["gaussian_fixed", "matrix_factorisation"])
@pytest.mark.parametrize(
    "keys",
    [{"kind": "min_separation", "separation": 2}, {"kind": "shuffle"}],
    ids=["min_separation", "shuffle"],
)
def test_no_lower_bound_is_above_what_the_drawn_rounds_give(mechanism, keys):
    """The busiest client of a draw has fewer rounds, or rounds further apart, than it may have."""
    table = {
        "task": {"kind": "numbers", "num_clients": 1_000, "dim": 10},
        "mechanism": {"kind": mechanism, "noise_multiplier": 1.0, "clip_norm": 1.0},
        "participation": {"rounds": 500, "clients_per_round": 10, **keys},
        "canaries": {"count": 0},
        "audit": {"delta": DELTA},
    }
    if mechanism == "matrix_factorisation":
        table["mechanism"] |= {"strategy": "banded_sqrt", "bands": 32}
    clients = [f"client-{index}" for index in range(1_000)]
    design = design_run(parse_config(table, "small"), clients, 0)
    presences = np.zeros((1_000, 500))
    for index in range(500):
        presences[design.schedule.clients(index), index] = 1
    column = np.zeros(500)
    column[:32] = special.binom(2 * np.arange(32), np.arange(32)) / 4.0 ** np.arange(32)
    if mechanism == "gaussian_fixed":
        column[1:] = 0
    moved = presences @ linalg.toeplitz(column, np.zeros(500)).T
    shift = math.sqrt(np.square(moved).sum(axis=1).max())
    release = design.release
    lower = epsilon_at_least(release, release.client, DELTA, knows_rounds=True)
    assert (lower is None) == (keys["kind"] == "min_separation" or mechanism != "gaussian_fixed")
    assert lower is None or lower <= epsilon_of_mu(shift, DELTA) * (1 + 1e-9)
    assert exact_shift(release, release.client) in (None, pytest.approx(shift))
