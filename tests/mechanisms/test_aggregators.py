"""Each mechanism's aggregator, run: what it clips, zeroes, adds and tells of itself."""

import functools

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_federated as tff

from fl_audit.canaries.families import GaussianFamily, RademacherFamily
from fl_audit.config import (
    AdaptiveZeroing,
    Distributed,
    FixedZeroing,
    GaussianAdaptive,
    GaussianFixed,
    NoPrivacy,
    TreeAggregation,
)
from fl_audit.engines.tff.compiled import LocalContext, local_runtime
from fl_audit.errors import InputError
from fl_audit.mechanisms import canary_norm, clip_and_noise, round_noise
from fl_audit.run.folder_and_checkpoints import Checkpoint, load_checkpoint, save_checkpoint
from tests.engines.tff.aggregation import Aggregation

pytestmark = pytest.mark.tff

CLIP, COHORT, DIM = 0.25, 4.0, 64


@pytest.fixture(scope="module", autouse=True)
def _runtime():
    with local_runtime(LocalContext(num_threads=2)):
        yield


@pytest.fixture(scope="module")
def aggregation_of():
    # Building and compiling one takes a second or two.
    built = functools.cache(lambda config, dim: Aggregation(config, COHORT, dim))

    def begin(config, dim=DIM):
        aggregation = built(config, dim)
        aggregation.state = aggregation.initial_state
        return aggregation

    return begin


def unit(dim=DIM, seed=0):
    return RademacherFamily(seed=seed, num_canaries=1, dim=dim).vector(0)


ZEROED = [
    GaussianFixed(noise_multiplier=0.0, clip_norm=CLIP, zeroing=FixedZeroing(norm=norm))
    # Far above the clip norm, between one and two clip norms, below.
    for norm in (10.0, 1.5 * CLIP, 0.9 * CLIP)
] + [
    GaussianAdaptive(noise_multiplier=0.0, clip_norm=CLIP, zeroing=FixedZeroing(norm=1.0)),
    TreeAggregation(noise_multiplier=0.0, clip_norm=CLIP, zeroing=AdaptiveZeroing()),
]


@pytest.mark.sampled(2)
@pytest.mark.parametrize("config", ZEROED)
def test_a_canary_survives_zeroing_and_arrives_at_the_clip_norm(aggregation_of, config):
    aggregation = aggregation_of(config)
    for seed in range(3):
        canary = GaussianFamily(seed=seed, num_canaries=1, dim=DIM).vector(0)
        clip_norm = clip_and_noise(aggregation.config, aggregation.state).clip_norm
        norm = canary_norm(config, aggregation.state)
        arrived = aggregation.run([norm * canary]) * COHORT
        np.testing.assert_allclose(arrived, clip_norm * canary, rtol=1e-4)


def test_a_canary_in_one_coordinate_survives(aggregation_of):
    dirac = np.eye(1, DIM)[0]  # the worst case for zeroing
    aggregation = aggregation_of(ZEROED[1])
    arrived = aggregation.run([canary_norm(ZEROED[1], aggregation.state) * dirac]) * COHORT
    np.testing.assert_allclose(arrived, CLIP * dirac, rtol=1e-4)


def test_adaptive_zeroing_follows_the_updates(aggregation_of):
    config = NoPrivacy(
        canary_norm=1.0, zeroing=AdaptiveZeroing(initial_estimate=1.0, increment=0.0)
    )
    aggregation = aggregation_of(config)
    # Largest coordinate 80 / 8 = 10: above 2 x 1, so it is zeroed; a tenfold step up is 0.98 of 1.
    assert not aggregation.run([80 * unit()] * 2).any()
    assert aggregation.run([80 * unit()] * 2).any()


def test_an_empty_cohort_gives_nothing(aggregation_of):
    for config in (NoPrivacy(canary_norm=7.5), ZEROED[-1]):
        assert not aggregation_of(config).run([]).any()


def noise_of_sums(aggregation, rounds):
    """Of sums over the first rounds, all without anybody; over the noise of a node."""
    assert clip_and_noise(aggregation.config, aggregation.state).stddev == pytest.approx(2.0 * CLIP)
    assert clip_and_noise(aggregation.config, aggregation.state).clip_norm == pytest.approx(CLIP)
    added = [aggregation.run([]) * COHORT / (2.0 * CLIP) for _ in range(rounds)]
    return np.cumsum(np.array(added, np.float64), axis=0)


# Variance of a node's estimate over that of its noise, by height (Honaker 2015): 1 / (2 - 2^-h).
LEAF, PAIR, FOUR = 1.0, 1 / 1.5, 1 / 1.75

