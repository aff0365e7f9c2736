"""APPFL 1.12.0, output perturbation: noise for one step of training, whatever is trained and sent.

The sensitivity is 2 × clip_value × learning rate, which is how far one clipped step can move the
model; a client makes a step for each batch of each local epoch. What a model sends beside its
parameters, such as the running means of batch normalisation, has no noise.

    pip install --no-deps appfl==1.12.0
    pip install torch opacus omegaconf wandb scipy && python appfl_output.py
"""

from unittest.mock import MagicMock

import numpy as np
import torch
from appfl.algorithm.trainer.vanilla_trainer import VanillaTrainer
from omegaconf import OmegaConf
from scipy import optimize, stats

UPLOADS, DELTA = 400, 1e-5
CONFIG = {
    **{"mode": "epoch", "train_batch_size": 8, "optim": "SGD", "optim_args": {"lr": 0.1}},
    **{"use_dp": True, "dp_mechanism": "gaussian", "epsilon": 1.0},
    **{"clip_grad": True, "clip_value": 1.0, "clip_norm": 2},
}


def upload(value: float, epochs: int, *before: torch.nn.Module) -> dict:
    """What a client sends whose inputs are all of one value: a weight that starts at 0."""
    model = torch.nn.Sequential(*before, torch.nn.Linear(1, 1, bias=False))
    torch.nn.init.zeros_(model[-1].weight)
    trainer = VanillaTrainer(
        model=model,
        loss_fn=lambda outputs, _: outputs.mean(),
        metric=lambda *_: 0.0,
        train_dataset=[(torch.tensor([value]), torch.tensor(0.0))] * 8,
        train_configs=OmegaConf.create({**CONFIG, "num_local_epochs": epochs}),
        logger=MagicMock(),
    )
    trainer.train()
    return trainer.get_parameters()[0]


def exact(mu: float) -> float:
    """The epsilon of a Gaussian mechanism at DELTA."""

    def excess(e: float) -> float:
        return stats.norm.cdf(mu / 2 - e / mu) - np.exp(e) * stats.norm.cdf(-mu / 2 - e / mu)

    return optimize.brentq(lambda e: excess(e) - DELTA, 0, 50)


torch.manual_seed(1)
for epochs in (1, 5, 20):
    sent = [[upload(v, epochs)["0.weight"].item() for _ in range(UPLOADS)] for v in (10.0, -10.0)]
    mu = (np.mean(sent[1]) - np.mean(sent[0])) / np.mean(np.std(sent, axis=1))
    print(f"stated ε 1, {epochs} local epochs: measured μ {mu:.2f}, which is ε {exact(mu):.2f}")
normalised = upload(10.0, 1, torch.nn.BatchNorm1d(1))
print("running mean, sent without noise:", normalised["0.running_mean"].item())
