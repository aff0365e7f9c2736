"""Noise that a matrix correlates: its covariance, its streams, its table and its accounting."""

import functools
import json

import msgspec
import numpy as np
import pytest

from fl_audit.accounting import account, attacker_bounds
from fl_audit.accounting.gaussian_accountants import account_gaussian
from fl_audit.canaries.canary_tables import Canaries
from fl_audit.config import (
    EveryRound,
    GaussianFixed,
    MatrixFactorisation,
    MinSeparation,
    Shuffle,
)
from fl_audit.errors import InputError
from fl_audit.mechanisms import describe, round_noise
from fl_audit.mechanisms.matrix import strategy_of, stream_of
from fl_audit.participation import make_schedule

CLIP, COHORT, ROUNDS = 0.25, 4.0, 7

KEYS = {
    "sqrt": {},
    "banded_sqrt": {"bands": 3},
    "banded_inverse_sqrt": {"bands": 3},
    "blt": {"buffers": 2},
    "file": {"coefficients": "set by a fixture"},
}


@pytest.fixture(scope="module")
def table_of(tmp_path_factory):
    path = tmp_path_factory.mktemp("coefficients") / "column.npy"
    np.save(path, np.array([2.0, 1.0, 0.5]))

    def table(strategy, noise_multiplier=2.0, **keys):
        keys = KEYS[strategy] | keys
        if strategy == "file":
            keys["coefficients"] = str(path)
        return MatrixFactorisation(
            noise_multiplier=noise_multiplier, clip_norm=CLIP, strategy=strategy, **keys
        )

    return table


def unrolled(stream, num_rounds):
    """The matrix from fresh noise to noise, by the stream's own recurrence in float64."""
    kept, rows = np.zeros((len(stream.weights), num_rounds)), []
    for fresh in np.eye(num_rounds):
        noise = stream.fresh * fresh + np.array(stream.weights) @ kept
        if stream.decays is not None:
            kept = np.array(stream.decays)[:, None] * kept + noise
        elif len(kept):
            kept = np.vstack([fresh if stream.keeps_fresh else noise, kept[:-1]])
        rows.append(noise)
    return np.stack(rows)


def dense(strategy):
    return np.stack([strategy.times(row[None])[0] for row in np.eye(strategy.num_rounds)], axis=1)


@pytest.mark.parametrize("strategy", KEYS)
@pytest.mark.parametrize("num_rounds", [1, 2, 40])
def test_a_stream_is_the_inverse_of_its_strategy(table_of, strategy, num_rounds):
    table = table_of(strategy)
    product = dense(strategy_of(table, num_rounds)) @ unrolled(
        stream_of(table, num_rounds), num_rounds
    )
    np.testing.assert_allclose(product, np.eye(num_rounds), atol=1e-10)


# The query, in TFF.


@pytest.fixture(scope="module")
def aggregation_of():
    from fl_audit.engines.tff.compiled import LocalContext, local_runtime
    from tests.engines.tff.aggregation import Aggregation

    # Building and compiling one takes a second or two.
    built = functools.cache(lambda config, dim: Aggregation(config, COHORT, dim, ROUNDS))

    def begin(config, dim=40_000):
        aggregation = built(config, dim)
        aggregation.state = aggregation.initialize()
        return aggregation

    with local_runtime(LocalContext(num_threads=2)):
        yield begin


def noise_of(aggregation, rounds=ROUNDS):
    """The noise of rounds without anybody, in standard deviations of z, float64."""
    added = [aggregation.run([]) * COHORT / (2.0 * CLIP) for _ in range(rounds)]
    return np.array(added, np.float64)


@pytest.mark.sampled(2)
@pytest.mark.tff
@pytest.mark.parametrize("strategy", KEYS)
def test_whitened_noise_is_white(aggregation_of, table_of, strategy):
    table = table_of(strategy)
    white = dense(strategy_of(table, ROUNDS)) @ noise_of(aggregation_of(table))
    dim = white.shape[1]
    # A variance of n normals has standard error (2 / n)^(1/2), a covariance of two n^(-1/2). Six of
    # them, 28 times in 5 tests, fail once in 4e6.
    covariance = white @ white.T / dim - np.eye(ROUNDS)
    assert np.abs(np.diag(covariance)).max() < 6 * (2 / dim) ** 0.5
    assert np.abs(covariance - np.diag(np.diag(covariance))).max() < 6 * dim**-0.5


