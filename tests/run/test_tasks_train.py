"""Every task trains, canaries beside clients."""

import numpy as np
import pytest
import tensorflow_federated as tff

from fl_audit.canaries.families import GaussianFamily
from fl_audit.config import (
    Canaries,
    Config,
    DigitsTask,
    EmnistTask,
    FedAvg,
    GaussianFixed,
    Shuffle,
    StackOverflowTask,
    TextTask,
)
from fl_audit.engines.cohort import CohortData
from fl_audit.engines.tff.algorithms import build_process
from fl_audit.engines.tff.canary_clients import DataSets
from fl_audit.engines.tff.canary_process import model_weights, run_round
from fl_audit.engines.tff.compiled import LocalContext, local_runtime
from fl_audit.engines.tff.tff_engine import Evaluator
from fl_audit.participation import Cohort
from fl_audit.tasks import load_task
from fl_audit.tasks.tf.networks import as_classifier

pytestmark = pytest.mark.tff

_WORDS = ["the", "quick", "brown", "fox", "jumps", "over", "the", "lazy", "dog", "and", "runs"]


def _text(tmp_path):
    rows = [f"client {i % 4},{' '.join(_WORDS[i % 3 :])}" for i in range(60)]
    path = tmp_path / "text.csv"
    path.write_text("client_id,text\n" + "\n".join(rows) + "\n")
    config = TextTask(
        path=str(path), vocabulary_size=20, sequence_length=4, embedding_size=8, lstm_size=16
    )
    return load_task(config, seed=0)


def _saved(data, splits, path):
    """TFF's file format, each client in a split."""
    tff.simulation.datasets.save_to_sql_client_data(
        data.client_ids,
        data.create_tf_dataset_for_client,
        str(path),
        split_names_by_client_id=dict(zip(data.client_ids, splits, strict=True)),
    )
    return str(path)


def _stackoverflow(tmp_path):
    data = tff.simulation.datasets.stackoverflow.get_synthetic()
    counts = tmp_path / "word_count"
    counts.write_text("one 3\nmust 2\nimagine 1\n")
    config = StackOverflowTask(
        vocabulary_size=20,
        sequence_length=8,
        embedding_size=8,
        lstm_size=16,
        path=_saved(data, ["train", "train", "test"], tmp_path / "stackoverflow.sqlite"),
        word_counts=str(counts),
    )
    return load_task(config, 0)


def _emnist(tmp_path):
    data = tff.simulation.datasets.emnist.get_synthetic()
    path = _saved(data, ["all_train", "all_test"], tmp_path / "emnist.sqlite")
    return load_task(EmnistTask(path=path), 0)


@pytest.mark.parametrize(
    ("make_task", "learning_rate"),
    [
        pytest.param(_text, 0.5, marks=pytest.mark.slow),
        pytest.param(_stackoverflow, 0.5, marks=pytest.mark.slow),
        pytest.param(_emnist, 0.02, marks=pytest.mark.slow),
    ],
)
def test_training_lowers_the_loss_with_a_canary_in_the_first_round(
    make_task, learning_rate, tmp_path
):
    task = make_task(tmp_path)
    config = Config(
        task=DigitsTask(),
        mechanism=GaussianFixed(noise_multiplier=0.0, clip_norm=1.0),
        participation=Shuffle(rounds=4, clients_per_round=2),
        canaries=Canaries(count=2, family="gaussian"),
        client=FedAvg(learning_rate=learning_rate),
    )
    classifier = as_classifier(task.classifier)
    family = GaussianFamily(seed=0, num_canaries=2, dim=classifier.dim)
    process = build_process(classifier, config, expected_cohort=2.0, num_rounds=3)
    data = CohortData(task, config.client, seed=0)
    no_examples = task.held_out.take(np.zeros(0, np.int64))
    data_sets = DataSets(config.client.batch_size, family, no_examples)
    clients = np.arange(min(2, len(task.population.client_ids)))
    losses = []
    with local_runtime(LocalContext(num_threads=2)):
        state = process.initialize()
        for round_index in range(4):
            canaries = np.arange(1 if round_index == 0 else 0)
            participants = data_sets.client_data(
                data.round_data(Cohort(clients, canaries), round_index), 1e15
            )
            result = run_round(process, config.mechanism, state, participants)
            if round_index == 0:
                assert family.cosines(result.aggregate)[0] > 0.4
            state = result.state
            losses.append(result.train_loss)
    assert losses[-1] < losses[0]
    accuracy = Evaluator(classifier, task.held_out).accuracy(model_weights(state))
    assert 0 <= accuracy <= 1
