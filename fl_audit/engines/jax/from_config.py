"""Local training, aggregation and optimizers of a config's tables."""

import math

import jax.numpy as jnp

from fl_audit.accounting.release import Noise
from fl_audit.accounting.tree_nodes import Trees
from fl_audit.config import (
    Client,
    FedProx,
    FedSgd,
    LocalSteps,
    Mechanism,
    Server,
    ServerAdagrad,
    ServerAdam,
    ServerSgd,
    ServerYogi,
)
from fl_audit.engines.jax.aggregation import Aggregation, Norms
from fl_audit.engines.jax.local_training import LocalTraining, MeanGradient, OptimizerSteps
from fl_audit.engines.jax.noise import (
    ClientNoise,
    FreshNoise,
    MatrixNoise,
    NoiseProcess,
    TreeNoise,
)
from fl_audit.engines.jax.optimizers import Optimizer, adagrad, adam, sgd, yogi
from fl_audit.errors import InputError
from fl_audit.mechanisms import MECHANISMS
from fl_audit.mechanisms.client_gaussian import ClientGaussian
from fl_audit.mechanisms.independent import GaussianAdaptive, GaussianFixed, NoPrivacy
from fl_audit.mechanisms.matrix import MatrixFactorisation, stream_of
from fl_audit.mechanisms.tree_aggregation import TreeAggregation
from fl_audit.mechanisms.zeroing import AdaptiveZeroing, FixedZeroing
from fl_audit.tasks.jax.classifier import JaxModel


def local_training(config: Client, model: JaxModel) -> LocalTraining:
    """The training of the clients of a config.

    Args:
      config: The client table.
      model: The model's functions.
    """
    if isinstance(config, FedSgd):
        return MeanGradient(model)
    strength = config.proximal_strength if isinstance(config, FedProx) else 0.0
    return OptimizerSteps(model, client_optimizer(config), strength)


def client_optimizer(config: LocalSteps) -> Optimizer:
    """The optimizer of a client's local steps; the constants of adaptive ones are TFF's defaults.

    Args:
      config: The client table of a config.
    """
    match config.optimizer:
        case "sgd":
            return sgd(config.learning_rate, config.momentum)
        case "adagrad":
            return adagrad(config.learning_rate, 0.1, 1e-7)
        case "adam":
            return adam(config.learning_rate, 0.9, 0.999, 1e-7)
        case "yogi":
            return yogi(config.learning_rate, 0.9, 0.999, 1e-3, 1e-6)


def server_optimizer(config: Server) -> Optimizer:
    """The optimizer that applies aggregates.

    Args:
      config: The server table of a config.
    """
    match config:
        case ServerSgd():
            return sgd(config.learning_rate, config.momentum)
        case ServerAdagrad():
            return adagrad(config.learning_rate, config.tau**2, 0.0)
        case ServerAdam():
            return adam(config.learning_rate, config.beta_1, config.beta_2, config.tau)
        case ServerYogi():
            return yogi(
                config.learning_rate, config.beta_1, config.beta_2, config.tau, config.tau**2
            )


def aggregation_of(
    table: Mechanism, noise: Noise, expected_cohort: float, num_rounds: int
) -> Aggregation:
    """The aggregation of a mechanism.

    Args:
      table: The mechanism table of a config.
      noise: The noise of a round.
      expected_cohort: The expected number of clients and canaries in a round.
      num_rounds: The number of rounds of training, which a matrix is made for.

    Raises:
      InputError: Runtime `jax` does not have the mechanism.
    """
    process: NoiseProcess = FreshNoise()
    match table:
        case GaussianAdaptive():
            clip, quantile, zeroing = table.clip_norm, table.target_quantile, table.zeroing
            rate = table.clip_learning_rate
        case GaussianFixed() | MatrixFactorisation() | TreeAggregation():
            clip, quantile, rate, zeroing = table.clip_norm, 0.0, 0.0, table.zeroing
        case ClientGaussian():
            clip, quantile, rate, zeroing = table.clip_norm, 0.0, 0.0, None
        case NoPrivacy():
            clip, quantile, rate, zeroing = math.inf, 0.0, 0.0, table.zeroing
        case _:
            name = MECHANISMS.name_of(MECHANISMS.kind_of(table))
            raise InputError(
                f"mechanism.kind: {name!r} is not for runtime 'jax'; must be client_gaussian, "
                "gaussian_adaptive, gaussian_fixed, matrix_factorisation, tree_aggregation or none "
                "there, or another runtime"
            )
    if isinstance(table, MatrixFactorisation):
        process = MatrixNoise(stream_of(table, num_rounds))
    elif isinstance(table, TreeAggregation):
        process = TreeNoise(Trees(num_rounds, table.restart_every).period)
    elif isinstance(table, ClientGaussian):
        process = ClientNoise()
    estimate = math.inf
    if isinstance(zeroing, FixedZeroing):
        estimate = zeroing.norm
    elif isinstance(zeroing, AdaptiveZeroing):
        estimate = zeroing.initial_estimate
    return Aggregation(
        begin=Norms(jnp.float32(clip), jnp.float32(estimate)),
        clip_quantile=quantile,
        clip_rate=rate,
        zeroing=zeroing if isinstance(zeroing, AdaptiveZeroing) else None,
        noise=noise,
        denominator=expected_cohort,
        process=process,
    )
