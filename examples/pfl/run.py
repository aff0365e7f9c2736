"""Audits pfl-research: trains with canary users, scores every sum, tests the accountant's claim.

    python run.py --out FOLDER [--iterations 40] [--noise-multiplier 1]

The training is pfl's federated averaging with central DP; the lines with `audit` are what an audit
adds.
"""

import argparse
import logging
import secrets
import warnings
from pathlib import Path

from pfl.aggregate.simulate import SimulatedBackend
from pfl.algorithm.base import NNAlgorithmParams
from pfl.algorithm.federated_averaging import FederatedAveraging
from pfl.hyperparam.base import NNTrainHyperParams
from pfl.model.pytorch import PyTorchModel
from pfl.privacy.gaussian_mechanism import GaussianMechanism
from pfl.privacy.privacy_accountant import PLDPrivacyAccountant
from pfl.privacy.privacy_mechanism import CentrallyAppliedPrivacyMechanism
from setting import CLIP_NORM, COHORT_SIZE, NUM_USERS, accuracy, model, users

from fl_audit.cli import main as fl_audit
from fl_audit.pfl import CanaryUsers, write_claim

DELTA = 1e-3


def train(out: Path, iterations: int, accountant: PLDPrivacyAccountant) -> PyTorchModel:
    """Trains, and writes the audit to the folder."""
    gaussian = GaussianMechanism(CLIP_NORM, accountant.cohort_noise_parameter)
    audit = CanaryUsers(
        CentrallyAppliedPrivacyMechanism(gaussian),
        out,
        num_iterations=iterations,
        seed=secrets.randbits(32),
        sample_rate=accountant.sampling_probability,
    )
    return FederatedAveraging().run(
        NNAlgorithmParams(
            central_num_iterations=iterations,
            evaluation_frequency=iterations,
            train_cohort_size=COHORT_SIZE,
            val_cohort_size=None,
        ),
        SimulatedBackend(users(), users(), postprocessors=[audit]),
        model(),
        NNTrainHyperParams(local_num_epochs=1, local_learning_rate=0.05, local_batch_size=10),
        callbacks=[audit],
        send_metrics_to_platform=False,  # which prints each iteration's metrics
    )


def main() -> int:
    """Trains and audits, and prints the result."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", required=True, type=Path, help="a new folder, for the audit")
    parser.add_argument("--iterations", type=int, default=40)
    parser.add_argument("--noise-multiplier", type=float, default=1.0)
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    logging.disable(logging.INFO)
    accountant = PLDPrivacyAccountant(
        num_compositions=arguments.iterations,
        sampling_probability=COHORT_SIZE / NUM_USERS,
        mechanism="gaussian",
        delta=DELTA,
        noise_parameter=arguments.noise_multiplier,
    )
    trained = train(arguments.out, arguments.iterations, accountant)
    claim = arguments.out.with_name(f"{arguments.out.name}.claim.csv")
    write_claim(accountant, claim)
    print(f"accuracy {accuracy(trained):.3f}; pfl's accountant says ε = {accountant.epsilon:.2f}")
    argv = ["estimate", str(arguments.out), "--delta", str(DELTA), "--claimed-profile", str(claim)]
    return fl_audit(argv)


if __name__ == "__main__":
    raise SystemExit(main())
