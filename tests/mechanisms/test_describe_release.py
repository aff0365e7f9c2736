"""How far clients and canaries move a run's trees, against their rounds in its schedule."""

import numpy as np
import pytest

from fl_audit.accounting.tree_nodes import Trees, squared_sensitivities
from fl_audit.config import (
    Bernoulli,
    Canaries,
    ClientGaussian,
    EveryRound,
    MinSeparation,
    Replay,
    Shuffle,
    TreeAggregation,
    Uniform,
)
from fl_audit.mechanisms import MECHANISMS, describe
from fl_audit.participation import make_schedule

ROUNDS, CLIENTS = 23, 40
TREE = TreeAggregation(noise_multiplier=1.0, clip_norm=1.0, restart_every=9)


def described(participation, mechanism=TREE):
    included = np.arange(30) % 2 == 0
    ids = [f"client-{i}" for i in range(CLIENTS)]
    schedule = make_schedule(participation, Canaries(count=30), 1, ids, included)
    noise = MECHANISMS.kind_of(mechanism).noise_distribution.noise(1.0, 1.0)
    return describe(mechanism, noise, schedule, num_canaries=30), schedule


def largest_seen(draw):
    """Of whoever is worst off in the schedule that was drawn."""
    cohorts = [draw(r) for r in range(ROUNDS)]
    rounds = np.repeat(np.arange(ROUNDS), [len(cohort) for cohort in cohorts])
    return squared_sensitivities(np.concatenate(cohorts), rounds, Trees(ROUNDS, 9)).max()


@pytest.mark.parametrize(
    "participation",
    [
        Shuffle(rounds=ROUNDS, clients_per_round=7),
        Shuffle(rounds=ROUNDS, clients_per_round=7, canaries="once_per_epoch"),
        Shuffle(rounds=ROUNDS, clients_per_round=7, canary_repeats=3),
        Shuffle(rounds=ROUNDS, clients_per_round=7, canary_repeats=3, canary_first_rounds=12),
        EveryRound(rounds=ROUNDS),
        MinSeparation(rounds=ROUNDS, clients_per_round=8, separation=5),
        MinSeparation(rounds=ROUNDS, clients_per_round=8, separation=5, canaries="most_frequent"),
    ],
)
def test_nobody_moves_the_trees_further(participation):
    release, schedule = described(participation)
    assert release.noise.distribution == "tree"
    assert largest_seen(schedule.clients) <= release.client.squared_sensitivity
    assert largest_seen(schedule.canaries) <= release.canary.squared_sensitivity
    # With forty clients somebody meets the worst rounds or nearly.
    assert release.client.squared_sensitivity <= 1.3 * largest_seen(schedule.clients)


def test_every_round_and_replay_are_exact(tmp_path):
    log = tmp_path / "log.csv"
    taken = {0: [0], 3: [0, 1], 4: [0], 22: [1, 2]}
    rows = [f"{r},client-{c}" for r in range(ROUNDS) for c in (*taken.get(r, ()), 10 + r)]
    log.write_text("\n".join(["round,client_id", *rows]) + "\n")
    for participation in (EveryRound(rounds=ROUNDS), Replay(path=str(log))):
        release, schedule = described(participation)
        assert release.client.squared_sensitivity == largest_seen(schedule.clients)
        assert release.canary.squared_sensitivity == largest_seen(schedule.canaries)


@pytest.mark.parametrize("kind", [Bernoulli, Uniform])
def test_drawn_rounds_have_no_worst_but_placed_canaries_do(kind):
    release, _ = described(kind(rounds=ROUNDS, clients_per_round=7))
    assert (release.client.squared_sensitivity, release.canary.squared_sensitivity) == (None, None)
    placed = kind(rounds=ROUNDS, clients_per_round=7, canaries="repeats")
    release, schedule = described(placed)
    assert release.client.squared_sensitivity is None
    # One of nine rounds of a tree: in four nodes at most.
    assert release.canary.squared_sensitivity == largest_seen(schedule.canaries) <= 4


@pytest.mark.parametrize(
    ("participation", "is_drawn"),
    [
        (Shuffle(rounds=ROUNDS, clients_per_round=7, canary_repeats=3), False),
        (MinSeparation(rounds=ROUNDS, clients_per_round=8, separation=5), False),
        (Bernoulli(rounds=ROUNDS, clients_per_round=7), True),
    ],
)
def test_noise_at_the_client_is_accounted_at_the_cohorts(participation, is_drawn):
    """By brute force: one over the participants, over the rounds of whoever is worst off."""
    mechanism = ClientGaussian(noise_multiplier=1.0, clip_norm=1.0)
    release, schedule = described(participation, mechanism)
    cohorts = [schedule.cohort(r) for r in range(ROUNDS)]
    sizes = [len(cohort.clients) + len(cohort.canaries) for cohort in cohorts]
    totals: dict[tuple[str, int], float] = {}
    for cohort, size in zip(cohorts, sizes, strict=True):
        for party, members in (("client", cohort.clients), ("canary", cohort.canaries)):
            for member in members.tolist():
                totals[party, member] = totals.get((party, member), 0.0) + 1 / size
    for party, said in (("client", release.client), ("canary", release.canary)):
        worst = max(total for (name, _), total in totals.items() if name == party)
        if is_drawn:
            assert worst < said.squared_sensitivity
            assert said.squared_sensitivity == pytest.approx(sum(1 / n for n in sizes if n))
        else:
            assert said.squared_sensitivity == pytest.approx(worst)
    assert release.fewest == min(sizes)
