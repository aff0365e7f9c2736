"""Hostile calls of all commands: one line and status 2, or an answer; nothing half-written."""

import pytest
from harmless import fault_of
from hostile_calls import make_call
from hostile_plans import make_plan_call

_FAST, _ALL, _PLANS = 80, 5_000, 60


def test_hostile_calls_do_no_harm(tmp_path):
    assert not [fault for n in range(_FAST) if (fault := fault_of(make_call, 2, n, tmp_path))]


@pytest.mark.slow
def test_many_hostile_calls_do_no_harm(tmp_path):
    assert not [fault for n in range(_ALL) if (fault := fault_of(make_call, 1, n, tmp_path))]


@pytest.mark.slow
@pytest.mark.tff
def test_hostile_plans_do_no_harm(tmp_path):
    import tensorflow_federated  # noqa: F401 - its import is no part of a call

    plans = (fault_of(make_plan_call, 1, n, tmp_path) for n in range(_PLANS))
    assert not [fault for fault in plans if fault]
