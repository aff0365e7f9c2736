"""FedProx as an optimizer of the clients: their gradients pull them back to where they began."""

import collections
from typing import Any

import tensorflow as tf
import tensorflow_federated as tff


class ProximalOptimizer(tff.learning.optimizers.Optimizer):
    """Adds mu (w - w_0) to each gradient, for weights w that began at w_0.

    That is the gradient of mu/2 |w - w_0|^2, which Li et al. 2020 ("Federated Optimization in
    Heterogeneous Networks", equation 2) add to a client's loss. TFF 0.87.0 subtracts it instead:
    its `build_weighted_fed_prox` adds mu (w_0 - w) to the gradients (`proximal_client_work.py`),
    which drives clients away from the round's model.
    """

    def __init__(
        self, optimizer: tff.learning.optimizers.Optimizer, proximal_strength: float
    ) -> None:
        """Wraps an optimizer.

        Args:
          optimizer: That is given the gradients.
          proximal_strength: mu, positive.
        """
        self._optimizer = optimizer
        self._strength = proximal_strength

    def initialize(self, specs: Any) -> Any:
        """The state of a client that has not begun."""
        start = tf.nest.map_structure(lambda spec: tf.zeros(spec.shape, spec.dtype), specs)
        return collections.OrderedDict(
            optimizer=self._optimizer.initialize(specs), begun=tf.constant(False), start=start
        )

    def next(self, state: Any, weights: Any, gradients: Any) -> tuple[Any, Any]:
        """State and weights after a step; weights of the first step are those it pulls to."""
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
        """Those of the wrapped optimizer."""
        return self._optimizer.get_hparams(state["optimizer"])

    def set_hparams(self, state: Any, hparams: Any) -> Any:
        """Sets those of the wrapped optimizer."""
        inner = self._optimizer.set_hparams(state["optimizer"], hparams)
        return collections.OrderedDict(state, optimizer=inner)
