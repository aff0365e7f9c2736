"""Where the data of example canaries comes from: nobody else has it."""

import dataclasses

import msgspec
import numpy as np
import pytest

from fl_audit.config import (
    Audit,
    Bernoulli,
    Config,
    DigitsTask,
    ExampleCanaries,
    GaussianFixed,
    Replay,
)
from fl_audit.engines.example_canaries import make_example_pool
from fl_audit.engines.prepare import canaries_csv, prepare
from fl_audit.errors import InputError
from fl_audit.tasks import load_task
from fl_audit.tasks.learning_task import (
    NO_CLASS,
    Examples,
)

CLIENTS = 40
CONFIG = Config(
    task=DigitsTask(num_clients=CLIENTS, hidden=(4,)),
    mechanism=GaussianFixed(noise_multiplier=0.0, clip_norm=1.0),
    participation=Bernoulli(rounds=5, clients_per_round=10),
    canaries=ExampleCanaries(source="in_distribution", count=12),
    seed=3,
)


@pytest.fixture(scope="module")
def digits():
    return load_task(CONFIG.task, CONFIG.seed)


def pool_of(task, seed=CONFIG.seed, **keys):
    canaries = ExampleCanaries(**({"source": "in_distribution", "count": 12} | keys))
    return make_example_pool(msgspec.structs.replace(CONFIG, seed=seed), canaries, task)


def images(examples):
    return [image.tobytes() for image in examples.inputs]


def real_images(task):
    clients = range(len(task.population.client_ids))
    return [image for c in clients for image in images(task.population.examples(c))]


def test_a_canary_in_distribution_is_a_client_who_is_no_real_one_then(digits):
    pool = pool_of(digits)
    assert len(pool.examples) == 12
    assert len(pool.task.population.client_ids) == CLIENTS - 12
    assert set(pool.task.population.client_ids) < set(digits.population.client_ids)
    by_images = {tuple(images(digits.population.examples(c))): c for c in range(CLIENTS)}
    taken = [by_images[tuple(images(canary))] for canary in pool.examples]
    assert len(set(taken)) == 12
    for canary, client in zip(pool.examples, taken, strict=True):
        np.testing.assert_array_equal(canary.labels, digits.population.examples(client).labels)
    # Of 1,500 images a few may be equal; what matters is that each is dealt once.
    held = [image for canary in pool.examples for image in images(canary)]
    assert sorted(held + real_images(pool.task)) == sorted(real_images(digits))


def test_clients_are_cut_into_canaries_of_a_size(digits):
    pool = pool_of(digits, count=50, examples_per_canary=10)
    assert [len(canary) for canary in pool.examples] == [10] * 50
    # 37 or 38 images a client: three canaries each.
    assert len(pool.task.population.client_ids) == CLIENTS - 17
    held = [image for canary in pool.examples for image in images(canary)]
    assert not set(held) & set(real_images(pool.task))


def test_mislabelled_canaries_have_the_same_inputs_and_no_right_label(digits):
    right, wrong = pool_of(digits), pool_of(digits, source="mislabelled")
    assert wrong.task.population.client_ids == right.task.population.client_ids
    for truth, lie in zip(right.examples, wrong.examples, strict=True):
        np.testing.assert_array_equal(truth.inputs, lie.inputs)
        assert (truth.labels != lie.labels).all()
        assert (lie.labels >= 0).all()
        assert (lie.labels < 10).all()


@pytest.mark.parametrize(("design", "least"), [(None, -1), ("signs", -1), ("in_range", 0)])
def test_random_canaries_take_no_client(digits, design, least):
    pool = pool_of(digits, source="random", count=200, design=design)
    assert pool.task is digits
    sizes = [digits.population.num_examples(c) for c in range(CLIENTS)]
    assert {len(canary) for canary in pool.examples} == {int(np.median(sizes))}
    everything = Examples.concatenate(pool.examples)
    assert set(np.unique(everything.inputs)) == {least, 1.0}
    assert set(everything.labels) == set(range(10))
    # 7,400 images of 64 fair coins: a share is within 5 / sqrt(4 x 7400 x 64) < 0.004 but for 6e-7.
    assert abs(np.mean(everything.inputs == 1) - 0.5) < 0.004
    of_one = pool_of(digits, source="random", count=200, examples_per_canary=1)
    assert {len(canary) for canary in of_one.examples} == {1}


