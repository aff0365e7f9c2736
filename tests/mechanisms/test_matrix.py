"""Noise that a matrix correlates: its covariance, its streams, its table and its accounting."""

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
def _runtime():
    from fl_audit.engines.tff.compiled import LocalContext, local_runtime

    with local_runtime(LocalContext(num_threads=2)):
        yield


def noise_of(aggregation, rounds=ROUNDS):
    """The noise of rounds without anybody, in standard deviations of z, float64."""
    added = [aggregation.run([]) * COHORT / (2.0 * CLIP) for _ in range(rounds)]
    return np.array(added, np.float64)


SLOW = pytest.mark.slow
QUERIES = [
    ("sqrt", 2),  # six vectors are kept: a ring of two blocks
    ("blt", 32),
    *(pytest.param(strategy, 32, marks=SLOW) for strategy in KEYS if strategy != "blt"),
    *(pytest.param("sqrt", most, marks=SLOW) for most in (1, 4)),
    *(pytest.param("banded_inverse_sqrt", most, marks=SLOW) for most in (1, 2)),
]
"""Strategies, and the largest number of blocks of kept vectors."""


@pytest.mark.tff
@pytest.mark.usefixtures("_runtime")
@pytest.mark.parametrize(("strategy", "most"), QUERIES)
def test_noise_is_that_of_the_strategy_and_of_the_key(table_of, strategy, most, monkeypatch):
    import tensorflow as tf

    from fl_audit.mechanisms import tff_aggregators
    from fl_audit.mechanisms.tff_noise import normal_like
    from tests.engines.tff.aggregation import Aggregation

    dim, table = 4000, table_of(strategy)
    monkeypatch.setattr(tff_aggregators, "_MOST_BLOCKS", most)
    monkeypatch.setattr(tff_aggregators, "_AT_ONCE", 3 * dim)
    aggregation = Aggregation(table, COHORT, dim, ROUNDS)
    begun = aggregation.state.query_state.numerator_state
    assert len(begun.past) <= most
    noise = noise_of(aggregation)
    specs = [tf.TensorSpec([size]) for size in (dim // 4, dim - dim // 4)]
    fresh = np.array(
        [np.concatenate(normal_like(begun.key, number, specs)) for number in range(ROUNDS)]
    )
    white = dense(strategy_of(table, ROUNDS)) @ noise
    np.testing.assert_allclose(white, fresh, atol=2e-5)

    # Another run has another key; rounds and the two tensors of an update have noise of their own.
    aggregation.state = aggregation.initialize()
    noises = [*fresh, noise_of(aggregation, 1)[0] / stream_of(table, ROUNDS).fresh]
    # A variance of n normals has standard error (2 / n)^(1/2), a correlation n^(-1/2); six of them,
    # 37 times in 10 tests, fail once in 1e6.
    np.testing.assert_allclose(np.mean(np.square(noises), axis=1), 1, atol=6 * (2 / dim) ** 0.5)
    assert np.abs(np.corrcoef(noises) - np.eye(len(noises))).max() < 6 * dim**-0.5
    first, second = fresh[0][: dim // 4], fresh[0][dim // 4 : dim // 2]
    assert abs(np.corrcoef(first, second)[0, 1]) < 6 * (dim // 4) ** -0.5


@pytest.mark.tff
@pytest.mark.usefixtures("_runtime")
@pytest.mark.parametrize("strategy", ["banded_sqrt", pytest.param("blt", marks=SLOW)])
def test_updates_are_clipped_and_a_stream_goes_on_from_a_checkpoint(table_of, strategy, tmp_path):
    import tensorflow as tf

    from fl_audit.run.folder_and_checkpoints import Checkpoint, load_checkpoint, save_checkpoint
    from tests.engines.tff.aggregation import Aggregation

    aggregation = Aggregation(table_of(strategy), COHORT, 64, ROUNDS)
    noise_of(aggregation, 3)
    reached = aggregation.state
    save_checkpoint(tmp_path / "checkpoint.npz", Checkpoint(3, tf.nest.flatten(reached)))
    rest = noise_of(aggregation, 3)
    like = aggregation.initial_state
    loaded = load_checkpoint(tmp_path / "checkpoint.npz", tf.nest.flatten(like))
    aggregation.state = tf.nest.pack_sequence_as(like, loaded.leaves)
    np.testing.assert_array_equal(noise_of(aggregation, 3), rest)

    # What updates add to the noise that the state has fixed.
    update = np.full(64, 1 / 8)
    for length in (1.0, 0.1):
        aggregation.state = reached
        added = aggregation.run([length * update] * 2) * COHORT - rest[0] * 2.0 * CLIP
        np.testing.assert_allclose(added, 2 * min(length, CLIP) * update, atol=1e-6)


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
