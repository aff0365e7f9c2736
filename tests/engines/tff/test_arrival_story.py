"""TFF's default DP aggregator nearly without noise, and canaries of any length: the verdicts."""

import subprocess
import sys

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_federated as tff

from fl_audit.attacks import CanaryPool, Participation, RoundScorer
from fl_audit.engines.tff.canary_clients import read_clip
from fl_audit.engines.tff.compiled import LocalContext, local_runtime
from fl_audit.errors import InputError
from fl_audit.report.build import EstimateRequest, report_on_folder
from fl_audit.report.folder import AuditedFolder
from fl_audit.training import (
    CanaryClients,
    build_audited_fed_avg,
    canary_dim,
    model_weights,
    probe,
    released_aggregate,
)
from fl_audit.verdict import Claim

pytestmark = pytest.mark.tff

DIM, ROUNDS, CLIENTS = 400, 20, 10
SPECS = (tf.TensorSpec((DIM, 1)),)


@tf.function
def _predict(weights, x, training):
    del training
    return x @ weights[0][0]


@tf.function
def _loss(output, label, sample_weight=None):
    del sample_weight
    return tf.reduce_mean((output - label) ** 2)


def process_with(aggregator, dim=DIM):
    model = tff.learning.models.FunctionalModel(
        initial_weights=((np.zeros((dim, 1), np.float32),), ()),
        predict_on_batch_fn=_predict,
        loss_fn=_loss,
        input_spec=(tf.TensorSpec([None, dim]), tf.TensorSpec([None, 1])),
    )
    optimizer = tff.learning.optimizers.build_sgdm(0.01)
    return build_audited_fed_avg(model, optimizer, model_aggregator=aggregator)


@pytest.fixture(scope="module")
def process():
    return process_with(tff.learning.dp_aggregator(0.01, 20.0))


@pytest.fixture(scope="module")
def clients():
    rng = np.random.default_rng(5)
    draw = lambda width: tf.constant(rng.normal(size=(5, width)), tf.float32)  # noqa: E731
    return [tf.data.Dataset.from_tensors((draw(DIM), draw(1))) for _ in range(CLIENTS)]


@pytest.fixture(scope="module")
def context():
    """The context that keeps what it has compiled for the next test."""
    return LocalContext(num_threads=2)


@pytest.fixture(autouse=True)
def runtime(context):
    with local_runtime(context):
        yield


def audit(process, clients, path, norm):
    """The report on a claim of 8 after a training with canaries of a length."""
    pool = CanaryPool(seed=11, count=200, dim=canary_dim(process))
    canaries = CanaryClients(process, pool, ROUNDS, norm=norm)
    scorer = RoundScorer.create(
        path, pool, ROUNDS, canaries.rounds, participation=Participation("none")
    )
    state = process.initialize()
    initial = model_weights(state)
    for number in range(1, ROUNDS + 1):
        output = process.next(state, canaries.join(number, clients, state))
        length = canaries.arriving_length(state)
        scorer.score_round(number, released_aggregate(output.metrics), canary_length=length)
        state = output.state
    scorer.finish(initial=initial, final=model_weights(state))
    return report_on_folder(AuditedFolder(path), EstimateRequest(1e-3, claim=Claim(8.0, 1e-3)))


@pytest.mark.slow
@pytest.mark.parametrize("norm", [1e15, 10.0, 1.0])
def test_with_canaries_of_any_length_the_claim_is_never_consistent(
    process, clients, tmp_path, norm
):
    report = audit(process, clients, tmp_path / "audit", norm)
    assert report.verdict.outcome in ("contradicted", "inconclusive")
    if norm == 1e15:
        assert report.canary_check.state == "not_arrived"
        assert abs(report.canary_check.ratio) < 0.1
        assert report.verdict.reason.startswith("The canary check failed")


def test_with_the_length_that_the_program_chooses_it_is_contradicted(process, clients, tmp_path):
    report = audit(process, clients, tmp_path / "audit", None)
    assert report.canary_check.state == "arrived"
    assert abs(report.canary_check.ratio - 1) < 0.05
    assert report.verdict.outcome == "contradicted"


def test_a_probe_sees_canaries_zeroed_or_as_long_as_the_clip(process):
    chosen, long = probe(process), probe(process, 1e15)
    assert (chosen.state, long.state) == ("arrived", "not_arrived")
    assert chosen.norm == pytest.approx(0.2)  # twice the first clip norm
    assert chosen.ratio == pytest.approx(1, abs=0.01)
    assert abs(long.ratio) < 0.01
    assert "32 of 32 were zeroed" in str(long)


