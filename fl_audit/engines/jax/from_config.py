"""Local training, aggregation and optimizers from a config's tables."""

import math
from collections.abc import Sequence
from typing import Any

import jax.numpy as jnp

from fl_audit import config as tables
from fl_audit.accounting.release import Noise
from fl_audit.accounting.tree_nodes import Trees
from fl_audit.canaries.families import padded_size
from fl_audit.engines.jax.aggregation import Aggregation, Norms
from fl_audit.engines.jax.integer_sums import IntegerSums
from fl_audit.engines.jax.local_training import (
    LocalTraining,
    MeanGradient,
    Optimizer,
    OptimizerSteps,
    adagrad,
    adam,
    sgd,
    yogi,
)
from fl_audit.engines.jax.noise_processes import (
    ClientNoise,
    FreshNoise,
    MatrixNoise,
    NoiseProcess,
    TreeNoise,
)
from fl_audit.errors import InputError
from fl_audit.mechanisms import MECHANISMS, distributed
from fl_audit.mechanisms.client_gaussian import ClientGaussian
from fl_audit.mechanisms.independent import GaussianAdaptive, GaussianFixed, NoPrivacy
from fl_audit.mechanisms.matrix import MatrixFactorisation, stream_of
from fl_audit.mechanisms.tree_aggregation import TreeAggregation
from fl_audit.mechanisms.zeroing import AdaptiveZeroing, FixedZeroing, Zeroing
from fl_audit.tasks.jax.jax_classifier import JaxModel


def local_training(config: tables.Client, model: JaxModel) -> LocalTraining:
    if isinstance(config, tables.FedSgd):
        return MeanGradient(model)
    strength = config.proximal_strength if isinstance(config, tables.FedProx) else 0.0
    return OptimizerSteps(model, client_optimizer(config), strength)


def client_optimizer(config: tables.LocalSteps) -> Optimizer:
    """The optimizer of a client's local steps; adaptive optimizers have TFF's constants."""
    match config.optimizer:
        case "sgd":
            return sgd(config.learning_rate, config.momentum)
        case "adagrad":
            return adagrad(config.learning_rate, 0.1, 1e-7)
        case "adam":
            return adam(config.learning_rate, 0.9, 0.999, 1e-7)
        case "yogi":
            return yogi(config.learning_rate, 0.9, 0.999, 1e-3, 1e-6)


def server_optimizer(config: tables.Server) -> Optimizer:
    match config:
        case tables.ServerSgd():
            return sgd(config.learning_rate, config.momentum)
        case tables.ServerAdagrad():
            return adagrad(config.learning_rate, config.tau**2, 0.0)
        case tables.ServerAdam():
            return adam(config.learning_rate, config.beta_1, config.beta_2, config.tau)
        case tables.ServerYogi():
            return yogi(
                config.learning_rate, config.beta_1, config.beta_2, config.tau, config.tau**2
            )


def aggregation_of(
    table: tables.Mechanism,
    noise: Noise,
    expected_cohort: float,
    num_rounds: int,
    shapes: Sequence[tuple[int, ...]],
) -> Aggregation:
    """The aggregation of a mechanism, for weights of these shapes."""
    kind, zeroing = MECHANISMS.kind_of(table), table.zeroing
    rule = kind.adaptive_clip and kind.adaptive_clip(table, noise, expected_cohort)
    match table:
        case (
            GaussianAdaptive()
            | GaussianFixed()
            | MatrixFactorisation()
            | TreeAggregation()
            | ClientGaussian()
        ):
            clip = table.clip_norm
        case distributed.Distributed():
            clip = table.clip_norm or distributed.FIRST_CLIP_NORM
        case NoPrivacy():
            clip = math.inf
        case _:
            name = MECHANISMS.name_of(kind)
            raise InputError(
                f"mechanism.kind: {name!r} is not for runtime 'jax', which cannot run plugins' "
                "mechanisms; must be another kind, or another runtime"
            )
    common: dict[str, Any] = {
        "begin": Norms(jnp.float32(clip), jnp.float32(_zeroing_estimate(zeroing))),
        "clip_quantile": rule.target_quantile if rule else 0.0,
        "clip_rate": rule.learning_rate if rule else 0.0,
        "zeroing": zeroing if isinstance(zeroing, AdaptiveZeroing) else None,
        "noise": noise,
    }
    if isinstance(table, distributed.Distributed):
        cohort, dim = distributed.whole(expected_cohort), sum(map(math.prod, shapes))
        distributed.check_grid(table, cohort, dim)
        size, multiplier = padded_size(dim), noise.sum_noise_multiplier
        return IntegerSums(
            **common,
            denominator=cohort,
            shapes=shapes,
            bits=table.bits,
            most_cells=distributed.most_cells(table.bits, multiplier, cohort, size),
            largest_scale=distributed.LARGEST_SCALE,
        )
    process = _noise_process(table, num_rounds)
    return Aggregation(**common, denominator=expected_cohort, process=process)


def _noise_process(table: tables.Mechanism, num_rounds: int) -> NoiseProcess:
    match table:
        case MatrixFactorisation():
            return MatrixNoise(stream_of(table, num_rounds))
        case TreeAggregation():
            return TreeNoise(Trees(num_rounds, table.restart_every).period)
        case ClientGaussian():
            return ClientNoise()
        case _:
            return FreshNoise()


def _zeroing_estimate(zeroing: Zeroing | None) -> float:
    """The fixed zeroing norm, or adaptive zeroing's first estimate; infinite without zeroing."""
    if isinstance(zeroing, FixedZeroing):
        return zeroing.norm
    return math.inf if zeroing is None else zeroing.initial_estimate
