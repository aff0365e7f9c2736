"""What can be checked before a file is written, and what identifies a run."""

import csv
import io

import msgspec
import numpy as np
import pytest

from fl_audit.config import (
    Audit,
    Bernoulli,
    Canaries,
    Config,
    DigitsTask,
    FedAvg,
    GaussianAdaptive,
    GaussianFixed,
    Replay,
    Shuffle,
)
from fl_audit.engines.cohort import CohortData
from fl_audit.engines.prepare import canaries_csv, prepare
from fl_audit.errors import InputError
from fl_audit.participation import Cohort

_CONFIG = Config(
    task=DigitsTask(num_clients=50, hidden=(8,)),
    mechanism=GaussianFixed(noise_multiplier=0.0, clip_norm=1.0),
    participation=Shuffle(rounds=12, clients_per_round=10, canary_repeats=3),
    canaries=Canaries(count=40),
    seed=4,
)


def _with(**changes):
    return msgspec.structs.replace(_CONFIG, **changes)


def test_delta_defaults_to_the_papers_rule():
    assert prepare(_CONFIG).delta == pytest.approx(50**-1.1)
    assert prepare(_with(audit=Audit(delta=1e-6))).delta == 1e-6


def test_the_sum_is_divided_by_clients_and_canaries_expected_in_a_round():
    run = prepare(_CONFIG)
    assert run.schedule.expected_cohort == pytest.approx(10 + run.included.sum() * 3 / 12)


def test_the_pools_file_lists_each_canarys_rounds():
    run = prepare(_CONFIG)
    rows = list(csv.DictReader(io.StringIO(canaries_csv(run))))
    assert [row["included"] for row in rows] == [str(int(i)) for i in run.included]
    for row in rows:
        rounds = [int(r) for r in row["rounds"].split()]
        parts = [(r - 1) // 4 for r in rounds]
        assert parts == [0, 1, 2]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"participation": Shuffle(rounds=5, clients_per_round=51)},
            r"participation\.clients_per_round: 51 of 50 real clients; must be at most 50",
        ),
        (
            {"participation": Shuffle(rounds=2, clients_per_round=5, canary_repeats=3)},
            r"participation\.canary_repeats: 3 rounds per canary .* must be at most 2",
        ),
        (
            {"canaries": Canaries(count=100_000)},
            r"canaries\.count: more canaries than can be scheduled: .* must be at most 200",
        ),
        (
            {
                "participation": Bernoulli(rounds=2, clients_per_round=50),
                "canaries": Canaries(count=1000),
            },
            r"canaries\.count: more canaries than can be scheduled",
        ),
        (
            {"mechanism": GaussianAdaptive(noise_multiplier=2.0, clipped_count_stddev=0.9)},
            r"mechanism\.clipped_count_stddev: 0\.9 .* must be more than 1",
        ),
        (
            {"mechanism": GaussianAdaptive(noise_multiplier=2.0)},
            r"mechanism\.clipped_count_stddev: .* must be more than 1",
        ),
    ],
)
def test_parts_that_do_not_fit_together_are_refused(changes, message):
    with pytest.raises(InputError, match=message) as caught:
        prepare(_with(**changes))
    assert "\n" not in str(caught.value)


def test_a_seed_gives_the_same_run_and_another_seed_another():
    first, again, other = prepare(_CONFIG), prepare(_CONFIG), prepare(_with(seed=5))
    np.testing.assert_array_equal(first.included, again.included)
    np.testing.assert_array_equal(first.family.vector(3), again.family.vector(3))
    assert canaries_csv(first) == canaries_csv(again) != canaries_csv(other)
    assert not np.array_equal(first.family.vector(3), other.family.vector(3))


def test_local_order_changes_with_the_round_and_not_with_the_cohort():
    data = CohortData(prepare(_CONFIG).task, FedAvg(), seed=0)

    def labels(clients, round_index):
        cohort = Cohort(np.array(clients), np.zeros(0, np.int64))
        return data.round_data(cohort, round_index).clients[-1].labels.tolist()

    assert labels([8], 0) == labels([1, 8], 0)
    assert sorted(labels([8], 0)) == sorted(labels([8], 1))
    assert len({tuple(labels([8], r)) for r in range(20)}) > 1


def test_a_window_beyond_a_replayed_log_is_refused(tmp_path):
    """How many rounds a log has, the config does not say."""
    log = tmp_path / "log.csv"
    rows = [f"{number},client-{client}" for number in range(1, 4) for client in range(5)]
    log.write_text("\n".join(["round,client_id", *rows]) + "\n")
    window = {"threat_models": ("window",), "window_first_round": 2}

    def replayed(last_round):
        audit = Audit(**window, window_last_round=last_round)
        return _with(participation=Replay(path=str(log)), audit=audit)

    assert prepare(replayed(3)).schedule.num_rounds == 3
    message = "config: key `audit.window_last_round`: is 4 of 3 rounds; must be at most 3"
    with pytest.raises(InputError, match=message):
        prepare(replayed(4))
