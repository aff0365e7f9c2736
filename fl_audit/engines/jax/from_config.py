"""Local training, aggregation and optimizers from a config's tables."""

import math
from collections.abc import Sequence

import jax.numpy as jnp

from fl_audit import config as tables
from fl_audit.accounting.release import Noise
from fl_audit.accounting.tree_nodes import Trees
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
    process: NoiseProcess = FreshNoise()
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
    if isinstance(table, MatrixFactorisation):
        process = MatrixNoise(stream_of(table, num_rounds))
    elif isinstance(table, TreeAggregation):
        process = TreeNoise(Trees(num_rounds, table.restart_every).period)
    elif isinstance(table, ClientGaussian):
        process = ClientNoise()
    aggregation = Aggregation(
        begin=Norms(jnp.float32(clip), jnp.float32(_zeroing_estimate(zeroing))),
        clip_quantile=rule.target_quantile if rule else 0.0,
        clip_rate=rule.learning_rate if rule else 0.0,
        zeroing=zeroing if isinstance(zeroing, AdaptiveZeroing) else None,
        noise=noise,
        denominator=expected_cohort,
        process=process,
    )
    if isinstance(table, distributed.Distributed):
        return _integer_sums(table, aggregation, distributed.whole(expected_cohort), shapes)
    return aggregation


def _zeroing_estimate(zeroing: Zeroing | None) -> float:
    """The fixed zeroing norm, or adaptive zeroing's first estimate; infinite without zeroing."""
    if isinstance(zeroing, FixedZeroing):
        return zeroing.norm
    return math.inf if zeroing is None else zeroing.initial_estimate


def _integer_sums(
    table: distributed.Distributed,
    like: Aggregation,
    cohort: int,
    shapes: Sequence[tuple[int, ...]],
) -> IntegerSums:
    """The aggregation `like`, but with integers, on the finest grid that the bits allow."""
    dim = sum(math.prod(shape) for shape in shapes)
    distributed.check_grid(table, cohort, dim)
    multiplier = like.noise.sum_noise_multiplier
    return IntegerSums(
        begin=like.begin,
        clip_quantile=like.clip_quantile,
        clip_rate=like.clip_rate,
        zeroing=like.zeroing,
        noise=like.noise,
        denominator=cohort,
        shapes=shapes,
        bits=table.bits,
        most_cells=distributed.most_cells(
            table.bits, multiplier, cohort, distributed.padded_size(dim)
        ),
        largest_scale=distributed.LARGEST_SCALE,
    )
