"""Cohorts of fixed size, drawn uniformly without replacement."""

import attendance
import numpy as np
import pytest
from attendance import INCLUDED, POOL, chi_square, schedule_of

from fl_audit.accounting import FixedSizeSampling
from fl_audit.config import Uniform

CANARIES = np.flatnonzero(INCLUDED)


def test_every_round_draws_the_same_number_of_clients_and_pool():
    # With every coin on "included", everybody who is drawn shows.
    everybody = np.ones(POOL, bool)
    schedule = schedule_of(Uniform(rounds=200, clients_per_round=12), 60, everybody)
    table = attendance.attendance(schedule, 60)
    sizes = table.clients.sum(axis=1) + table.canaries.sum(axis=1)
    assert set(sizes) == {12 + round(12 * POOL / 60)}
    assert table.clients.max() == table.canaries.max() == 1
    assert schedule.client_attendance.sampling == FixedSizeSampling(32, 161)


@pytest.mark.parametrize("placement", ["repeats", "last_rounds"])
def test_with_placed_canaries_every_round_has_exactly_the_configs_clients(placement):
    last = {"canary_last_rounds": 10} if placement == "last_rounds" else {}
    config = Uniform(rounds=200, clients_per_round=12, canaries=placement, **last)
    schedule = schedule_of(config, 60)
    table = attendance.attendance(schedule, 60)
    assert set(table.clients.sum(axis=1)) == {12}
    assert schedule.expected_clients == 12
    assert schedule.client_attendance.sampling == FixedSizeSampling(12, 60)


def test_every_pair_is_equally_likely_to_be_drawn_together():
    # 2 of 5 in 5,000 rounds: 10 pairs, as likely as each other and independent between rounds.
    config = Uniform(rounds=5_000, clients_per_round=2, canaries="repeats")
    schedule = schedule_of(config, 5)
    pairs = [tuple(schedule.clients(r)) for r in range(5_000)]
    found, counts = np.unique(pairs, axis=0, return_counts=True)
    assert len(found) == 10
    # 9 degrees of freedom: chi2.sf(50, 9) = 1e-7.
    assert chi_square(counts, 500) < 50
    # Successive rounds: 100 pairs of pairs, 4,999 of them; chi2.sf(190, 99) = 1e-7.
    index = {tuple(pair): i for i, pair in enumerate(found.tolist())}
    code = np.array([index[tuple(map(int, pair))] for pair in pairs])
    successions = np.bincount(10 * code[1:] + code[:-1], minlength=100)
    assert chi_square(successions, 4_999 / 100) < 195
