"""The model and the users of the example; their data are made up."""

import torch
from pfl.data.dataset import Dataset
from pfl.data.federated_dataset import FederatedDataset
from pfl.data.sampling import get_user_sampler
from pfl.metrics import Weighted
from pfl.model.pytorch import PyTorchModel
from torch import nn

NUM_USERS, COHORT_SIZE, CLIP_NORM = 1000, 50, 0.4
FEATURES, CLASSES, EXAMPLES = 784, 10, 20


class SoftmaxRegression(nn.Module):
    """A softmax regression with the two functions that pfl asks of a model."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(FEATURES, CLASSES)

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        """The logits of inputs of shape (n, 784), of shape (n, 10)."""
        return self.linear(inputs)

    def loss(
        self, inputs: torch.Tensor, labels: torch.Tensor, *, eval: bool = False
    ) -> torch.Tensor:
        """The mean cross-entropy, in training or evaluation."""
        self.eval() if eval else self.train()
        return nn.functional.cross_entropy(self(inputs), labels)

    @torch.no_grad()
    def metrics(
        self, inputs: torch.Tensor, labels: torch.Tensor, *, eval: bool = True
    ) -> dict[str, Weighted]:
        """The accuracy."""
        found = self(inputs).argmax(1)
        return {"accuracy": Weighted(int((found == labels).sum()), len(labels))}


def examples(seed: int, count: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Made-up examples: points around one centre per class, and their classes."""
    centres = torch.randn(CLASSES, FEATURES, generator=torch.Generator().manual_seed(0))
    random = torch.Generator().manual_seed(1 + seed)
    labels = torch.randint(CLASSES, (count,), generator=random)
    return centres[labels] + 3 * torch.randn(count, FEATURES, generator=random), labels


def users() -> FederatedDataset:
    """The users, sampled at random in each iteration."""
    sampler = get_user_sampler("random", list(range(NUM_USERS)))
    return FederatedDataset(
        lambda user: Dataset(examples(user, EXAMPLES), user_id=str(user)), sampler
    )


def model() -> PyTorchModel:
    """The model with SGD at users and at the server."""
    module = SoftmaxRegression()
    return PyTorchModel(module, torch.optim.SGD, torch.optim.SGD(module.parameters(), lr=1.0))


def accuracy(trained: PyTorchModel) -> float:
    """The accuracy on examples that no user has."""
    inputs, labels = examples(NUM_USERS, 2000)
    with torch.no_grad():
        return float((trained.pytorch_model(inputs).argmax(1) == labels).float().mean())