def test_random_canaries_need_numbers_with_a_class_or_sentences(digits):
    whole = digits.held_out.inputs.astype(np.int32)
    task = dataclasses.replace(digits, held_out=Examples(whole, digits.held_out.labels))
    with pytest.raises(InputError, match=r"^canaries\.source: 'random' is for inputs that are "):
        pool_of(task, source="random")


def labelled(task, weights, count, dtype):
    """The task with `count` labels of a type, in a model of one output."""
    population = dataclasses.replace(
        task.population,
        data=[
            Examples(each.inputs, (each.labels % count).astype(dtype))
            for each in task.population.data
        ],
    )
    held_out = Examples(task.held_out.inputs, (task.held_out.labels % count).astype(dtype))
    model = dataclasses.replace(task.classifier, initial_weights=weights)
    return dataclasses.replace(task, classifier=model, population=population, held_out=held_out)


@pytest.mark.parametrize("source", ["mislabelled", "random"])
def test_one_output_for_two_classes_or_a_regression(digits, source):
    weights = (np.zeros((64, 1), np.float32), np.zeros(1, np.float32))
    made = pool_of(labelled(digits, weights, 2, np.int32), source=source).examples
    assert set(Examples.concatenate(made).labels) == {0, 1}
    expected = rf"^canaries\.source: '{source}' is for labels that are classes; must be "
    with pytest.raises(InputError, match=expected):
        pool_of(labelled(digits, weights, 10, np.float32), source=source)


@pytest.mark.parametrize("source", ["mislabelled", "random"])
def test_a_seed_gives_the_same_canaries_and_another_seed_others(digits, source):
    first, again, other = (pool_of(digits, seed, source=source) for seed in (3, 3, 4))
    for a, b in zip(first.examples, again.examples, strict=True):
        np.testing.assert_array_equal(a.inputs, b.inputs)
        np.testing.assert_array_equal(a.labels, b.labels)
    assert {tuple(images(c)) for c in first.examples} != {tuple(images(c)) for c in other.examples}


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({"count": CLIENTS}, r"canaries\.count: 40 canaries with all examples of a client each "),
        ({"count": 151, "examples_per_canary": 10}, r"canaries\.count: 151 canaries with 10 exam"),
        ({"count": 2, "examples_per_canary": 39}, r"canaries\.count: 2 canaries with 39 examples"),
    ],
)
def test_too_many_canaries_are_refused(digits, keys, message):
    with pytest.raises(InputError, match=message) as caught:
        pool_of(digits, **keys)
    assert "\n" not in str(caught.value)


def test_a_replayed_log_may_name_who_is_taken_out(digits):
    config = msgspec.structs.replace(CONFIG, participation=Replay(path="log.csv"))
    with pytest.raises(InputError, match=r"^canaries\.source: 'in_distribution' takes clients out"):
        make_example_pool(config, CONFIG.canaries, digits)


def test_threat_models_without_a_score_are_refused(digits):
    audit = Audit(threat_models=("final", "checkpoints"), release_every=2)
    config = msgspec.structs.replace(CONFIG, audit=audit)
    with pytest.raises(InputError, match=r"^audit\.threat_models: 'checkpoints' is for canaries"):
        make_example_pool(config, CONFIG.canaries, digits)


def test_a_prepared_run_knows_the_canaries_examples():
    run = prepare(CONFIG)
    assert len(run.canary_examples) == len(run.included) == 12
    assert run.family.num_canaries == 0
    assert run.delta == pytest.approx((CLIENTS - 12) ** -1.1)
    assert len(canaries_csv(run).splitlines()) == 13
    assert all((canary.labels != NO_CLASS).all() for canary in run.canary_examples)
