"""Audits a Flower server: trains with canary clients, scores every round, estimates epsilon.

    python run.py --out FOLDER [--rounds 20] [--noise-multiplier 0.5]

The server is Flower's, with its FedAvg and its server-side DP; the clients run in Flower's
simulation, in processes of their own, whose log goes to FOLDER.log.
"""

import argparse
import os

os.environ["FLWR_TELEMETRY_ENABLED"] = "0"  # Flower sends usage data unless disabled
os.environ["RAY_USAGE_STATS_ENABLED"] = "0"

from client_app import app as client_app
from flwr.app import ArrayRecord, Context
from flwr.serverapp import Grid, ServerApp
from flwr.serverapp.strategy import DifferentialPrivacyServerSideFixedClipping, FedAvg
from flwr.simulation import run_simulation
from quiet import output_to
from setting import CLIP_NORM, NUM_CLIENTS, POOL, SHARE_PER_ROUND, accuracy, initial_weights

from fl_audit.attacks import RoundScorer
from fl_audit.cli import main as fl_audit
from fl_audit.flower import ScoredStrategy


def simulate(out: str, rounds: int, noise_multiplier: float) -> float:
    """Runs the simulation, which writes the audit to the folder, and gives the accuracy."""
    # An included canary is a node of its own. Excluded ones send nothing, so they have no node.
    num_nodes = NUM_CLIENTS + int(POOL.included.sum())
    scorer = RoundScorer.create(out, POOL, rounds)
    server_app = ServerApp()
    accuracies: list[float] = []

    @server_app.main()
    def serve(grid: Grid, context: Context) -> None:
        private = DifferentialPrivacyServerSideFixedClipping(
            FedAvg(
                fraction_train=SHARE_PER_ROUND, fraction_evaluate=0, min_available_nodes=num_nodes
            ),
            noise_multiplier=noise_multiplier,
            clipping_norm=CLIP_NORM,
            num_sampled_clients=int(SHARE_PER_ROUND * num_nodes),
        )
        strategy = ScoredStrategy(private, scorer)
        result = strategy.start(grid, ArrayRecord(initial_weights()), num_rounds=rounds)
        accuracies.append(accuracy(result.arrays.to_numpy_ndarrays()))

    run_simulation(server_app, client_app, num_supernodes=num_nodes)
    return accuracies[0]


def main() -> None:
    """Trains and audits, and prints the result."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", required=True, help="a new folder, for the audit")
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--noise-multiplier", type=float, default=0.5)
    arguments = parser.parse_args()
    with output_to(f"{arguments.out}.log"):
        found = simulate(arguments.out, arguments.rounds, arguments.noise_multiplier)
    print(f"accuracy {found:.3f} after {arguments.rounds} rounds")
    fl_audit(["estimate", arguments.out, "--delta", "1e-3", "--verbose"])


if __name__ == "__main__":
    main()
