"""Hostile calls of `fl-audit plan`, whose configs are small where they are valid."""

from pathlib import Path

import numpy as np
from hostile_calls import Call

_CONFIG = """
[task]
kind = "digits"
num_clients = 20
hidden = [4]
[mechanism]
kind = "{mechanism}"
noise_multiplier = 0.5
clip_norm = 1.0
[participation]
kind = "{participation}"
rounds = 4
clients_per_round = 5
[canaries]
count = 20
[audit]
delta = 1e-2
"""

_SIZES = (
    "0",
    "1",
    "2",
    "3",
    "20",
    "50",
    "1000000000",
    "9223372036854775807",
    "99999999999999999999",
)
_NUMBERS = (
    *("-1", "0", "5e-324", "1e-300", "1e-40", "1e-25", "1e-9", "1e-6", "1e-3", "0.5", "0.999", "1"),
    *("7", "1e3", "1e6", "1e9", "1e25", "1e40", "1e300", "1e400", "nan", "inf"),
)
_KEYS = {
    "seed": _SIZES, "task.num_clients": _SIZES, "participation.rounds": _SIZES,
    "task.hidden": ("[]", "[1]", "[1, 1]", "[1000000000]", "[100000, 100000]", "[0]", "[[1]]", "1"),
    "participation.clients_per_round": _SIZES, "canaries.count": _SIZES,
    "participation.canary_repeats": _SIZES, "participation.canary_first_rounds": _SIZES,
    "canaries.max_per_round": _SIZES,
    "participation.canary_last_rounds": _SIZES, "participation.canary_mean_repeats": _NUMBERS,
    "participation.canaries": ("repeats", "last_rounds", "like_clients", "once_per_epoch", "x"),
    "participation.separation": _SIZES, "canaries.family": ("gaussian", "hadamard", "rademacher"),
    "canaries.store": ("none", "memory", "disk", "x"), "canaries.store_path": ("pool", "", "/"),
    "mechanism.noise_multiplier": _NUMBERS, "mechanism.clip_norm": _NUMBERS,
    "mechanism.target_quantile": _NUMBERS, "mechanism.clipped_count_stddev": _NUMBERS,
    "mechanism.clip_learning_rate": _NUMBERS, "client.learning_rate": _NUMBERS,
    "client.batch_size": _SIZES, "client.epochs": _SIZES, "server.learning_rate": _NUMBERS,
    "server.momentum": _NUMBERS, "log.checkpoint_every": _SIZES, "audit.delta": _NUMBERS,
    "audit.confidence": _NUMBERS, "audit.claimed_epsilon": _NUMBERS,
    "audit.claimed_delta": _NUMBERS, "audit.release_every": _SIZES,
    "audit.threat_models": (
        "['final']", "['all_iterates']", "['checkpoints']", "['known_rounds']", "[]", "['x']", "1",
    ),
}  # fmt: skip


def make_plan_call(seed: int, number: int, folder: Path) -> Call:
    """Makes a call and writes its config.

    Args:
      seed: The seed of all calls.
      number: The number of the call.
      folder: An empty folder.
    """
    random = np.random.default_rng([seed, number])
    mechanism = random.choice(["gaussian_fixed", "gaussian_adaptive"])
    participation = random.choice(["shuffle", "uniform", "bernoulli"])
    config = folder / "config.toml"
    config.write_text(_CONFIG.format(mechanism=mechanism, participation=participation))
    words = ["plan", str(config), "--trials", "3"]
    for key in random.choice(list(_KEYS), int(random.integers(1, 4)), replace=False):
        values = _KEYS[str(key)]
        words += ["--set", f"{key}={values[int(random.integers(len(values)))]}"]
    return Call((*words, *(["--json"] if random.random() < 0.5 else [])), folder, 120)
