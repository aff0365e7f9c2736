"""Scores of canaries that hold examples, beside Algorithm 3 of Steinke et al. written out."""

import dataclasses

import numpy as np
import pytest
import tensorflow as tf

from fl_audit.attacks.attacker import SeenRound
from fl_audit.attacks.threat_models import scores_of
from fl_audit.attacks.update_ratio import MOST_DIRECTIONS
from fl_audit.config import (
    Bernoulli,
    Config,
    DigitsTask,
    ExampleCanaries,
    FedAvg,
    GaussianFixed,
    TextTask,
)
from fl_audit.engines.engine import as_vector
from fl_audit.engines.prepare import prepare
from fl_audit.engines.tff import trained_blocks
from fl_audit.engines.tff.tff_engine import TffEngine, mean_losses_on
from fl_audit.engines.tff.trained_blocks import block_trainer
from fl_audit.errors import InputError
from fl_audit.estimators.epsilon_star import log_odds_losses
from fl_audit.formats.folders import RunFolder
from fl_audit.run.attackers import (
    FinalLossAttacker,
    LossDifferenceAttacker,
    UpdateAttacker,
    attack_context,
    make_attackers,
    make_stand_ins,
)
from fl_audit.tasks.tf.networks import as_classifier

CLIP = 0.4


class OnlyQueried(TffEngine):
    """The engine without a process, which these attackers do not need."""

    def participants(self, state, data):
        raise AssertionError


def run_of(task, canaries, client):
    return prepare(
        Config(
            task=task,
            mechanism=GaussianFixed(noise_multiplier=0.0, clip_norm=CLIP),
            participation=Bernoulli(rounds=3, clients_per_round=4),
            canaries=canaries,
            client=client,
            clients_per_block=3,
            seed=5,
        )
    )


@pytest.fixture(scope="module")
def digits_run():
    """One example, one step: DP-SGD."""
    canaries = ExampleCanaries(source="mislabelled", count=8, examples_per_canary=1)
    return run_of(DigitsTask(num_clients=60, hidden=()), canaries, FedAvg(learning_rate=0.5))


@pytest.fixture(scope="module")
def sentences_run(tmp_path_factory):
    """Clients of one to five sentences, two passes of one to three steps each."""
    path = tmp_path_factory.mktemp("text") / "speech.csv"
    rows = [f"{c},{'to be or not '[: 3 + i]}" for c in range(24) for i in range(c % 5 + 1)]
    path.write_text("client_id,text\n" + "\n".join(rows) + "\n")
    task = TextTask(
        path=str(path), vocabulary_size=4, sequence_length=2, embedding_size=3, lstm_size=2
    )
    canaries = ExampleCanaries(source="in_distribution", count=4)
    return run_of(task, canaries, FedAvg(learning_rate=0.5, batch_size=2, epochs=2))


@pytest.fixture(params=["digits", pytest.param("sentences", marks=pytest.mark.slow)])
def run(request):
    return request.getfixturevalue(f"{request.param}_run")


@pytest.fixture(autouse=True)
def _one_graph_a_model(monkeypatch):
    """Building a trainer takes longer than all that it does here."""
    monkeypatch.setattr(trained_blocks, "block_trainer", _trainer_of)


def _trainer_of(run):
    model = as_classifier(run.task.classifier).logits
    if model not in _TRAINERS:
        _TRAINERS[model] = block_trainer(run)
    return _TRAINERS[model]


_TRAINERS = {}


def other_weights(run, seed):
    random = np.random.default_rng(seed)
    return [
        w + random.normal(0, 0.3, w.shape).astype(np.float32)
        for w in run.task.classifier.initial_weights
    ]


def mean_loss(run, weights, examples):
    classifier = as_classifier(run.task.classifier)
    logits = np.asarray(classifier.logits(weights, examples.inputs))
    counted = examples.labels != classifier.padding_label
    return float(np.mean(log_odds_losses(logits[counted], examples.labels[counted])))


