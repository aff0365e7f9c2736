"""Tree aggregation's privacy, against the Gaussian mechanism that tensorflow-privacy's code is."""

import functools
import itertools

import dp_accounting
import numpy as np
import pytest
import tensorflow as tf
from dp_accounting.rdp import RdpAccountant
from tensorflow_privacy.privacy.analysis import tree_aggregation_accountant
from tensorflow_privacy.privacy.dp_query import tree_aggregation

from fl_audit.accounting.gaussian_accountants import account_gaussian
from fl_audit.accounting.renyi import RDP_ORDERS
from fl_audit.accounting.tree_nodes import Trees, squared_sensitivities

pytestmark = pytest.mark.tff


MOST = 21


class _NextNode(tree_aggregation.ValueGenerator):
    """Of node k the k-th unit vector in place of noise."""

    def initialize(self):
        return tf.constant(0)

    def next(self, state):
        return tf.one_hot(state, 2 * MOST + 1), state + 1


@functools.cache
def noise_of_sums():
    """The matrix that takes independent noise of nodes to the noise of the first sums."""
    aggregator = tree_aggregation.EfficientTreeAggregator(_NextNode())
    state, rows = aggregator.init_state(), []
    for _ in range(MOST):
        row, state = aggregator.get_cumsum_and_update(state)
        rows.append(row.numpy().astype(np.float64))
    return np.stack(rows)


def exact_squared_sensitivity(rounds, noise):
    """Of all sums together: the square of their shift, measured in their noise."""
    shift = np.cumsum(np.isin(np.arange(len(noise)), rounds)).astype(np.float64)
    return shift @ np.linalg.solve(noise @ noise.T, shift)


def of(rounds, num_rounds):
    rounds = np.array(rounds, np.int64)
    return int(squared_sensitivities(np.zeros_like(rounds), rounds, Trees(num_rounds))[0])


@pytest.mark.parametrize("num_rounds", [1, 2, 3, 5, 8])
def test_what_is_released_moves_no_further_than_the_nodes(num_rounds):
    noise = noise_of_sums()[:num_rounds]
    for size in range(1, num_rounds + 1):
        for rounds in itertools.combinations(range(num_rounds), size):
            exact = exact_squared_sensitivity(rounds, noise)
            assert exact <= of(rounds, num_rounds) * (1 + 1e-5)


@pytest.mark.parametrize(("trees", "period"), [(1, 100), (4, 25), (3, 64)])
def test_one_round_a_tree_is_what_dp_accounting_says(trees, period):
    event = dp_accounting.SelfComposedDpEvent(
        dp_accounting.SingleEpochTreeAggregationDpEvent(2.0, period), trees
    )
    relation = dp_accounting.NeighboringRelation.REPLACE_SPECIAL
    theirs = RdpAccountant(list(RDP_ORDERS), relation).compose(event).get_epsilon(1e-6)
    nodes = Trees(trees * period, period).once_per_block(period)
    rdp, exact = account_gaussian(2.0, nodes, 1e-6)
    assert rdp.epsilon == pytest.approx(theirs, rel=1e-9)
    assert 0.9 * theirs < exact.epsilon < theirs


def of_tensorflow_privacy(num_rounds, participations, gap):
    """The squared sensitivity in zCDP's rho at noise multiplier 1; `gap` rounds lie between."""
    rho = tree_aggregation_accountant.compute_zcdp_single_tree(1.0, num_rounds, participations, gap)
    return 2 * rho


@pytest.mark.parametrize(("num_rounds", "separation"), [(12, 1), (16, 1), (20, 4), (40, 6)])
def test_groups_in_turn_are_a_case_of_what_tensorflow_privacy_counts(num_rounds, separation):
    rounds = np.arange(num_rounds)
    groups = squared_sensitivities(rounds % separation, rounds, Trees(num_rounds))
    most = -(-num_rounds // separation)
    theirs = of_tensorflow_privacy(num_rounds, most, separation - 1)
    assert 0.7 * theirs < groups.max() <= theirs
    if separation == 1:
        assert groups.max() == theirs


@pytest.mark.parametrize("num_rounds", [1, 2, 3, 5, 8, MOST])
def test_weights_are_those_of_the_noise_that_tensorflow_privacy_adds(num_rounds):
    noise, trees = noise_of_sums()[:num_rounds], Trees(num_rounds)
    weights = trees.weights(np.eye(num_rounds))
    for rounds in ([0], [num_rounds - 1], range(0, num_rounds, 2)):
        presence = np.isin(np.arange(num_rounds), rounds).astype(np.float64)
        exact = exact_squared_sensitivity(rounds, noise)
        assert presence @ weights @ presence == pytest.approx(exact, rel=1e-5)
