"""TFF's optimizers for the tables of a config."""

import tensorflow_federated as tff

from fl_audit.config import (
    FedProx,
    LocalSteps,
    Server,
    ServerAdagrad,
    ServerAdam,
    ServerSgd,
    ServerYogi,
)
from fl_audit.training.algorithm.proximal_optimizer import ProximalOptimizer

_ADAPTIVE = {
    "adagrad": tff.learning.optimizers.build_adagrad,
    "adam": tff.learning.optimizers.build_adam,
    "yogi": tff.learning.optimizers.build_yogi,
}


def client_optimizer(config: LocalSteps) -> tff.learning.optimizers.Optimizer:
    """The optimizer of a client's local training, with FedProx's pull where the config has it.

    Args:
      config: The client table of a config.
    """
    if config.optimizer == "sgd":
        optimizer = tff.learning.optimizers.build_sgdm(config.learning_rate, config.momentum)
    else:
        optimizer = _ADAPTIVE[config.optimizer](config.learning_rate)
    if isinstance(config, FedProx):
        return ProximalOptimizer(optimizer, config.proximal_strength)
    return optimizer


def server_optimizer(config: Server) -> tff.learning.optimizers.Optimizer:
    """The optimizer that applies aggregates.

    The sums of squares of past aggregates start at tau^2, as in Reddi et al. 2020, algorithm 2;
    those of Adam, whose bias TFF corrects, start at 0.

    Args:
      config: The server table of a config.
    """
    match config:
        case ServerSgd():
            return tff.learning.optimizers.build_sgdm(config.learning_rate, config.momentum)
        case ServerAdagrad():
            return tff.learning.optimizers.build_adagrad(
                config.learning_rate, initial_preconditioner_value=config.tau**2, epsilon=0.0
            )
        case ServerAdam():
            return tff.learning.optimizers.build_adam(
                config.learning_rate, config.beta_1, config.beta_2, config.tau
            )
        case ServerYogi():
            return tff.learning.optimizers.build_yogi(
                config.learning_rate, config.beta_1, config.beta_2, config.tau, config.tau**2
            )
