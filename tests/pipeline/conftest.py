"""Runs of one config share a runtime: compiling a process takes seconds, a round hundredths."""

import msgspec
import pytest

from fl_audit.config import DigitsTask
from fl_audit.pipeline import runs


@pytest.fixture(scope="session")
def made():
    """The runtimes of this folder's tests, by config."""
    return {}


@pytest.fixture(scope="module", autouse=True)
def shared_runtimes(made):
    """Keeps what `make_runtime` makes of a config, but for `native`, whose worker has its own log.

    What a run logs, tests and how many rounds it has is no part of its process. Only runs of digits
    share one, whose data no test changes. Tests of other folders make their own runtimes.
    """

    def shared(run, worker_log):
        config = run.config
        if config.runtime == "native" or not isinstance(config.task, DigitsTask):
            return make_runtime(run, worker_log)
        parts = msgspec.to_builtins(config) | {"log": None, "audit": None}
        parts["participation"] |= {"rounds": None}
        key = (repr(parts), run.schedule.expected_cohort)
        if key not in made:
            made[key] = make_runtime(run, worker_log)
        return made[key]

    make_runtime = runs.make_runtime
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(runs, "make_runtime", shared)
        yield
