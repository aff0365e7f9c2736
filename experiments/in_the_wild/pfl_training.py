"""A small simulation of pfl-research with canaries, for `adapters`."""

import logging
from pathlib import Path

import numpy as np
import torch
from pfl.aggregate.simulate import SimulatedBackend
from pfl.algorithm.base import NNAlgorithmParams
from pfl.algorithm.federated_averaging import FederatedAveraging
from pfl.data.dataset import Dataset
from pfl.data.federated_dataset import FederatedDataset
from pfl.data.sampling import get_user_sampler
from pfl.hyperparam.base import NNTrainHyperParams
from pfl.model.pytorch import PyTorchModel
from pfl.privacy.gaussian_mechanism import GaussianMechanism
from pfl.privacy.privacy_accountant import PLDPrivacyAccountant
from pfl.privacy.privacy_mechanism import CentrallyAppliedPrivacyMechanism

from fl_audit.pfl import CanaryUsers, write_claim

USERS, COHORT, ITERATIONS, NOISE_MULTIPLIER, CLIP_NORM = 100, 10, 60, 1.0, 0.4
FEATURES, CLASSES = 200, 10

MU = 1 / NOISE_MULTIPLIER


class _Regression(torch.nn.Linear):
    """A softmax regression with the functions that pfl asks of a model."""

    def loss(
        self, inputs: torch.Tensor, labels: torch.Tensor, *, eval: bool = False
    ) -> torch.Tensor:
        """The mean cross-entropy."""
        return torch.nn.functional.cross_entropy(self(inputs), labels)

    def metrics(self, *_: torch.Tensor, eval: bool = True) -> dict:
        """None."""
        return {}


def write_profile(path: Path) -> None:
    """Writes what pfl's accountant says of a training."""
    accountant = PLDPrivacyAccountant(
        num_compositions=ITERATIONS,
        sampling_probability=COHORT / USERS,
        mechanism="gaussian",
        delta=1e-3,
        noise_parameter=NOISE_MULTIPLIER,
    )
    write_claim(accountant, path)


def train(folder: Path, seed: int, rounds: str, noise_share: float) -> None:
    """Trains with a share of the noise that is stated."""
    logging.disable(logging.WARNING)
    np.random.seed(seed)
    torch.manual_seed(seed)
    inputs = torch.randn(USERS, 10, FEATURES)
    data = {
        user: Dataset((one, one[:, :CLASSES].argmax(1)), user_id=str(user))
        for user, one in enumerate(inputs)
    }
    backend_data = FederatedDataset(data.get, get_user_sampler("random", list(range(USERS))))
    module = _Regression(FEATURES, CLASSES)
    mechanism = CentrallyAppliedPrivacyMechanism(
        GaussianMechanism(CLIP_NORM, NOISE_MULTIPLIER * noise_share)
    )
    audit = CanaryUsers(
        mechanism,
        folder,
        num_iterations=ITERATIONS,
        seed=seed,
        sample_rate=COHORT / USERS if rounds == "sampled" else None,
        count=400,
    )
    FederatedAveraging().run(
        NNAlgorithmParams(
            central_num_iterations=ITERATIONS,
            evaluation_frequency=ITERATIONS,
            train_cohort_size=COHORT,
            val_cohort_size=None,
        ),
        SimulatedBackend(backend_data, backend_data, postprocessors=[audit]),
        PyTorchModel(module, torch.optim.SGD, torch.optim.SGD(module.parameters(), lr=1.0)),
        NNTrainHyperParams(local_num_epochs=1, local_learning_rate=0.1, local_batch_size=None),
        callbacks=[audit],
        send_metrics_to_platform=False,
    )
