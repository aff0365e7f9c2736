"""FedProx as an optimizer of the clients: a term in the gradients pulls them to their start."""

import collections
from typing import Any

import tensorflow as tf
import tensorflow_federated as tff


class ProximalOptimizer(tff.learning.optimizers.Optimizer):
    """An optimizer that adds mu (w - w_0) to each gradient, for weights w that began at w_0.

    This term is the gradient of mu/2 |w - w_0|^2, which Li et al. 2020 ("Federated Optimization in
    Heterogeneous Networks", equation 2) add to a client's loss. TFF 0.87.0 subtracts it instead:
    its `build_weighted_fed_prox` adds mu (w_0 - w) to the gradients (`proximal_client_work.py`),
    which drives clients away from the round's model.
    """

    def __init__(
        self, optimizer: tff.learning.optimizers.Optimizer, proximal_strength: float
    ) -> None:
        """Wraps an optimizer.

        Args:
          optimizer: The optimizer that is given the gradients with the proximal term.
          proximal_strength: The factor mu of the proximal term, positive.
        """
        self._optimizer = optimizer
        self._strength = proximal_strength

    def initialize(self, specs: Any) -> Any:
        """The state of a client before its first step."""
        start = tf.nest.map_structure(lambda spec: tf.zeros(spec.shape, spec.dtype), specs)
        return collections.OrderedDict(
            optimizer=self._optimizer.initialize(specs), begun=tf.constant(False), start=start
        )

    def next(self, state: Any, weights: Any, gradients: Any) -> tuple[Any, Any]:
        """The state and weights after a step; the weights before the first step become w_0."""
        gradients = tff.learning.optimizers.handle_indexed_slices_gradients(gradients)
        start = tf.nest.map_structure(
            lambda old, now: tf.where(state["begun"], old, now), state["start"], weights
        )
        pulled = tf.nest.map_structure(self._pulled, gradients, weights, start)
        inner, weights = self._optimizer.next(state["optimizer"], weights, pulled)
        state = collections.OrderedDict(optimizer=inner, begun=tf.constant(True), start=start)
        return state, weights

    def _pulled(self, gradient: Any, weight: Any, start: Any) -> Any:
        if gradient is None:  # the loss does not know this weight, so that it never moves
            return None
        return gradient + tf.cast(self._strength, gradient.dtype) * (weight - start)

    def get_hparams(self, state: Any) -> Any:
        """The hyperparameters of the wrapped optimizer."""
        return self._optimizer.get_hparams(state["optimizer"])

    def set_hparams(self, state: Any, hparams: Any) -> Any:
        """Sets the hyperparameters of the wrapped optimizer."""
        inner = self._optimizer.set_hparams(state["optimizer"], hparams)
        return collections.OrderedDict(state, optimizer=inner)
