"""A cluster of Ray on this machine, to which nodes are added and from which they are taken."""

import os
import shutil
import tempfile
from pathlib import Path

import pytest

# A lost node is seen within seconds.
_QUICK_TO_SEE_LOSSES = {
    "health_check_initial_delay_ms": 0,
    "health_check_period_ms": 500,
    "health_check_timeout_ms": 1000,
    "health_check_failure_threshold": 3,
}


@pytest.fixture(scope="module")
def cluster():
    """A head without CPUs; tests add nodes and take them away."""
    pytest.importorskip("ray.util")  # `ray` alone may be the folder of tests of this name
    import ray
    from ray.cluster_utils import Cluster

    folder = tempfile.mkdtemp(prefix="fl-", dir="/tmp")  # names of sockets have to be short
    Path(tempfile.gettempdir(), "ray").mkdir(exist_ok=True)  # Ray notes its addresses there
    os.environ["RAY_BACKEND_LOG_LEVEL"] = "fatal"
    made = Cluster(
        initialize_head=True,
        head_node_args={
            "num_cpus": 0,
            "include_dashboard": False,
            "object_store_memory": 100 * 2**20,
            "temp_dir": folder,
            "_system_config": _QUICK_TO_SEE_LOSSES,
        },
    )
    yield made
    ray.shutdown()
    made.shutdown()
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def node_of(cluster):
    """Adds nodes with so many CPUs to the cluster for one test."""
    nodes = []

    def add(cpus):
        nodes.append(cluster.add_node(num_cpus=cpus, object_store_memory=80 * 2**20))
        return nodes[-1]

    yield add
    for node in nodes:
        if node in cluster.worker_nodes:
            cluster.remove_node(node, allow_graceful=False)
