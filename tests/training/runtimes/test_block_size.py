"""How many clients train at once by default."""

import types

import pytest

from fl_audit.engines.tff import blocks
from fl_audit.engines.tff.blocks import clients_in_memory, default_clients_per_block


@pytest.mark.parametrize(
    ("dim", "num_bytes", "expected"),
    [
        # A client takes twelve copies of the model, 48 MB; half of the memory is for them.
        (1_000_000, 96_000_000 * 5, 5),
        (1_000_000, 96_000_000 * 5 - 1, 4),
        (1_000_000, 96_000_000 * 64, 64),
        (1_000_000, 10**12, 64),
        (1_000_000, 1000, 1),
        (1, 0, 1),
    ],
)
def test_half_of_the_memory_holds_them(dim, num_bytes, expected):
    assert clients_in_memory(dim, num_bytes) == expected


def _see(monkeypatch, *devices):
    found = [types.SimpleNamespace(device_type=kind, memory_limit=size) for kind, size in devices]
    monkeypatch.setattr(blocks.device_lib, "list_local_devices", lambda: found)


def test_on_a_cpu_small_models_train_in_blocks_and_large_ones_do_not(monkeypatch):
    _see(monkeypatch, ("CPU", 2**40))
    assert default_clients_per_block(167_178) == 8
    assert default_clients_per_block(500_000) == 8
    assert default_clients_per_block(4_050_748) == 1


def test_on_a_gpu_its_own_memory_decides(monkeypatch):
    _see(monkeypatch, ("CPU", 2**10), ("GPU", 96_000_000 * 5))
    assert default_clients_per_block(1_000_000) == 5
