"""A small training by DP-SGD in Opacus with canaries, for `adapters`."""

from pathlib import Path
from unittest.mock import patch

import torch
from opacus import PrivacyEngine
from opacus.accountants import PRVAccountant
from opacus.optimizers import optimizer as opacus_optimizer
from torch.utils.data import DataLoader, TensorDataset

from fl_audit.opacus import CanaryGradients, write_claim

EXAMPLES, BATCH, EPOCHS, NOISE_MULTIPLIER = 400, 40, 6, 1.0
FEATURES, CLASSES = 200, 10

MU = 1 / NOISE_MULTIPLIER

_NOISE = opacus_optimizer._generate_noise


def write_profile(path: Path) -> None:
    """Writes what Opacus's accountant says of a training."""
    engine = PrivacyEngine()
    engine.accountant = PRVAccountant()
    for _ in range(EPOCHS * EXAMPLES // BATCH):
        engine.accountant.step(noise_multiplier=NOISE_MULTIPLIER, sample_rate=BATCH / EXAMPLES)
    write_claim(engine, path)


def train(folder: Path, seed: int, rounds: str, noise_share: float) -> None:
    """Trains a softmax regression, with a share of the noise that is stated."""
    torch.manual_seed(seed)
    inputs = torch.randn(EXAMPLES, FEATURES)
    data = TensorDataset(inputs, inputs[:, :CLASSES].argmax(1))
    model = torch.nn.Linear(FEATURES, CLASSES)
    model, optimizer, loader = PrivacyEngine().make_private(
        module=model,
        optimizer=torch.optim.SGD(model.parameters(), lr=0.5),
        data_loader=DataLoader(data, batch_size=BATCH),
        noise_multiplier=NOISE_MULTIPLIER,
        max_grad_norm=1.0,
    )
    audit = CanaryGradients(
        optimizer,
        folder,
        num_steps=EPOCHS * len(loader),
        seed=seed,
        sample_rate=loader.sample_rate if rounds == "sampled" else None,
        count=400,
    )

    def noise(std: float, **keys: object) -> torch.Tensor:
        return _NOISE(noise_share * std, **keys)

    with patch.object(opacus_optimizer, "_generate_noise", noise):
        for _ in range(EPOCHS):
            for batch, labels in loader:
                optimizer.zero_grad()
                torch.nn.functional.cross_entropy(model(batch), labels).backward()
                optimizer.step()
    audit.finish()
