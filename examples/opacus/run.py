"""Audits DP-SGD in Opacus: trains with canary gradients, scores every step, tests the claim.

    python run.py --out FOLDER [--epochs 5] [--noise-multiplier 1]

The training is that of Opacus's MNIST example; the lines with `audit` are what an audit adds.
"""

import argparse
import secrets
import warnings
from pathlib import Path

import torch
from opacus import PrivacyEngine
from setting import SampleConvNet, accuracy, examples
from torch.utils.data import DataLoader

from fl_audit.cli import main as fl_audit
from fl_audit.opacus import CanaryGradients, write_claim

DELTA = 1e-3


def train(out: Path, epochs: int, noise_multiplier: float) -> tuple[torch.nn.Module, PrivacyEngine]:
    """Trains, and writes the audit to the folder."""
    model = SampleConvNet()
    privacy_engine = PrivacyEngine()
    model, optimizer, loader = privacy_engine.make_private(
        module=model,
        optimizer=torch.optim.SGD(model.parameters(), lr=0.1),
        data_loader=DataLoader(examples(0, 2000), batch_size=64),
        noise_multiplier=noise_multiplier,
        max_grad_norm=1.0,
    )
    audit = CanaryGradients(
        optimizer,
        out,
        num_steps=epochs * len(loader),
        seed=secrets.randbits(32),
        sample_rate=loader.sample_rate,
    )
    for _ in range(epochs):
        for images, labels in loader:
            optimizer.zero_grad()
            torch.nn.functional.cross_entropy(model(images), labels).backward()
            optimizer.step()
    audit.finish()
    return model, privacy_engine


def main() -> int:
    """Trains and audits, and prints the result."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", required=True, type=Path, help="a new folder, for the audit")
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--noise-multiplier", type=float, default=1.0)
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")  # PyTorch and Opacus warn of hooks and of secure_mode
    model, privacy_engine = train(arguments.out, arguments.epochs, arguments.noise_multiplier)
    claim = arguments.out.with_name(f"{arguments.out.name}.claim.csv")
    write_claim(privacy_engine, claim)
    spent = privacy_engine.get_epsilon(DELTA)
    print(f"accuracy {accuracy(model):.3f}; Opacus says that ε = {spent:.2f} was spent")
    argv = ["estimate", str(arguments.out), "--delta", str(DELTA), "--claimed-profile", str(claim)]
    return fl_audit(argv)


if __name__ == "__main__":
    raise SystemExit(main())
