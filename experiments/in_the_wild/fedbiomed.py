"""Fed-BioMed's DP controller, as a node calls it: four canary games.

    python -m experiments.in_the_wild.fedbiomed

A node trains one round on records whose gradients lie apart; "local" noises each step by Opacus,
"central" the trained model once.
"""

import math
import warnings
from collections.abc import Callable

import numpy as np
import torch
from fedbiomed.common.models import TorchModel
from fedbiomed.common.optimizers.generic_optimizers import NativeTorchOptimizer
from fedbiomed.common.privacy import DPController

from experiments.in_the_wild.feature import pin_randomness
from experiments.in_the_wild.game import Game, print_verdicts

CLIP, RECORDS, SIZE = 0.005, 16, 100
"""The clip norm of Fed-BioMed's tutorials, the records of a node, and the features of each."""

Optimizer = Callable[[object], torch.optim.Optimizer]

SGD: Optimizer = lambda parameters: torch.optim.SGD(parameters, lr=0.1)  # noqa: E731
ADAM: Optimizer = lambda parameters: torch.optim.Adam(parameters, lr=1e-3)  # noqa: E731


def trained(
    included: bool, optimizer: Optimizer, steps: int, kind: str, sigma: float
) -> np.ndarray:
    """The weights that a node sends, of shape (records, features), with or without the last."""
    features = torch.block_diag(*[torch.ones(1, SIZE)] * RECORDS)[: RECORDS - 1 + included]
    model = torch.nn.Linear(RECORDS * SIZE, 1, bias=False)
    torch.nn.init.zeros_(model.weight)
    wrapped = TorchModel(model)
    # A batch is all records, so that nothing is sampled.
    loader = torch.utils.data.DataLoader(features, batch_size=RECORDS)
    controller = DPController({"type": kind, "sigma": sigma, "clip": CLIP})
    native = NativeTorchOptimizer(wrapped, optimizer(model.parameters()))
    native, loader = controller.before_training(native, loader)
    for _ in range(steps):
        for batch in loader:
            native.optimizer.zero_grad()
            wrapped.model(batch).mean().backward()
            native.optimizer.step()
    sent = {name: part.detach() for name, part in wrapped.model.named_parameters()}
    weights = torch.cat([part.flatten() for part in controller.after_training(sent).values()])
    return weights.numpy().reshape(RECORDS, SIZE)


def moved(optimizer: Optimizer, steps: int) -> float:
    """How far one record moves what is sent, as an L2 norm: the same training with and without."""
    one, other = (trained(there, optimizer, steps, "central", 1e-9) for there in (True, False))
    return float(np.linalg.norm(one - other))


def central(optimizer: Optimizer, steps: int) -> Callable[[bool, np.random.Generator], float]:
    """A game: the noised weights along the last record's features, in standard deviations."""

    def play(included: bool, random: np.random.Generator) -> float:
        pin_randomness(random)
        sent = trained(included, optimizer, steps, "central", 1.0)
        return -float(sent[-1].sum()) / math.sqrt(SIZE) / CLIP

    return play


def local(included: bool, random: np.random.Generator) -> float:
    """A game of the control: one step with noise on the gradients."""
    pin_randomness(random)
    sent = trained(included, SGD, 1, "local", 1.0)
    step = 0.1 * CLIP / (RECORDS - 1 + included)  # Opacus divides by the records that there are
    return -float(sent[-1].sum()) / math.sqrt(SIZE) / step


_MU = ("--claimed-mu", "1")

if __name__ == "__main__":
    warnings.simplefilter("ignore")
    print_verdicts(
        [
            Game("fedbiomed: local, one step (control)", _MU, local, 1.0),
            Game("fedbiomed: central, SGD, 10 steps", _MU, central(SGD, 10), moved(SGD, 10) / CLIP),
            Game("fedbiomed: central, Adam, 1 step", _MU, central(ADAM, 1), moved(ADAM, 1) / CLIP),
            Game(
                "fedbiomed: central, Adam, 10 steps", _MU, central(ADAM, 10), moved(ADAM, 10) / CLIP
            ),
        ]
    )
