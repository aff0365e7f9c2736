"""APPFL's trainer with output perturbation: what a client uploads, with data or without."""

from typing import Any

import numpy as np
import torch
from appfl.algorithm.trainer.vanilla_trainer import VanillaTrainer
from omegaconf import OmegaConf

from experiments.in_the_wild.feature import pin_randomness

SIZE, LEARNING_RATE, CLIP, EXAMPLES = 20, 0.1, 1.0, 8

SENSITIVITY = 2 * CLIP * LEARNING_RATE
"""What the trainer takes for the sensitivity of its model, after however many steps."""


class _Silent:
    """A logger of APPFL's that prints nothing."""

    def __getattr__(self, name: str) -> Any:
        return lambda *_, **__: None


class Linear(torch.nn.Module):
    """A model whose gradient is its data, after a batch normalisation if requested."""

    def __init__(self, normalised: torch.nn.Module | None = None) -> None:
        super().__init__()
        self.normalised = normalised or torch.nn.Identity()
        self.weights = torch.nn.Parameter(torch.zeros(SIZE))

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        """The mean's terms: inputs of shape (batch, SIZE) times the weights."""
        return self.normalised(inputs) @ self.weights


def upload(
    model: Linear,
    included: bool,
    random: np.random.Generator,
    *,
    epsilon: float,
    epochs: int,
    mechanism: str = "gaussian",
) -> dict[str, np.ndarray]:
    """What a client's trainer sends: its parameters after training, with noise.

    Args:
      model: The model, from which training starts.
      included: Whether the client has data; otherwise all of its gradients are 0.
      random: The randomness of the round.
      epsilon: The epsilon that is stated for the upload.
      epochs: The number of local epochs, each of one batch.
      mechanism: The name of the noise's distribution.
    """
    pin_randomness(random)
    value = 10.0 / np.sqrt(SIZE) if included else 0.0
    trainer = VanillaTrainer(
        model=model,
        loss_fn=lambda outputs, _: outputs.mean(),
        metric=lambda *_: 0.0,
        train_dataset=[(torch.full((SIZE,), value), torch.tensor(0.0))] * EXAMPLES,
        train_configs=OmegaConf.create(
            {
                **{"mode": "epoch", "num_local_epochs": epochs, "train_batch_size": EXAMPLES},
                **{"optim": "SGD", "optim_args": {"lr": LEARNING_RATE}},
                **{"use_dp": True, "dp_mechanism": mechanism, "epsilon": epsilon},
                **{"clip_grad": True, "clip_value": CLIP, "clip_norm": 2},
            }
        ),
        logger=_Silent(),
    )
    trainer.train()
    sent = trainer.get_parameters()
    sent = sent[0] if isinstance(sent, tuple) else sent
    return {name: part.detach().numpy().copy() for name, part in sent.items()}