@pytest.mark.sampled(1)
@pytest.mark.tff
@pytest.mark.parametrize("strategy", ["sqrt", "banded_inverse_sqrt"])
@pytest.mark.parametrize("most", [1, 2, 4])
def test_a_ring_of_few_blocks_makes_the_same_noise(
    aggregation_of, table_of, strategy, most, monkeypatch
):
    from fl_audit.mechanisms import tff_aggregators
    from tests.engines.tff.aggregation import Aggregation

    rounds = 12
    table = table_of(strategy, **({} if strategy == "sqrt" else {"bands": 8}))
    wide = Aggregation(table, COHORT, 64, rounds)
    key = wide.initial_state.query_state.numerator_state.key
    monkeypatch.setattr(tff_aggregators, "_MOST_BLOCKS", most)
    monkeypatch.setattr(tff_aggregators, "_AT_ONCE", 100)
    few = Aggregation(table, COHORT, 64, rounds)
    kept = few.state.query_state.numerator_state.past
    assert len(kept) <= most
    assert len(kept[0]) > 1
    query = few.state.query_state
    few.state = few.state._replace(
        query_state=query._replace(numerator_state=query.numerator_state._replace(key=key))
    )
    np.testing.assert_allclose(noise_of(few, rounds), noise_of(wide, rounds), rtol=1e-4, atol=1e-5)


@pytest.mark.tff
def test_two_runs_and_two_tensors_have_different_noise(aggregation_of, table_of):
    table = table_of("banded_sqrt")
    first, second = (noise_of(aggregation_of(table), 1)[0] for _ in range(2))
    half = len(first) // 4
    # Correlations of independent normals have standard error n^(-1/2); six of them: 1 in 2.5e8.
    assert abs(np.corrcoef(first, second)[0, 1]) < 6 * len(first) ** -0.5
    assert abs(np.corrcoef(first[:half], first[half : 2 * half])[0, 1]) < 6 * half**-0.5


@pytest.mark.sampled(1)
@pytest.mark.tff
@pytest.mark.parametrize("strategy", ["banded_sqrt", "blt"])
def test_a_stream_goes_on_from_a_checkpoint(aggregation_of, table_of, strategy, tmp_path):
    import tensorflow as tf

    from fl_audit.run.folder_and_checkpoints import Checkpoint, load_checkpoint, save_checkpoint

    aggregation = aggregation_of(table_of(strategy), dim=64)
    initial = aggregation.state
    noise_of(aggregation, 3)
    save_checkpoint(tmp_path / "checkpoint.npz", Checkpoint(3, tf.nest.flatten(aggregation.state)))
    rest = noise_of(aggregation, 3)
    loaded = load_checkpoint(tmp_path / "checkpoint.npz", tf.nest.flatten(initial))
    aggregation.state = tf.nest.pack_sequence_as(initial, loaded.leaves)
    np.testing.assert_array_equal(noise_of(aggregation, 3), rest)


@pytest.mark.tff
def test_updates_are_clipped_and_added(aggregation_of, table_of):
    aggregation = aggregation_of(table_of("sqrt", noise_multiplier=0.0), dim=64)
    update = np.full(64, 1 / 8)
    for length in (1.0, 0.1):
        arrived = aggregation.run([length * update] * 2) * COHORT
        np.testing.assert_allclose(arrived, 2 * min(length, CLIP) * update, rtol=1e-6)


