"""Noise and adaptive norms in JAX against tensorflow-privacy's queries."""

import functools

import jax
import numpy as np
import pytest
from scipy import stats

from fl_audit.engines.jax.aggregation import Summed
from fl_audit.engines.jax.from_config import aggregation_of
from fl_audit.mechanisms import round_noise
from fl_audit.mechanisms.independent import GaussianAdaptive
from tests.engines.jax.test_aggregation import COHORT, many_keys

tf = pytest.importorskip("tensorflow")
tfp = pytest.importorskip("tensorflow_privacy")
pytestmark = pytest.mark.tff

DRAWS = 4000


@functools.cache
def ours(unclipped):
    """Aggregates of one number, and next clip norms, of many rounds with their own keys."""
    table = GaussianAdaptive(noise_multiplier=0.5, clip_norm=0.8, target_quantile=0.6)
    aggregation = aggregation_of(table, round_noise(table, COHORT), COHORT, 1, [(1,)])
    one = np.float32(1)
    total = Summed(
        [np.full(1, 1.5, np.float32)],
        participants=np.float32(8),
        unclipped=np.float32(unclipped),
        below_zeroing=one,
        totals=np.zeros(2, np.float32),
    )
    keys = many_keys(5, DRAWS)
    (aggregate,), norms, _ = jax.jit(
        jax.vmap(lambda k: aggregation.release(aggregation.begin, (), total, k))
    )(keys)
    return np.asarray(aggregate)[:, 0], np.asarray(norms.clip)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("unclipped", [2, 8])
def test_a_round_has_the_distribution_of_tensorflow_privacys(unclipped):
    """Two samples' test at 1e-7 for each of four, as TensorFlow's noise has no seed."""
    noise = round_noise(GaussianAdaptive(noise_multiplier=0.5), COHORT)
    query = tfp.NormalizedQuery(
        tfp.QuantileAdaptiveClipSumQuery(
            initial_l2_norm_clip=0.8,
            noise_multiplier=noise.sum_noise_multiplier,
            target_unclipped_quantile=0.6,
            learning_rate=0.2,
            clipped_count_stddev=noise.count_noise_stddev,
            expected_num_records=COHORT,
            geometric_update=True,
        ),
        denominator=COHORT,
    )

    @tf.function
    def rounds():
        def one(_):
            state = query.initial_global_state()
            params = query.derive_sample_params(state)
            total = query.initial_sample_state(tf.zeros(1))
            for client in range(8):
                length = 0.5 if client < unclipped else 3.0
                record = query.preprocess_record(params, tf.fill([1], length))
                total = query.accumulate_preprocessed_record(total, record)
            result, state, _ = query.get_noised_result(total, state)
            return result[0], state.numerator_state.sum_state.l2_norm_clip

        return tf.map_fn(one, tf.zeros(DRAWS), fn_output_signature=(tf.float32, tf.float32))

    theirs, clips = (part.numpy() for part in rounds())
    aggregates, next_clips = ours(unclipped)
    exact = 0.5 * unclipped + 0.8 * (8 - unclipped)
    shifted = aggregates - np.float32(1.5 / COHORT) + np.float32(exact / COHORT)
    assert stats.ks_2samp(shifted, theirs).pvalue > 1e-7
    assert stats.ks_2samp(next_clips, clips).pvalue > 1e-7
    assert np.median(next_clips) == pytest.approx(np.median(clips), rel=0.02)
