"""The command line gives the JSON that was recorded before a change of the code.

Calls that need no TensorFlow Federated take 16 to 26 s together on two cores and run by default.
Those that train or plan are marked slow: 138 s of processor time, 15 of it the import.

Numbers may differ by rounding alone: by 1e-6 of themselves, or 1e-5 in calls that train in float32,
as they do on another processor (`test_other_processors.py`); everything else is the same. Where a
score of float32 decides about a whole number, such as how many exceed a threshold, that is of one
machine; record anew on another, from the code before the change (`record.py`). Noise is seeded.
"""

import pytest
from recorded_calls import CALLS, EXPECTED, TEXTS, Scratch, differences


def _parameters(trains):
    return [pytest.param(call, id=name) for name, call in CALLS.items() if call.trains == trains]


@pytest.fixture(scope="module")
def scratch(tmp_path_factory) -> Scratch:
    return Scratch.create(tmp_path_factory.mktemp("recorded"))


def _compare(scratch, call):
    found = differences(call, scratch.record(call))
    assert not found, "\n".join(["not as recorded (before -> after):", *found])


@pytest.mark.parametrize("call", _parameters(trains=False))
def test_gives_what_was_recorded(scratch, call):
    _compare(scratch, call)


@pytest.mark.slow
@pytest.mark.parametrize("call", _parameters(trains=True))
def test_training_gives_what_was_recorded(scratch, call):
    _compare(scratch, call)


def test_every_recording_is_of_a_call():
    assert {path.stem for path in EXPECTED.glob("*.json")} == {*CALLS, TEXTS.stem}


def test_a_difference_names_call_place_before_and_after(scratch):
    call = CALLS["one-run"]
    record = {"status": 0, "output": {**scratch.record(call)["output"], "epsilon_lower": 0.25}}
    del record["output"]["p_value"]
    assert differences(call, record) == [
        "one-run: $.output.epsilon_lower: 0.0 -> 0.25",
        "one-run: $.output.p_value: null -> nothing",
    ]
