"""A run of a NumPy engine under a commitment."""

import pytest

from tests.verification.toy_runs import committed_run


@pytest.fixture(scope="module")
def finished(toy_runtime, tmp_path_factory):
    """The folder of a finished run, beside its commitment and its config."""
    return committed_run(tmp_path_factory.mktemp("committed"))
