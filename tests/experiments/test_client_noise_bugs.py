"""Bugs of noise at the client: what devices send, and what finds it."""

import pytest

from experiments.broken_mechanisms.client_noise import BUGS, audited


@pytest.mark.slow
@pytest.mark.parametrize("name", BUGS)
def test_all_are_found_and_the_right_one_is_not(name):
    row = audited(BUGS[name], 1)
    is_found = bool(row["checks"]) or row["outcome"] == "contradicted"
    assert is_found == (name != "(none)")
    by_uploads = name not in ("(none)", "the same noise at all clients")
    assert (row["outcome"] == "contradicted") == by_uploads