def test_losses_are_those_of_each_canary_by_itself(run):
    weights = other_weights(run, 1)
    expected = [mean_loss(run, weights, canary) for canary in run.canary_examples]
    losses = mean_losses_on(run.canary_examples, as_classifier(run.task.classifier))(weights)
    np.testing.assert_allclose(losses.attacked, expected, rtol=1e-5)
    of_one = run.canary_examples[0]
    logits = tf.constant(as_classifier(run.task.classifier).logits(weights, of_one.inputs))
    expected = as_classifier(run.task.classifier).loss(logits, tf.constant(of_one.labels)).numpy()
    assert losses.label[0] == pytest.approx(expected, rel=1e-5)


def test_black_box_scores(run):
    final = other_weights(run, 2)
    initial = run.task.classifier.initial_weights
    before = np.array([mean_loss(run, initial, canary) for canary in run.canary_examples])
    after = np.array([mean_loss(run, final, canary) for canary in run.canary_examples])
    score = FinalLossAttacker(run, OnlyQueried("", None, None)).scores(as_vector(final))
    np.testing.assert_allclose(score["final_loss"], -after, rtol=1e-5)
    score = LossDifferenceAttacker(run, OnlyQueried("", None, None)).scores(as_vector(final))
    np.testing.assert_allclose(score["loss_difference"], before - after, rtol=1e-3, atol=1e-5)


def steps(run, weights, examples):
    """Trained minus initial weights of a client, by a loop of gradient steps."""
    classifier, client = as_classifier(run.task.classifier), run.config.client
    trained = [tf.constant(w) for w in weights]
    for start in range(0, len(examples), client.batch_size):
        batch = examples.take(np.arange(len(examples))[start : start + client.batch_size])
        with tf.GradientTape() as tape:
            tape.watch(trained)
            loss = classifier.loss(classifier.logits(trained, batch.inputs), batch.labels)
        gradients = map(tf.convert_to_tensor, tape.gradient(loss, trained))
        trained = [w - client.learning_rate * g for w, g in zip(trained, gradients, strict=True)]
    return as_vector([t - w for t, w in zip(trained, weights, strict=True)])


def seen_round(run, index, clip_norm=CLIP):
    random = np.random.default_rng(index)
    aggregate = random.normal(0, 1, run.task.classifier.dim).astype(np.float32)
    model = as_vector(other_weights(run, index))
    return SeenRound(index, model, aggregate, model, clip_norm)


def attacker_of(run, folder, completed=0):
    (found,) = [
        attacker
        for attacker in make_attackers(
            attack_context(run, OnlyQueried("", None, None), RunFolder(folder), completed)
        )
        if isinstance(attacker, UpdateAttacker)
    ]
    return found


