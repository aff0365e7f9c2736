"""Each mechanism's aggregator, run: what it clips, zeroes, adds and tells of itself."""

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
from tests.engines.test_entropy_of_noise import ENTROPY, SAME, Source
from tests.engines.tff.aggregation import Aggregation

pytestmark, SLOW = pytest.mark.tff, pytest.mark.slow

CLIP, COHORT, DIM = 0.25, 4.0, 64


@pytest.fixture(scope="module", autouse=True)
def _runtime():
    with local_runtime(LocalContext(num_threads=2)):
        yield


def unit(dim=DIM, seed=0):
    return RademacherFamily(seed=seed, num_canaries=1, dim=dim).vector(0)


ZEROED = {
    "far above the clip norm": GaussianFixed(
        noise_multiplier=0.0, clip_norm=CLIP, zeroing=FixedZeroing(norm=10.0)
    ),
    "between one and two clip norms": GaussianFixed(
        noise_multiplier=0.0, clip_norm=CLIP, zeroing=FixedZeroing(norm=1.5 * CLIP)
    ),
    "below": GaussianFixed(
        noise_multiplier=0.0, clip_norm=CLIP, zeroing=FixedZeroing(norm=0.9 * CLIP)
    ),
    "of a moving clip": GaussianAdaptive(
        noise_multiplier=0.0, clip_norm=CLIP, zeroing=FixedZeroing(norm=1.0)
    ),
    "that adapts": TreeAggregation(noise_multiplier=0.0, clip_norm=CLIP, zeroing=AdaptiveZeroing()),
}


QUICK = ("between one and two clip norms", "that adapts")


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[SLOW] * (name not in QUICK)) for name in ZEROED]
)
def test_a_canary_survives_zeroing_and_arrives_at_the_clip_norm(name):
    aggregation = Aggregation(ZEROED[name], COHORT, DIM)
    canaries = [GaussianFamily(seed, num_canaries=1, dim=DIM).vector(0) for seed in range(3)]
    if name != "below":
        canaries.append(np.eye(1, DIM)[0])  # one coordinate is the worst case for zeroing
    for canary in canaries:
        clip_norm = clip_and_noise(aggregation.config, aggregation.state).clip_norm
        norm = canary_norm(aggregation.config, aggregation.state)
        arrived = aggregation.run([norm * canary]) * COHORT
        np.testing.assert_allclose(arrived, clip_norm * canary, rtol=1e-4)
    assert not aggregation.run([]).any()


def test_adaptive_zeroing_follows_the_updates():
    zeroing = AdaptiveZeroing(initial_estimate=1.0, increment=0.0)
    aggregation = Aggregation(NoPrivacy(canary_norm=1.0, zeroing=zeroing), COHORT, DIM)
    # Largest coordinate 80 / 8 = 10: above 2 x 1, so it is zeroed; a tenfold step up is 0.98 of 1.
    assert not aggregation.run([80 * unit()] * 2).any()
    assert aggregation.run([80 * unit()] * 2).any()
    assert not aggregation.run([]).any()


def test_noise_has_its_deviation_and_follows_from_every_byte_of_a_key(tmp_path, monkeypatch):
    """As whole engines do in tests/engines/test_entropy_of_noise.py."""
    source, dim = Source(tmp_path / "entropy", monkeypatch, of_graphs=True), 4000
    source.become(ENTROPY[SAME])
    config = GaussianAdaptive(noise_multiplier=0.3, clip_norm=CLIP)
    aggregation, noises = Aggregation(config, COHORT, dim), []
    stddev = clip_and_noise(config, aggregation.state).stddev
    for text in (*ENTROPY.values(), ENTROPY[SAME]):
        source.become(text)
        aggregation.state = aggregation.initial_state
        noises.append(aggregation.run([]) * COHORT / stddev)
    np.testing.assert_array_equal(noises.pop(), noises[0])
    # Standard errors of a variance and of correlations of normals; six of them fail once in 6e7.
    np.testing.assert_allclose(np.mean(np.square(noises), axis=1), 1, atol=6 * (2 / dim) ** 0.5)
    correlations = np.corrcoef(noises) - np.eye(3)
    assert np.abs(correlations).max() < 6 * dim**-0.5
    first, second = noises[0][: dim // 4], noises[0][dim // 4 : dim // 2]  # of the two tensors
    assert abs(np.corrcoef(first, second)[0, 1]) < 6 * (dim / 4) ** -0.5


# Variance of a node's estimate over that of its noise, by height (Honaker 2015): 1 / (2 - 2^-h).
LEAF, PAIR, FOUR = 1.0, 1 / 1.5, 1 / 1.75

SUMS = {
    None: [LEAF, PAIR, PAIR + LEAF, FOUR, FOUR + LEAF],
    # A new tree every other round: sums of earlier trees stay as they are.
    2: [LEAF, PAIR, PAIR + LEAF, 2 * PAIR, 2 * PAIR + LEAF],
    1: [1.0, 2.0, 3.0, 4.0, 5.0],
    3: [LEAF, PAIR, PAIR + LEAF, PAIR + 2 * LEAF, 2 * PAIR + LEAF],
}


@pytest.mark.parametrize("restart_every", [2, *(pytest.param(n, marks=SLOW) for n in (None, 1, 3))])
def test_noise_of_the_sums_of_a_tree_that_goes_on_from_a_checkpoint(restart_every, tmp_path):
    config = TreeAggregation(noise_multiplier=2.0, clip_norm=CLIP, restart_every=restart_every)
    aggregation, released = Aggregation(config, COHORT, dim=4000), []
    found = clip_and_noise(config, aggregation.state)
    assert (found.clip_norm, found.stddev) == pytest.approx((CLIP, 2.0 * CLIP))
    for number in range(5):
        if number == 3:
            leaves = tf.nest.flatten(aggregation.state)
            save_checkpoint(tmp_path / "checkpoint.npz", Checkpoint(3, leaves))
        released.append(aggregation.run([]))
    sums = np.cumsum(np.array(released, np.float64) * COHORT / (2.0 * CLIP), axis=0)
    # A variance over n normals has relative standard error (2 / n)^(1/2); 5.5 of them, five times
    # in four tests, fail once in 1.3e6.
    close = 5.5 * (2 / sums.shape[1]) ** 0.5
    np.testing.assert_allclose((sums**2).mean(axis=1), SUMS[restart_every], rtol=close)
    # The noise to come is fixed by what the checkpoint holds.
    initial = aggregation.initial_state
    loaded = load_checkpoint(tmp_path / "checkpoint.npz", tf.nest.flatten(initial))
    aggregation.state = tf.nest.pack_sequence_as(initial, loaded.leaves)
    np.testing.assert_array_equal([aggregation.run([]) for _ in range(2)], released[3:])


@pytest.mark.slow
def test_distributed_noise_zeroing_and_clip():
    dim = 3000
    config = Distributed(noise_multiplier=0.3, zeroing=FixedZeroing(norm=0.5))
    noise = round_noise(config, COHORT)
    assert noise.sum_noise_multiplier == pytest.approx((0.3**-2 - 0.4**-2) ** -0.5)
    aggregation = Aggregation(config, COHORT, dim)
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