SUMS = {
    None: [LEAF, PAIR, PAIR + LEAF, FOUR, FOUR + LEAF],
    # A new tree every other round: sums of earlier trees stay as they are.
    2: [LEAF, PAIR, PAIR + LEAF, 2 * PAIR, 2 * PAIR + LEAF],
    1: [1.0, 2.0, 3.0, 4.0, 5.0],
    3: [LEAF, PAIR, PAIR + LEAF, PAIR + 2 * LEAF, 2 * PAIR + LEAF],
}


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    "restart_every", [None, 2, *(pytest.param(n, marks=pytest.mark.slow) for n in (1, 3))]
)
def test_noise_of_the_sums_of_a_tree(aggregation_of, restart_every):
    config = TreeAggregation(noise_multiplier=2.0, clip_norm=CLIP, restart_every=restart_every)
    sums = noise_of_sums(aggregation_of(config, dim=4000), 5)
    # A variance over n normals has relative standard error (2 / n)^(1/2); 5.5 of them, five times
    # in four tests, fail once in 1.3e6.
    close = 5.5 * (2 / sums.shape[1]) ** 0.5
    np.testing.assert_allclose((sums**2).mean(axis=1), SUMS[restart_every], rtol=close)


def test_a_tree_goes_on_from_a_checkpoint(aggregation_of, tmp_path):
    config = TreeAggregation(noise_multiplier=2.0, clip_norm=CLIP)
    aggregation = aggregation_of(config)
    initial = aggregation.state
    for _ in range(3):
        aggregation.run([])
    save_checkpoint(tmp_path / "checkpoint.npz", Checkpoint(3, tf.nest.flatten(aggregation.state)))
    rest = [aggregation.run([]) for _ in range(3)]
    loaded = load_checkpoint(tmp_path / "checkpoint.npz", tf.nest.flatten(initial))
    aggregation.state = tf.nest.pack_sequence_as(initial, loaded.leaves)
    # The noise to come is fixed by what the checkpoint holds.
    np.testing.assert_array_equal([aggregation.run([]) for _ in range(3)], rest)


@pytest.mark.slow
def test_distributed_noise_zeroing_and_clip(aggregation_of):
    dim = 3000
    config = Distributed(noise_multiplier=0.3, zeroing=FixedZeroing(norm=0.5))
    noise = round_noise(config, COHORT)
    assert noise.sum_noise_multiplier == pytest.approx((0.3**-2 - 0.4**-2) ** -0.5)
    aggregation = aggregation_of(config, dim)
    before = clip_and_noise(aggregation.config, aggregation.state)
    assert before.clip_norm == pytest.approx(0.1)
    assert before.stddev == pytest.approx(0.1 * noise.sum_noise_multiplier, rel=1e-4)
    canary = unit(dim)
    arrived = aggregation.run([canary_norm(config, aggregation.state) * canary] * 4)
    # Four canaries at the clip norm, over the actual four: the mean is the canary.
    added = (arrived - 0.1 * canary) * 4 / before.stddev
    # Standard errors as for normals, which sums of Skellam variables of this size are; 5.5 of them
    # fail once in 1e7.
    assert abs((added**2).mean() - 1) < 5.5 * (2 / dim) ** 0.5
    assert abs(added @ canary) < 5.5


@pytest.mark.parametrize(
    ("config", "message"),
    [
        (Distributed(noise_multiplier=0.4), r"mechanism\.noise_multiplier: 0\.4 .* than 0\.4"),
        (Distributed(noise_multiplier=0.1, bits=1), r"mechanism\.bits: 1 bits .* cohort of 4 "),
    ],
)
def test_what_tff_refuses_is_said_by_key(config, message):
    with pytest.raises(InputError, match=message):
        round_noise(config, COHORT)


@pytest.mark.parametrize(
    ("config", "multiplier"),
    [
        (NoPrivacy(canary_norm=1.0), 0.0),
        (TreeAggregation(noise_multiplier=0.7, clip_norm=1.0), 0.7),
    ],
)
def test_noise_of_a_round(config, multiplier):
    noise = round_noise(config, COHORT)
    assert noise.noise_multiplier == noise.sum_noise_multiplier == multiplier
    assert noise.count_noise_stddev == 0


@pytest.mark.parametrize("multiplier", [0.0, 0.01, 0.3, 1.9])
@pytest.mark.parametrize("count_stddev", [None, 1.0, 40.0])
def test_noise_is_split_as_tff_splits_it(multiplier, count_stddev):
    split = tff.aggregators.differential_privacy.adaptive_clip_noise_params
    config = GaussianAdaptive(noise_multiplier=multiplier, clipped_count_stddev=count_stddev)
    made = round_noise(config, 22.7)
    expected = split(multiplier, 22.7, count_stddev)
    assert (made.sum_noise_multiplier, made.count_noise_stddev) == expected
