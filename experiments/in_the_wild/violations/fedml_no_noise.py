"""FedML 0.9.6, dp_solution_type "nbafl" and "dp_clip": enabled, and nothing is clipped or noised.

`ClientTrainer` adds noise for "ldp" alone, `ServerAggregator` clips and adds noise for "cdp" alone.
    pip install fedml==0.9.6 "setuptools<81" && python fedml_no_noise.py
"""

# ruff: noqa: D102 - a script for FedML's authors
import contextlib
import io
from argparse import Namespace

import torch
from fedml.core.alg_frame.client_trainer import ClientTrainer
from fedml.core.alg_frame.server_aggregator import ServerAggregator
from fedml.core.dp.fedml_differential_privacy import FedMLDifferentialPrivacy


class Client(ClientTrainer):
    """A client whose model is a dictionary of arrays."""

    def get_model_params(self) -> dict:
        return self.model

    def set_model_params(self, model_parameters: dict) -> None:
        self.model = model_parameters

    def train(self, train_data: object, device: object, args: object) -> None:
        pass


class Server(ServerAggregator):
    """Its server."""

    get_model_params, set_model_params = Client.get_model_params, Client.set_model_params

    def test(self, test_data: object, device: object, args: object) -> None:
        pass


def released(solution: str, seed: int) -> float:
    """The mean of models with one parameter, as the server releases it."""
    args = Namespace(enable_dp=True, dp_solution_type=solution, federated_optimizer="FedAvg")
    args.mechanism_type, args.epsilon, args.delta, args.sensitivity = "gaussian", 1.0, 1e-5, 0.25
    args.C = args.max_grad_norm = args.clipping_norm = args.noise_multiplier = 1.0
    args.client_num_per_round = args.client_num_in_total = args.comm_round = 4
    args.train_data_num_in_total = 4
    FedMLDifferentialPrivacy._dp_instance = None  # else the first solution stays
    torch.manual_seed(seed)
    clients = [Client({"w": torch.tensor([w])}, args) for w in (1.0, 1.0, 1.0, 1000.0)]
    for client in clients:
        client.on_after_local_training(None, None, args)
    server = Server({}, args)
    models = server.on_before_aggregation([(1, c.get_model_params()) for c in clients])[0]
    return float(server.on_after_aggregation(server.aggregate(models))["w"])


for solution in ("cdp", "nbafl", "dp_clip"):
    with contextlib.redirect_stdout(io.StringIO()):
        found = [released(solution, seed) for seed in (1, 2, 3)]
    print(f"{solution}: released {', '.join(f'{value:.4g}' for value in found)} by three seeds")
