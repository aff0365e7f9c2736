"""The server's mechanism: a mean of clipped answers, with Gaussian noise."""

import numpy as np
from nvflare.app_common.abstract.fl_model import FLModel
from nvflare.app_common.aggregators.model_aggregator import ModelAggregator


class PrivateMean(ModelAggregator):
    """Clips each answer, adds noise to the sum, and divides by a number that is fixed beforehand.

    Weights by numbers of examples would be private data, and are not used.
    """

    def __init__(self, clip_norm: float, noise_multiplier: float, denominator: float) -> None:
        super().__init__()
        self.clip_norm, self.noise_multiplier = clip_norm, noise_multiplier
        self.denominator = denominator
        self.reset_stats()

    def reset_stats(self) -> None:
        """Begins a round."""
        self._sum: dict[str, np.ndarray] = {}

    def accept_model(self, model: FLModel) -> None:
        """Adds an answer, clipped by the norm of all its variables together."""
        norm = np.sqrt(sum(np.sum(np.square(part)) for part in model.params.values()))
        scale = min(1.0, self.clip_norm / norm)
        for name, part in model.params.items():
            self._sum[name] = self._sum.get(name, 0) + scale * part

    def aggregate_model(self) -> FLModel:
        """The noised mean, as a difference to the round's model."""
        random = np.random.default_rng()
        stddev = self.noise_multiplier * self.clip_norm
        noised = {name: total + random.normal(0, stddev, total.shape)
                  for name, total in self._sum.items()}  # fmt: skip
        mean = {name: (total / self.denominator).astype(np.float32)
                for name, total in noised.items()}  # fmt: skip
        return FLModel(params_type="DIFF", params=mean)
