"""Replays of TFF processes: a seed holds their noise fixed, and what is wrong is found."""

import numpy as np
import pytest
import tensorflow_federated as tff
import tensorflow_privacy as tfp

from experiments.broken_mechanisms import queries
from fl_audit.checks import AdaptiveClip, Promise
from fl_audit.config import DigitsTask
from fl_audit.engines.engine import trial_updates
from fl_audit.engines.tff.algorithms import functional_model
from fl_audit.engines.tff.compiled import LocalContext, local_runtime
from fl_audit.mechanisms import clip_and_noise
from fl_audit.mechanisms.independent import GaussianAdaptive
from fl_audit.mechanisms.zeroing import AdaptiveZeroing, zeroing_norm
from fl_audit.tasks.partitioned import load_digits_task
from fl_audit.tasks.tf.networks import as_classifier
from fl_audit.training import build_audited_fed_avg, replay_process

pytestmark = pytest.mark.tff
CLIP, COHORT = 0.3, 15.0
PROMISE = Promise(clip_norm=CLIP, denominator=COHORT, noise_multiplier=0.5)


def process_of(factory):
    task = load_digits_task(DigitsTask(hidden=()), seed=1)
    model = functional_model(as_classifier(task.classifier))
    return build_audited_fed_avg(
        model, tff.learning.optimizers.build_sgdm(0.1), model_aggregator=factory
    )


def mean_of(query):
    return tff.aggregators.DifferentiallyPrivateFactory(tfp.NormalizedQuery(query, COHORT))


def replayed(factory, promise=PROMISE, **readers):
    with local_runtime(LocalContext()):
        return replay_process(process_of(factory), promise, **readers)


@pytest.fixture(scope="module")
def right():
    """The replay of a process that is as promised; each replay takes ten seconds of a core."""
    return replayed(mean_of(tfp.GaussianSumQuery(CLIP, 0.5 * CLIP)))


@pytest.mark.slow
def test_the_right_process_passes(right):
    assert right.passed, str(right)
    assert right.sensitivity[-1] == pytest.approx(CLIP / COHORT, rel=1e-4)


@pytest.mark.slow
def test_an_adaptive_clip_behind_zeroing_passes():
    """TFF's own default aggregator: clip norm 0.1, noise for it and for the count."""
    noise, count_stddev = tff.aggregators.differential_privacy.adaptive_clip_noise_params(
        0.5, COHORT, None
    )
    adaptive = GaussianAdaptive(noise_multiplier=0.5, zeroing=AdaptiveZeroing())
    clip = AdaptiveClip(
        target_quantile=0.5, learning_rate=0.2, count_stddev=count_stddev, denominator=COHORT
    )
    zeroing = AdaptiveZeroing()
    promise = Promise(
        clip_norm=0.1,
        denominator=COHORT,
        noise_multiplier=noise,
        adaptive_clip=clip,
        adaptive_zeroing=zeroing,
    )
    found = replayed(
        tff.learning.dp_aggregator(0.5, COHORT),
        promise,
        clip_norm_of=lambda state: clip_and_noise(adaptive, state.aggregator).clip_norm,
        zeroing_norm_of=lambda state: zeroing_norm(zeroing, state.aggregator),
    )
    assert found.passed, str(found)
    assert {"clip_count", "clip_update", "count_noise", "zeroing_update"} <= {
        one.name for one in found.findings if one.is_conclusive
    }


@pytest.mark.parametrize(
    ("query", "finding"),
    [
        pytest.param(
            queries.CountedTwice(CLIP, 0.5 * CLIP, share=0.1),
            "every_client",
            marks=pytest.mark.slow,
            id="an upload in ten",
        ),
        pytest.param(
            queries.OneVariableUnclipped(CLIP, 0.5 * CLIP, variable=-1),
            "clip",
            marks=pytest.mark.slow,
            id="a bias",
        ),
        pytest.param(
            queries.OtherNoise(CLIP, 0.5 * CLIP, queries.reused(7)),
            "noise_length",
            marks=pytest.mark.slow,
            id="reused",
        ),
    ],
)
def test_bugs_are_found_that_canaries_or_checks_miss(query, finding):
    assert finding in replayed(mean_of(query)).failed


def test_trial_updates_lie_on_both_sides_of_the_clip_norm(monkeypatch):
    updates = trial_updates([(30, 4), (5,)], PROMISE, seed=1)
    lengths = [np.sqrt(sum(np.sum(part**2) for part in update)) for update in updates]
    assert len(updates) == 32
    assert lengths[:2] == pytest.approx([3 * CLIP, 0.5 * CLIP])
    assert np.linalg.norm(updates[0][0]) == pytest.approx(np.linalg.norm(updates[0][1]))
    monkeypatch.setattr("fl_audit.engines.engine._MOST_NUMBERS", 1 << 12)
    assert len(trial_updates([(1 << 10,)], PROMISE, seed=1)) == 4
