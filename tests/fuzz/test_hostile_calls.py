"""Hostile calls of all commands: one line and status 2, or an answer; nothing half-written."""

import pytest
from harmless import fault_of

_FAST, _ALL = 150, 20_000


def test_hostile_calls_do_no_harm(tmp_path):
    assert not [fault for n in range(_FAST) if (fault := fault_of(2, n, tmp_path))]


@pytest.mark.slow
def test_many_hostile_calls_do_no_harm(tmp_path):
    assert not [fault for n in range(_ALL) if (fault := fault_of(1, n, tmp_path))]
