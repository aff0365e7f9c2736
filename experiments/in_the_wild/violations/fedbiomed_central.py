"""Fed-BioMed 6.4.1, "central" DP: noise of sigma × clip for a whole local training.

Records' gradients are clipped in each step, and the local model gets noise once, of sigma times the
clip norm of one gradient. How far a record moves the model depends on optimizer, learning rate and
steps: Adam, which the tutorial uses, divides the clip norm out. Below one node trains one round.

    pip install --no-deps fedbiomed==6.4.1 declearn==2.8.0
    pip install torch opacus gmpy2 pandas cryptography requests tabulate scikit-learn grpcio
    python fedbiomed_central.py
"""

import numpy as np
import torch
from fedbiomed.common.models import TorchModel
from fedbiomed.common.optimizers.generic_optimizers import NativeTorchOptimizer
from fedbiomed.common.privacy import DPController
from scipy import optimize, stats
from torch.optim import SGD, Adam

SIGMA, CLIP, RECORDS, SIZE, DELTA = 1.0, 0.005, 16, 100, 1e-5


def trained(has_record: bool, make: type, rate: float, epochs: int, sigma: float) -> np.ndarray:
    """The local model after a round: every record has features of its own."""
    features = torch.block_diag(*[torch.ones(1, SIZE)] * RECORDS)[: RECORDS - 1 + has_record]
    model = torch.nn.Linear(RECORDS * SIZE, 1, bias=False)
    torch.nn.init.zeros_(model.weight)
    wrapped = TorchModel(model)
    optimizer = NativeTorchOptimizer(wrapped, make(model.parameters(), lr=rate))
    loader = torch.utils.data.DataLoader(features, batch_size=RECORDS)  # one step an epoch
    controller = DPController({"type": "central", "sigma": sigma, "clip": CLIP})
    optimizer, loader = controller.before_training(optimizer, loader)
    for _ in range(epochs):
        for batch in loader:
            optimizer.optimizer.zero_grad()
            wrapped.model(batch).mean().backward()
            optimizer.optimizer.step()
    weights = {name: part.detach() for name, part in wrapped.model.named_parameters()}
    return torch.cat([p.flatten() for p in controller.after_training(weights).values()]).numpy()


def exact(mu: float) -> float:
    """The epsilon of a Gaussian mechanism at DELTA."""

    def excess(e: float) -> float:
        return stats.norm.cdf(mu / 2 - e / mu) - np.exp(e) * stats.norm.cdf(-mu / 2 - e / mu)

    return optimize.brentq(lambda e: excess(e) - DELTA, 0, mu**2 + 10 * mu + 10)


torch.manual_seed(1)
for make, rate, epochs in ((SGD, 0.1, 10), (Adam, 1e-3, 1), (Adam, 1e-3, 10)):
    mean, without = (trained(there, make, rate, epochs, 1e-9) for there in (True, False))
    noise = np.std(trained(True, make, rate, epochs, SIGMA) - mean)
    mu = float(np.linalg.norm(mean - without) / noise)
    stated = f"stated μ {1 / SIGMA:g} (ε {exact(1 / SIGMA):.2f})"
    found = f"exact μ {mu:.3g} (ε {exact(mu):.3g}); noise {noise:.3g}"
    print(f"{make.__name__}, {epochs} steps: {stated}, {found}")
