"""Audits an NVFlare server: trains with canaries, scores every round, estimates epsilon.

    python run.py --out FOLDER [--rounds 10] [--noise-multiplier 2]

The server runs NVFlare's FedAvg around the private mean of private_mean.py; sites run in NVFlare's
simulator, in processes of their own. What NVFlare says and writes goes to FOLDER.nvflare.
"""

import argparse
import secrets
import subprocess
import sys
from pathlib import Path

import numpy as np
from nvflare.app_common.np.np_model_persistor import NPModelPersistor
from nvflare.app_common.workflows.fedavg import FedAvg
from nvflare.client.config import TransferType
from nvflare.fuel.utils.constants import FrameworkType
from nvflare.job_config.api import FedJob
from nvflare.job_config.script_runner import ScriptRunner
from private_mean import PrivateMean
from setting import CLIP_NORM, DENOMINATOR, NUM_CANARIES, NUM_SITES, accuracy, initial_weights

from fl_audit.cli import main as fl_audit
from fl_audit.nvflare import ScoredAggregator

HERE = Path(__file__).parent


def make_job(out: Path, rounds: int, noise_multiplier: float) -> FedJob:
    """NVFlare's job: its FedAvg, with the private mean in the scored aggregator."""
    aggregator = ScoredAggregator(
        PrivateMean(CLIP_NORM, noise_multiplier, DENOMINATOR),
        folder=str(out.absolute()),
        num_rounds=rounds,
        seed=secrets.randbits(32),
        canary_norm=100 * CLIP_NORM,
        canary_length=CLIP_NORM / DENOMINATOR,
        noise_stddev=noise_multiplier * CLIP_NORM / DENOMINATOR,
        norm_bound=(NUM_SITES + NUM_CANARIES) * CLIP_NORM / DENOMINATOR,
        count=NUM_CANARIES,
        repeats=rounds,  # every site is in every round, and so is every canary
    )
    job = FedJob(name="audited", min_clients=NUM_SITES)
    job.set_app_packages(["fl_audit"])  # it is installed at the server, not copied with the job
    job.to_server(NPModelPersistor(model=initial_weights().tolist()), id="persistor")
    job.to_server(FedAvg(num_clients=NUM_SITES, num_rounds=rounds, aggregator=aggregator))
    job.to_clients(
        ScriptRunner(
            script=str(HERE / "site_script.py"),
            framework=FrameworkType.NUMPY,
            params_transfer_type=TransferType.DIFF,
        )
    )
    return job


def simulate(job: FedJob, workspace: Path) -> float:
    """Runs the job in NVFlare's simulator and gives the accuracy of the final model."""
    workspace.mkdir(parents=True)
    job.export_job(str(workspace / "job"))
    command = ["-m", "nvflare.private.fed.app.simulator.simulator", str(workspace / "job/audited")]
    command += ["-w", str(workspace / "simulation"), "-n", str(NUM_SITES), "-t", str(NUM_SITES)]
    with (workspace / "log").open("w") as log:
        subprocess.run([sys.executable, *command], stdout=log, stderr=log, check=True)
    return accuracy(np.load(next(workspace.rglob("server.npy"))))


def main() -> None:
    """Trains and audits, and prints the result."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", required=True, type=Path, help="a new folder, for the audit")
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--noise-multiplier", type=float, default=2.0)
    arguments = parser.parse_args()
    workspace = arguments.out.with_name(f"{arguments.out.name}.nvflare")
    print(f"running; its log is {workspace / 'log'}", flush=True)
    job = make_job(arguments.out, arguments.rounds, arguments.noise_multiplier)
    found = simulate(job, workspace)
    print(f"accuracy {found:.3f} after {arguments.rounds} rounds")
    fl_audit(["estimate", str(arguments.out), "--delta", "1e-3", "--verbose"])


if __name__ == "__main__":
    main()
