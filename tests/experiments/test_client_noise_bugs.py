"""Bugs of noise at the client: what devices send, and what finds it."""

import numpy as np
import pytest

from experiments.broken_mechanisms.client_noise import BUGS, audited
from experiments.broken_mechanisms.servers import SHAPES


def _sent(name: str) -> np.ndarray:
    """What nine clients with nothing to send upload, float64 of shape (9, d)."""
    nothing = [[np.zeros(shape) for shape in SHAPES]] * 9
    sent = BUGS[name](nothing, np.random.default_rng(1))
    return np.array([np.concatenate([part.ravel() for part in upload]) for upload in sent])


@pytest.mark.slow
@pytest.mark.parametrize("name", BUGS)
def test_all_are_found_and_the_right_one_is_not(name):
    row = audited(BUGS[name], 1)
    is_found = bool(row["checks"]) or row["outcome"] == "contradicted"
    assert is_found == (name != "(none)")
    by_uploads = name not in ("(none)", "the same noise at all clients")
    assert (row["outcome"] == "contradicted") == by_uploads
