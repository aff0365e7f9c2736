"""The rounds that benchmarks race give equal models, at a size that takes seconds."""

import numpy as np
import pytest

from benchmarks import training
from benchmarks.audited_round import AuditedRound
from benchmarks.next_word import PAPER, Sizes, classifier_of, made_up_clients
from benchmarks.one_score import seconds_to_score
from benchmarks.peers.stock_tff import StockRound, fed_avg, keras_next_word, variable_model
from benchmarks.rounds import OurRound, in_memory, run_of
from fl_audit.canaries.families import FAMILIES
from fl_audit.config import FedAvg
from fl_audit.engines.tff.compiled import LocalContext, local_runtime
from fl_audit.tasks.dense import dense_classifier
from fl_audit.tasks.learning_task import Examples

SIZES = Sizes(vocabulary_size=60, embedding_size=8, lstm_size=12, sequence_length=5)


def lstm_task():
    return in_memory("made up", classifier_of(SIZES), made_up_clients(SIZES, count=3, batches=2))


def dense_task():
    random = np.random.default_rng(0)
    clients = [
        Examples(
            random.normal(size=(20, 40)).astype(np.float32),
            random.integers(0, 3, 20).astype(np.int32),
        )
        for _ in range(3)
    ]
    return in_memory("made up", dense_classifier([40, 20, 3], 0, ""), clients)


@pytest.fixture(
    scope="module", params=[dense_task, pytest.param(lstm_task, marks=pytest.mark.slow)]
)
def run(request):
    return run_of(request.param(), FedAvg())


@pytest.fixture(scope="module")
def ours(run):
    return OurRound(run)


@pytest.mark.slow
@pytest.mark.parametrize("run", [lstm_task], indirect=True)
def test_our_round_is_tffs_with_its_keras_model(run, ours):
    model = variable_model(lambda: keras_next_word(SIZES), run.task.classifier)
    with local_runtime(LocalContext()):
        stock = StockRound(fed_avg(model, run), run)
        training.check_models(run, ours().state, stock())


@pytest.mark.slow
def test_scores_of_an_audited_round_are_those_of_the_vectors(run, ours, tmp_path):
    aggregate, cosines = AuditedRound(ours, run, training.CANARIES_IN_ROUND, tmp_path)()
    training.check_cosines(run, aggregate, cosines)
    assert cosines[list(training.CANARIES_IN_ROUND)].min() > 10 * run.family.dim**-0.5
    with pytest.raises(SystemExit):
        training.check_cosines(run, aggregate, np.roll(cosines, 1))


def test_operations_of_a_batch_are_those_of_its_products():
    products = 96 * 2680 + 670 * 2680 + 670 * 96 + 96 * 10_004
    assert PAPER.flops_per_batch == 6 * 320 * products


@pytest.mark.parametrize("family", [*FAMILIES, "tensorflow"])
def test_every_family_is_scored(family):
    assert seconds_to_score(family, dim=1000, count=5) > 0