# The table and the file.


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({"strategy": "banded_sqrt"}, "strategy 'banded_sqrt' needs bands"),
        ({"strategy": "blt"}, "strategy 'blt' needs buffers"),
        ({"strategy": "file"}, "strategy 'file' needs coefficients"),
        ({"strategy": "sqrt", "bands": 3}, "bands is not for strategy 'sqrt', which needs no"),
        ({"strategy": "blt", "buffers": 3, "bands": 2}, "bands is not for .* needs buffers"),
        ({"strategy": "blt", "buffers": 11}, "buffers must be from 1 to 10, got 11"),
        ({"strategy": "sqrt", "epsilon": 1.0}, "both determine the noise"),
        ({"strategy": "cholesky"}, "Invalid enum value 'cholesky'"),
    ],
)
def test_tables_that_are_refused(keys, message):
    fields = {"kind": "matrix_factorisation", "noise_multiplier": 1.0, "clip_norm": 1.0} | keys
    with pytest.raises(msgspec.ValidationError, match=message):
        msgspec.json.decode(json.dumps(fields), type=MatrixFactorisation)


@pytest.mark.parametrize(
    ("column", "message"),
    [
        (np.ones((2, 2)), r"must be numbers of shape \(bands,\)"),
        (np.zeros(0), r"must be numbers of shape \(bands,\)"),
        (np.array(["one"]), r"must be numbers of shape \(bands,\)"),
        (np.array([0.0, 1.0]), "must be finite numbers, the first of them above 0"),
        (np.array([1.0, np.nan]), "must be finite numbers"),
        (np.array([1.0, 2.0]), "the inverse of this matrix grows"),
    ],
)
def test_files_that_are_refused(tmp_path, column, message):
    path = tmp_path / "column.npy"
    np.save(path, column)
    table = MatrixFactorisation(
        noise_multiplier=1.0, clip_norm=1.0, strategy="file", coefficients=str(path)
    )
    with pytest.raises(InputError, match=rf"mechanism\.coefficients: .*column\.npy.*{message}"):
        strategy_of(table, 100)


# What it guarantees.


def released(table, participation, clients=60):
    included = np.arange(20) % 2 == 0
    schedule = make_schedule(
        participation, Canaries(count=20), 1, [f"client-{i}" for i in range(clients)], included
    )
    noise = round_noise(table, schedule.expected_cohort)
    return describe(table, noise, schedule, num_canaries=20)


def test_without_correlation_it_is_independent_noise(table_of):
    participation = Shuffle(rounds=12, clients_per_round=10)
    one_band = released(table_of("banded_sqrt", bands=1), participation)
    plain = released(GaussianFixed(noise_multiplier=2.0, clip_norm=CLIP), participation)
    for party in ("client", "canary"):
        ours, theirs = (getattr(account(one, 1e-5), party) for one in (one_band, plain))
        assert ours == theirs
        shifts = [
            attacker_bounds(one, getattr(one, party), 1e-5).knowing_rounds.pair.shift
            for one in (one_band, plain)
        ]
        assert shifts[0] == pytest.approx(shifts[1], rel=1e-12)


def test_a_canary_in_one_round_and_clients_in_groups(table_of):
    table = table_of("banded_sqrt", bands=4)
    strategy = strategy_of(table, 12)
    drawn = MinSeparation(rounds=12, clients_per_round=10, separation=4)
    release = released(table, drawn)
    assert release.client.squared_sensitivity == pytest.approx(strategy.min_separation(3, 4))
    once = released(table, Shuffle(rounds=12, clients_per_round=10))
    worst = max(np.square(dense(strategy)).sum(axis=0))
    assert once.canary.squared_sensitivity <= worst * (1 + 1e-12)
    found = account(once, 1e-5).canary.by_accountant
    assert found == account_gaussian(2.0, once.canary.squared_sensitivity, 1e-5)


def test_the_release_says_how_its_noise_is_correlated(table_of):
    table = table_of("blt")
    release = released(table, EveryRound(rounds=9))
    assert release.correlation == strategy_of(table, 9)
    all_rounds = dense(release.correlation).sum(axis=1)
    assert release.client.squared_sensitivity == pytest.approx(all_rounds @ all_rounds)


def test_a_file_that_changes_is_read_again(tmp_path):
    path = str(tmp_path / "c.npy")
    table = MatrixFactorisation(
        noise_multiplier=1.0, clip_norm=1.0, strategy="file", coefficients=path
    )
    for column in ((1.0, 0.5), (1.0, 0.25)):
        np.save(path, np.array(column))
        assert strategy_of(table, 3).first_column == column