def test_short_canaries_are_held_against_the_longest_client(process):
    short = probe(process, 0.01)
    assert short.state == "not_arrived"
    assert short.ratio == pytest.approx(0.1, abs=0.01)  # the first clip norm is 0.1
    pool = CanaryPool(seed=11, count=200, dim=canary_dim(process))
    canaries = CanaryClients(process, pool, ROUNDS, norm=0.01)
    assert canaries.arriving_length(process.initialize()) == pytest.approx(0.1 / 20)


@pytest.mark.slow
def test_where_only_clipping_limits_a_client_a_short_canary_is_held_against_it():
    mean = tff.aggregators.MeanFactory()
    hidden = probe(process_with(tff.aggregators.clipping_factory(1.0, mean)), 0.1)
    assert (hidden.state, hidden.ratio) == ("not_arrived", pytest.approx(0.1, abs=0.01))
    assert probe(process_with(mean), 0.1).state == "arrived"  # nothing limits what is longer


@pytest.mark.slow
def test_a_probe_finds_a_length_where_the_state_shows_no_clip_norm():
    mean = tff.aggregators.MeanFactory()
    found = probe(process_with(tff.aggregators.clipping_factory(1.0, mean)))
    assert found.state == "arrived"
    assert 1 <= found.norm <= 4.1
    with pytest.raises(InputError, match="norm: must be given, as the norm of a typical update"):
        probe(process_with(mean))


@pytest.mark.slow
def test_noise_that_hides_a_canary_is_said_to(clients):
    noisy = process_with(
        tff.aggregators.DifferentiallyPrivateFactory.gaussian_fixed(50.0, 15.0, 0.3)
    )
    assert probe(noisy).state == "cannot_tell"


def test_without_a_norm_the_state_is_asked_for(process, clients):
    pool = CanaryPool(seed=11, count=200, dim=canary_dim(process))
    canaries = CanaryClients(process, pool, ROUNDS)
    with pytest.raises(InputError, match="state: is required"):
        canaries.join(1, clients)
    mean = process_with(tff.aggregators.MeanFactory())
    with pytest.raises(InputError, match=r"norm: must be given.*probe\(process\) finds"):
        CanaryClients(mean, pool, ROUNDS)
    unclipped = CanaryClients(mean, pool, ROUNDS, norm=1.0)
    state = mean.initialize()
    assert unclipped.arriving_length(state) is None
    assert unclipped.noise_stddev(state) is None


@pytest.mark.sampled(1)
@pytest.mark.parametrize("is_adaptive", [False, True])
def test_under_tree_aggregation_the_clip_and_the_noise_of_a_node_are_read(is_adaptive):
    numbers = {"noise_multiplier": 0.5, "clients_per_round": 20, "record_specs": SPECS}
    factories = tff.aggregators.DifferentiallyPrivateFactory
    tree = (
        factories.tree_adaptive(**numbers, initial_l2_norm_clip=0.4, clipped_count_stddev=1.0)
        if is_adaptive
        else factories.tree_aggregation(**numbers, l2_norm_clip=0.4)
    )
    process = process_with(tree)
    pool = CanaryPool(seed=11, count=200, dim=canary_dim(process))
    canaries, state = CanaryClients(process, pool, ROUNDS), process.initialize()
    assert canaries.norm(state) == pytest.approx(0.8)
    assert canaries.arriving_length(state) == pytest.approx(0.4 / 20)
    # The noise of the adaptive clip's sum is larger, as its count takes a part of the budget.
    sum_multiplier = (0.5**-2 - (2 * 1.0) ** -2) ** -0.5 if is_adaptive else 0.5
    assert canaries.noise_stddev(state) == pytest.approx(sum_multiplier * 0.4 / 20)


_PROBED_OUTSIDE = """
import tensorflow_federated as tff
from fl_audit.training import probe
from tests.engines.tff.test_arrival_story import process_with
fixed = tff.aggregators.DifferentiallyPrivateFactory.gaussian_fixed(0.1, 15.0, 0.3)
print(probe(process_with(fixed)).state)
import os
os._exit(0)  # without TFF's own clearing up
"""


@pytest.mark.slow
def test_a_probe_outside_a_runtime_leaves_no_worker_and_no_pipe():
    argv = [sys.executable, "-c", _PROBED_OUTSIDE]
    assert subprocess.check_output(argv, text=True, timeout=300) == "arrived\n"


def test_the_clip_is_read_behind_zeroing_and_in_adaptive_clipping(process):
    clip = read_clip(process.initialize())
    assert (clip.norm, clip.denominator, clip.unzeroed) == (pytest.approx(0.1), 20.0, 10.0)
    robust = read_clip(process_with(tff.learning.robust_aggregator()).initialize())
    assert (robust.norm, robust.denominator, robust.unzeroed) == (1.0, None, 10.0)
