"""Integer sums in JAX against TFF's own aggregation with Skellam noise, and what it refuses."""

import numpy as np
import pytest

from fl_audit.errors import InputError
from fl_audit.mechanisms import AdaptiveZeroing, Distributed, FixedZeroing, round_noise
from tests.engines.jax.test_aggregation import key
from tests.engines.jax.test_integer_sums import Rounds, aggregation_for
from tests.seeds_tried import some

pytest.importorskip("tensorflow_federated")
pytestmark = pytest.mark.tff

DIM, PADDED, COHORT = 40, 64, 4


@pytest.fixture(scope="module", autouse=True)
def _runtime():
    from fl_audit.engines.tff.compiled import LocalContext, local_runtime

    with local_runtime(LocalContext(num_threads=2)):
        yield


def updates():
    """Of four participants: short, clipped, zeroed where something zeroes, and middling."""
    random = np.random.default_rng(1)
    lengths = [0.08, 0.6, 1e4, 0.12]
    return [length * random.standard_normal(DIM) / DIM**0.5 for length in lengths]


@pytest.mark.slow
@pytest.mark.parametrize(
    "keys",
    [
        {"clip_norm": 0.3},
        {"clip_norm": 0.3, "bits": 14, "zeroing": FixedZeroing(norm=1.0)},
        {"zeroing": AdaptiveZeroing(initial_estimate=1.0, target_quantile=0.6)},
    ],
)
def test_without_noise_aggregates_are_those_of_tff_up_to_the_grid(keys):
    """Each moves each of 64 rotated coordinates by less than a step, so that the mean is as near.

    A vector of 64 differences of less than two steps is shorter than 2 * 64^(1/2) steps.
    """
    from fl_audit.mechanisms import clip_and_noise
    from tests.engines.tff.aggregation import Aggregation

    table = Distributed(noise_multiplier=0.0, **keys)
    theirs = Aggregation(table, COHORT, DIM)
    ours = Rounds(aggregation_for(table, COHORT, DIM), DIM)
    for index in range(4):
        clip_norm = clip_and_noise(table, theirs.state).clip_norm
        assert float(ours.norms.clip) == pytest.approx(clip_norm, rel=1e-6)
        step = 1 / float(ours.aggregation.scale(ours.norms))
        expected, found = theirs.run(updates()), ours.run(updates(), key(index))
        distance = np.linalg.norm(found - expected)
        assert distance < 2 * PADDED**0.5 * step + 1e-6 * np.linalg.norm(expected)
        assert np.linalg.norm(expected) > 100 * distance


def test_scales_are_tffs():
    """Of adaptive clips, whose noise on the sum is larger than the one asked for."""
    from tensorflow_federated.python.aggregators import distributed_dp

    for multiplier, cohort, bits in ((0.3, 20, 20), (0.0, 7, 16), (0.05, 100, 12)):
        table = Distributed(noise_multiplier=multiplier, bits=bits)
        sum_noise = round_noise(table, cohort).sum_noise_multiplier
        ours = aggregation_for(table, cohort, 3000)
        for clip in (0.1, 0.37, 5.0):
            theirs = distributed_dp._heuristic_scale_factor(
                sum_noise * clip / cohort**0.5,
                clip,
                bits,
                cohort,
                4096,
                distributed_dp._clip_prob_to_num_stddevs(1e-4),
            )
            expected = min(float(theirs), distributed_dp.MAX_SCALE_FACTOR)
            norms = ours.begin._replace(clip=np.float32(clip))
            assert float(ours.scale(norms)) == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize("clip_norm", [None, 0.5])
def test_bits_are_refused_where_tff_refuses_them(clip_norm):
    from fl_audit.mechanisms.distributed import _secure_aggregator

    sums = [
        (bits, cohort)
        for bits in (1, 2, 3, 4, 5, 7, 10, 22)
        for cohort in sorted({1, 2, 4, 5, 15, 16, 17, 2**bits - 1, 2**bits, 2**bits + 1})
    ]
    tried, refused = some(sums, 8), 0
    for bits, cohort in tried:
        table = Distributed(noise_multiplier=0.0, bits=bits, clip_norm=clip_norm)
        try:
            _secure_aggregator(table, cohort)
        except ValueError:
            refused += 1
            with pytest.raises(InputError, match=rf"mechanism\.bits: {bits} bits cannot hold"):
                round_noise(table, cohort)
        else:
            round_noise(table, cohort)
    assert len(tried) / 8 < refused < len(tried) * 0.8
