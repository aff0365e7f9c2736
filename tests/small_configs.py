"""Configs for tests, as TOML."""

SMALLEST = """
[task]
kind = "digits"
[mechanism]
kind = "gaussian_adaptive"
noise_multiplier = 0.5
[participation]
kind = "shuffle"
rounds = 10
clients_per_round = 20
[canaries]
count = 500
"""

TINY_RUN = """
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
"""A run of a second or two; its last table is [audit]."""
