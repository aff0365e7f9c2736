"""The model and the data of the example: those of Opacus's MNIST example in shape, and made up."""

import torch
from torch import nn
from torch.utils.data import TensorDataset

CLASSES, SIDE = 10, 28


class SampleConvNet(nn.Module):
    """The model of Opacus's MNIST example, of 26,010 parameters."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(1, 16, 8, 2, padding=3)
        self.conv2 = nn.Conv2d(16, 32, 4, 2)
        self.fc1 = nn.Linear(32 * 4 * 4, 32)
        self.fc2 = nn.Linear(32, CLASSES)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        """The logits of images of shape (n, 1, 28, 28), of shape (n, 10)."""
        found = nn.functional.max_pool2d(torch.relu(self.conv1(images)), 2, 1)
        found = nn.functional.max_pool2d(torch.relu(self.conv2(found)), 2, 1)
        return self.fc2(torch.relu(self.fc1(found.flatten(1))))


def examples(seed: int, count: int) -> TensorDataset:
    """Made-up images: one pattern per class, with noise."""
    patterns = torch.randn(CLASSES, 1, SIDE, SIDE, generator=torch.Generator().manual_seed(0))
    random = torch.Generator().manual_seed(1 + seed)
    labels = torch.randint(CLASSES, (count,), generator=random)
    noise = torch.randn(count, 1, SIDE, SIDE, generator=random)
    return TensorDataset(patterns[labels] + 1.5 * noise, labels)


def accuracy(model: nn.Module) -> float:
    """The accuracy on examples that are not trained on."""
    images, labels = examples(1, 1000).tensors
    with torch.no_grad():
        return float((model(images).argmax(1) == labels).float().mean())
