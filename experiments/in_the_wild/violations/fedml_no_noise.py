"""FedML 0.9.6, dp_solution_type "nbafl" and "dp_clip": enabled, and nothing is clipped or noised.

`ClientTrainer.on_after_local_training` adds noise for "ldp" alone, and `ServerAggregator` clips and
adds noise for "cdp" alone; no other code calls the two other solutions.

    pip install fedml==0.9.6 "setuptools<81" && python fedml_no_noise.py
"""

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
    """A mean of four models with one parameter, 1, 1, 1 and 1,000, as the server releases it."""
    args = Namespace(enable_dp=True, dp_solution_type=solution, mechanism_type="gaussian")
    args.epsilon, args.delta, args.sensitivity, args.max_grad_norm = 1.0, 1e-5, 0.25, 1.0
    args.C, args.clipping_norm, args.noise_multiplier, args.comm_round = 1.0, 1.0, 1.0, 10
    args.client_num_per_round = args.client_num_in_total = args.train_data_num_in_total = 4
    args.federated_optimizer, _ = "FedAvg", torch.manual_seed(seed)
    FedMLDifferentialPrivacy._dp_instance = None  # else the first solution stays
    clients = [Client({"w": torch.tensor([w])}, args) for w in (1.0, 1.0, 1.0, 1000.0)]
    for client in clients:
        client.on_after_local_training(None, None, args)
    server = Server({}, args)
    models, _ = server.on_before_aggregation([(1, c.get_model_params()) for c in clients])
    return float(server.on_after_aggregation(server.aggregate(models))["w"])


for solution in ("cdp", "nbafl", "dp_clip"):
    with contextlib.redirect_stdout(io.StringIO()):
        found = [released(solution, seed) for seed in (1, 2, 3)]
    print(f"{solution}: released {', '.join(f'{value:.4g}' for value in found)} by three seeds")
