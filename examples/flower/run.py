"""Audits a Flower server: trains with canary clients, scores every round, estimates epsilon.

    python run.py --out FOLDER [--rounds 20] [--noise-multiplier 0.5]

The server is Flower's, with its FedAvg and its server-side DP; the clients run in Flower's
simulation, in processes of their own.
"""

import argparse
import os

os.environ["FLWR_TELEMETRY_ENABLED"] = "0"  # Flower sends usage data unless told not to
os.environ["RAY_USAGE_STATS_ENABLED"] = "0"

from client_app import app as client_app
from flwr.app import ArrayRecord, Context
from flwr.serverapp import Grid, ServerApp
from flwr.serverapp.strategy import DifferentialPrivacyServerSideFixedClipping, FedAvg
from flwr.simulation import run_simulation
from scored_strategy import ScoredStrategy
from setting import CLIP_NORM, NUM_CLIENTS, POOL, SHARE_PER_ROUND, accuracy, initial_weights

from fl_audit.attacks import RoundScorer


def main() -> None:
    """Runs the simulation, which writes the audit to the folder."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", required=True, help="a new folder, for the audit")
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--noise-multiplier", type=float, default=0.5)
    arguments = parser.parse_args()
    # An included canary is a node of its own. Excluded ones send nothing, so they have no node.
    num_nodes = NUM_CLIENTS + int(POOL.included.sum())
    scorer = RoundScorer.create(arguments.out, POOL, arguments.rounds)
    server_app = ServerApp()

    @server_app.main()
    def serve(grid: Grid, context: Context) -> None:
        private = DifferentialPrivacyServerSideFixedClipping(
            FedAvg(
                fraction_train=SHARE_PER_ROUND, fraction_evaluate=0, min_available_nodes=num_nodes
            ),
            noise_multiplier=arguments.noise_multiplier,
            clipping_norm=CLIP_NORM,
            num_sampled_clients=int(SHARE_PER_ROUND * num_nodes),
        )
        strategy = ScoredStrategy(private, scorer)
        initial = ArrayRecord(initial_weights())
        result = strategy.start(grid=grid, initial_arrays=initial, num_rounds=arguments.rounds)
        final = result.arrays.to_numpy_ndarrays()
        scorer.finish(initial=initial_weights(), final=final)
        print(f"accuracy {accuracy(final):.3f} after {len(scorer.scored_rounds)} rounds")

    run_simulation(server_app, client_app, num_supernodes=num_nodes)


if __name__ == "__main__":
    main()
