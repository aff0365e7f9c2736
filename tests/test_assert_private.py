"""`fl_audit.testing`: a server's round in somebody's own test suite."""

import numpy as np
import pytest

from fl_audit.errors import InputError
from fl_audit.testing import Promise, assert_private

PROMISE = Promise(clip_norm=0.5, denominator=20, noise_multiplier=1.0)
SHAPES = ((30, 40), (40,))


def server(clip_norm=0.5, multiplier=1.0):
    def my_round(state, updates, random):
        total = [np.zeros(shape) for shape in SHAPES]
        for update in updates:
            norm = np.sqrt(sum(np.sum(part**2) for part in update))
            total = [t + p * min(1, clip_norm / norm) for t, p in zip(total, update, strict=True)]
        return state, [(t + random.normal(0, 0.5 * multiplier, t.shape)) / 20 for t in total]

    return my_round


def test_a_round_that_keeps_its_promise_passes_and_says_what_it_does_not_answer():
    replay = assert_private(server(), PROMISE, shapes=SHAPES)
    assert replay.passed
    assert replay.inconclusive == ("not_finite",)


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        (server(multiplier=0.5), "× expected"),
        (server(clip_norm=1.0), "2 times what one client may change"),
        (lambda state, updates, random: (state, [np.zeros(s) for s in SHAPES]), "noise_length"),
    ],
)
def test_another_one_fails_with_what_was_expected_and_measured(wrong, sentence):
    with pytest.raises(AssertionError, match="the round does not keep its promise") as raised:
        assert_private(wrong, PROMISE, shapes=SHAPES)
    assert sentence in str(raised.value)
    assert "FAILED" in str(raised.value)


def test_a_model_without_variables_is_refused():
    with pytest.raises(InputError, match="shapes: must be the shapes of the model's variables"):
        assert_private(server(), PROMISE, shapes=())
