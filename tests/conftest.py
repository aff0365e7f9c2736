import gc
import importlib.util
import os
import shutil
import sys
import tempfile
from collections import defaultdict

import pytest

from tests import seeds_tried

# Before anything imports TensorFlow: its C++ log tells of devices and graph passes.
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

# Before JAX looks for its devices: four, whatever the machine has, each of one thread.
os.environ.setdefault(
    "XLA_FLAGS", "--xla_force_host_platform_device_count=4 --xla_cpu_multi_thread_eigen=false"
)

# Tests and the programs that they start compile the same functions again and again: a worker keeps
# what XLA has compiled in a folder of its own, as long as it works.
_COMPILED = tempfile.mkdtemp(prefix="fl_audit-xla-")
os.environ["JAX_COMPILATION_CACHE_DIR"] = _COMPILED
os.environ["JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS"] = "0"
os.environ["JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES"] = "-1"

# No line that only slow machines print; programs that tests start inherit it.
os.environ["FL_AUDIT_HEARTBEAT"] = "off"

# The light layer has no TensorFlow: there the tests of what trains are left out.
HAS_TFF = importlib.util.find_spec("tensorflow_federated") is not None
collect_ignore = (
    []
    if HAS_TFF
    else [
        "attacks/test_same_as_run.py",
        "benchmarks",
        "canaries/test_families.py",
        "engines/tff",
        "experiments",
        "mechanisms/test_aggregators.py",
        "pipeline",
        "tasks",
        "run",
    ]
)


def pytest_configure(config):
    """Without the marker expression of setup.cfg, slow tests run, and loops try all their seeds."""
    seeds_tried.tries_all = not config.option.markexpr


def pytest_unconfigure():
    shutil.rmtree(_COMPILED, ignore_errors=True)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items):
    """Of cases `sampled(n)`, n at even distances are not slow; and files that compile come first.

    So no worker waits for a long file at the end. The Makefile tells xdist to keep this order; by
    itself it would begin with the files of most tests, and these have few.
    """
    if not HAS_TFF:
        for item in items:
            if item.get_closest_marker("tff"):
                item.add_marker(pytest.mark.skip(reason="TensorFlow Federated is not installed"))
    cases = defaultdict(list)
    for item in items:
        sampled = item.get_closest_marker("sampled")
        if sampled and not item.get_closest_marker("slow"):
            cases[item.path, item.originalname, sampled.args[0]].append(item)
    for (*_, kept), of_one in cases.items():
        quick = seeds_tried.some(of_one, kept)
        for item in of_one:
            if item not in quick:
                item.add_marker("slow")
    compiling = {item.path for item in items if item.get_closest_marker("tff")}
    items.sort(key=lambda item: item.path not in compiling)


def pytest_collection_finish():
    """What has been imported and collected is looked at by no later garbage collection."""
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="module")
def toy_runtime():
    """The engine in NumPy and its task, registered: whole runs of a second."""
    from fl_audit.engines.runtimes import RUNTIMES
    from fl_audit.tasks.task_kinds import TASKS
    from tests.engines import toy_engine

    toy_engine.register()
    yield
    RUNTIMES.remove("toy")
    TASKS.remove("vectors")


@pytest.fixture
def as_in_a_new_process():
    """A function that takes out what plugins have registered, and forgets their modules."""
    from fl_audit.attacks import threat_models
    from fl_audit.attacks.threat_models import STATISTICS, THREAT_MODELS
    from fl_audit.engines.runtimes import RUNTIMES
    from fl_audit.mechanisms import MECHANISMS
    from fl_audit.participation import PATTERNS
    from fl_audit.tasks.task_kinds import TASKS

    path, modules = list(sys.path), set(sys.modules)
    attackers = list(threat_models.ATTACKERS)
    registries = (PATTERNS, MECHANISMS, TASKS, RUNTIMES, STATISTICS, THREAT_MODELS)
    before = [(kinds, set(kinds)) for kinds in registries]

    def forget():
        for kinds, names in before:
            for name in set(kinds) - names:
                kinds.remove(name)
        threat_models.ATTACKERS[:] = attackers
        sys.path[:] = path
        for name in set(sys.modules) - modules:
            if name.startswith("my_"):
                del sys.modules[name]

    yield forget
    forget()


@pytest.fixture(scope="session", autouse=True)
def _quick_reports():
    """Where the report's packages are: the frameworks' environments lack those of pictures."""
    if not importlib.util.find_spec("matplotlib"):
        yield
        return
    from tests.remembered import DRAWN, quick_reports

    def drawn():
        running = os.environ.get("PYTEST_CURRENT_TEST", "").removeprefix("tests/")
        return running.startswith(DRAWN)

    with quick_reports(drawn):
        yield
