"""FedML's DP solutions, by the hooks that its trainers and aggregators call in every round."""

import copy
import functools
import math
from argparse import Namespace
from collections import OrderedDict
from typing import Any

import numpy as np
import torch
from fedml.core.alg_frame.client_trainer import ClientTrainer
from fedml.core.alg_frame.server_aggregator import ServerAggregator
from fedml.core.dp.fedml_differential_privacy import FedMLDifferentialPrivacy

from experiments.in_the_wild.feature import CLIP_NORM, COHORT, SHAPES, Feature, pin_randomness
from fl_audit import Promise

EPSILON, DELTA = 1.0, 1e-5
OF_EPSILON = math.sqrt(2 * math.log(1.25 / DELTA)) / EPSILON
"""FedML's Gaussian noise, as a multiple of the sensitivity."""


class _Trainer(ClientTrainer):
    """A client that has trained."""

    def get_model_params(self) -> OrderedDict:
        return self.model

    def set_model_params(self, model_parameters: OrderedDict) -> None:
        self.model = model_parameters

    def train(self, train_data: Any, device: Any, args: Any) -> None:
        pass


class _Aggregator(ServerAggregator):
    """The server of such clients."""

    get_model_params = _Trainer.get_model_params
    set_model_params = _Trainer.set_model_params

    def test(self, test_data: Any, device: Any, args: Any) -> None:
        pass


def _round(solution: dict, _: Any, updates: list, random: np.random.Generator) -> tuple[Any, list]:
    """A round: each trainer's hook after its training, then the aggregator's three."""
    pin_randomness(random)
    args = Namespace(
        enable_dp=True,
        epsilon=EPSILON,
        delta=DELTA,
        federated_optimizer="FedAvg",
        comm_round=10,
        client_num_per_round=COHORT,
        client_num_in_total=COHORT,
        **solution,
    )
    FedMLDifferentialPrivacy._dp_instance = None
    uploads = []
    for update in updates:
        model = OrderedDict((str(i), torch.tensor(part)) for i, part in enumerate(update))
        trainer = _Trainer(model, args)
        trainer.on_after_local_training(None, None, args)
        uploads.append((100, copy.deepcopy(trainer.get_model_params())))
    aggregator = _Aggregator(OrderedDict(), args)
    # A cohort is filled up with clients that learnt nothing.
    nothing = OrderedDict((str(i), torch.zeros(shape)) for i, shape in enumerate(SHAPES))
    uploads += [(100, copy.deepcopy(nothing)) for _ in range(COHORT - len(uploads))]
    kept, _ = aggregator.on_before_aggregation(uploads)
    released = aggregator.on_after_aggregation(aggregator.aggregate(kept))
    return None, [part.numpy() for part in released.values()]


def _feature(name: str, stated: str, source: str, promise: Promise, solution: dict) -> Feature:
    return Feature(
        name=name,
        library="fedml",
        stated=stated,
        source=source,
        reading="one client more or less, full cohorts of equal weight",
        promise=promise,
        server=functools.partial(_round, solution),
        warned=("denominator",),
    )


def _promise(noise_multiplier: float) -> Promise:
    return Promise(clip_norm=CLIP_NORM, denominator=COHORT, noise_multiplier=noise_multiplier)


_CENTRAL = {
    "dp_solution_type": "cdp",
    "mechanism_type": "gaussian",
    "max_grad_norm": CLIP_NORM,
    "sensitivity": CLIP_NORM / COHORT,
}
_CLIPPED = {
    "dp_solution_type": "dp_clip",
    "clipping_norm": CLIP_NORM,
    "noise_multiplier": 1.0,
    "train_data_num_in_total": 100 * COHORT,
}
_NBAFL = {"dp_solution_type": "nbafl", "C": CLIP_NORM}

FEATURES: tuple[Feature, ...] = (
    _feature(
        "cdp, Gaussian",
        "add central DP noise",
        "ServerAggregator.on_after_aggregation",
        _promise(OF_EPSILON),
        _CENTRAL,
    ),
    _feature(
        "dp_clip",
        "enforce clipping of per-user updates so the total update has bounded L2 norm. ... add "
        "Gaussian noise to the final average update.",
        "fedml.core.dp.frames.dp_clip",
        _promise(1.0),
        _CLIPPED,
    ),
    _feature(
        "nbafl",
        "C: a clipping threshold for bounding w_i",
        "fedml.core.dp.frames.NbAFL",
        # Each of the cohort's uploads has the noise of sensitivity 1.
        _promise(OF_EPSILON * math.sqrt(COHORT) / CLIP_NORM),
        _NBAFL,
    ),
)
