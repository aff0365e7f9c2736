"""A run of a NumPy engine under a commitment."""

import pytest

from fl_audit.engines.runtimes import RUNTIMES
from fl_audit.tasks.kinds import TASKS
from tests.engines import toy_engine
from tests.verification.toy_runs import committed_run


@pytest.fixture(scope="module")
def toy_runtime():
    toy_engine.register()
    yield
    RUNTIMES.remove("toy")
    TASKS.remove("vectors")


@pytest.fixture(scope="module")
def finished(toy_runtime, tmp_path_factory):
    """The folder of a finished run, beside its commitment and its config."""
    return committed_run(tmp_path_factory.mktemp("committed"))
