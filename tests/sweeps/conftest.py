from collections.abc import Callable
from pathlib import Path

import pytest

_BASE = """
[task]
kind = "digits"
num_clients = 20
hidden = [8]
[mechanism]
kind = "gaussian_fixed"
noise_multiplier = 0.0
clip_norm = 1.0
[participation]
kind = "shuffle"
rounds = 4
clients_per_round = 5
[canaries]
count = 8
[log]
checkpoint_every = 2
[audit]
delta = 1e-3
"""


@pytest.fixture
def grid(tmp_path) -> Callable[[str], Path]:
    """A function that writes a sweep's file over a small config and gives its path."""
    (tmp_path / "base.toml").write_text(_BASE)

    def write(text: str) -> Path:
        path = tmp_path / "grid.toml"
        path.write_text(f'base = "base.toml"\n{text}')
        return path

    return write