@pytest.mark.slow
def test_white_box_scores_are_inner_products_with_clipped_updates(run, tmp_path):
    attacker = attacker_of(run, tmp_path)
    data = run.cohort_data
    clip_norms = [CLIP, np.inf]
    products, clipped = np.zeros((2, len(run.included))), 0
    for index, clip_norm in enumerate(clip_norms):
        seen = seen_round(run, index, clip_norm)
        attacker.see_round(seen)
        before = other_weights(run, index)
        for canary in range(len(run.included)):
            update = steps(run, before, data.of_canary(canary, index)).astype(np.float64)
            norm = np.linalg.norm(update)
            clipped += norm > clip_norm
            products[index, canary] = min(1, clip_norm / norm) * update @ seen.aggregate
    assert clipped > 0
    scores = attacker.scores(None)
    np.testing.assert_allclose(scores["white_box"], products.sum(0), rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(scores["white_box_max"], products.max(0), rtol=1e-4, atol=1e-5)


def test_signals_take_off_what_stand_ins_send(digits_run, tmp_path):
    """One round by dense matrices; the model is small enough that every direction is kept."""
    run = digits_run
    stand_ins = make_stand_ins(run)
    num, dim = len(stand_ins.clients), run.task.classifier.dim
    assert num == 2 * len(run.included) <= MOST_DIRECTIONS
    attacker, seen = attacker_of(run, tmp_path), seen_round(run, 1)
    attacker.see_round(seen)
    data = run.cohort_data

    def sent(examples):
        update = steps(run, other_weights(run, 1), examples).astype(np.float64)
        return min(1, CLIP / np.linalg.norm(update)) * update

    others = np.array([sent(examples) for examples in stand_ins.clients])
    canaries = np.array([sent(data.of_canary(c, 1)) for c in range(len(run.included))])
    rest = run.release.denominator.expected * seen.aggregate - stand_ins.counts @ others
    outside = rest - others.T @ np.linalg.lstsq(others.T, rest, rcond=None)[0]
    noise = outside @ outside / (dim - num)
    spread = stand_ins.repeats * (others.T * stand_ins.counts) @ others
    inverse = np.linalg.inv(noise * np.eye(dim) + spread)
    signal, energy = canaries @ inverse @ rest, np.diag(canaries @ inverse @ canaries.T)
    scores = attacker.scores(None)
    rounds = [len(own) for own in run.own_rounds.of_canary]
    q = sum(rounds) / (len(rounds) * run.num_rounds)
    expected = np.log(1 - q + q * np.exp(signal - energy / 2))
    np.testing.assert_allclose(scores["white_box_ratio"], expected, rtol=2e-3, atol=1e-4)
    # A canary without a scored round of its own has the score of the first.
    in_own = signal / np.sqrt(energy)
    np.testing.assert_allclose(scores["white_box_own_rounds"], in_own, rtol=2e-3, atol=1e-4)


def test_a_score_does_not_know_the_coin(digits_run, tmp_path):
    """The exchangeability that the bounds rest on: no score looks at who was included."""
    others = dataclasses.replace(digits_run, included=~digits_run.included)
    found = []
    for run in (digits_run, others):
        folder = tmp_path / str(len(found))
        folder.mkdir()
        attackers = make_attackers(
            attack_context(run, OnlyQueried("", None, None), RunFolder(folder), 0)
        )
        for attacker in attackers:
            attacker.see_round(seen_round(run, 0))
        found.append(scores_of(attackers, as_vector(other_weights(run, 7))))
    assert found[0].keys() == {
        "final_loss",
        "loss_difference",
        "white_box",
        "white_box_max",
        "white_box_ratio",
        "white_box_own_rounds",
    }
    for name, scores in found[0].items():
        np.testing.assert_array_equal(scores, found[1][name])


def test_what_was_seen_before_a_crash_is_there_after_it(digits_run, tmp_path):
    whole = attacker_of(digits_run, tmp_path)
    for index in range(3):
        whole.see_round(seen_round(digits_run, index))
    expected = whole.scores(None)
    whole.flush()
    resumed = attacker_of(digits_run, tmp_path, completed=2)
    resumed.see_round(seen_round(digits_run, 2))
    for name, scores in resumed.scores(None).items():
        np.testing.assert_array_equal(scores, expected[name])
    with pytest.raises(InputError, match="round_products"):
        attacker_of(digits_run, tmp_path / "elsewhere", completed=2)


def test_a_model_that_cannot_train_in_blocks_is_refused(digits_run, tmp_path):
    def logits(weights, inputs):
        return tf.nn.conv2d(tf.reshape(inputs, [-1, 8, 8, 1]), weights[0], 1, "VALID")[:, 0, 0, :]

    weights = (np.ones((8, 8, 1, 10), np.float32),)
    classifier = dataclasses.replace(
        as_classifier(digits_run.task.classifier), initial_weights=weights, logits=logits
    )
    task = dataclasses.replace(digits_run.task, classifier=classifier)
    with pytest.raises(InputError, match=r"^audit\.threat_models: 'all_iterates'[^\n]*Conv2D"):
        run = dataclasses.replace(digits_run, task=task)
        make_attackers(attack_context(run, OnlyQueried("", None, None), RunFolder(tmp_path), 0))
