"""Flower 1.41.0, fixed clipping: a client counts by how many examples it says that it has.

FedAvg weighs the clipped updates by `num-examples`, which has no limit, and the noise is that of
equal weights. One client of 20 that says 1,000 where the others say 100 counts 6.9 times.
(With an accountant the strategy refuses such clients; without one it does not warn.)

    pip install flwr==1.41.0 && python flower_uneven.py
"""

import logging

import numpy as np
from flwr.app import ArrayRecord, Message, MetricRecord, RecordDict
from flwr.serverapp.strategy import DifferentialPrivacyServerSideFixedClipping, FedAvg
from flwr.supercore.task_identity import TaskIdentity

logging.getLogger("flwr").setLevel(logging.ERROR)
TaskIdentity.run_id = TaskIdentity.node_id = TaskIdentity.task_id = 1
CLIENTS, CLIP = 20, 1.0


def reply(update: float, examples: int) -> Message:
    """A client's update of a model with one parameter, which was 0."""
    arrays, metrics = ArrayRecord([np.array([update])]), MetricRecord({"num-examples": examples})
    content = RecordDict({"arrays": arrays, "metrics": metrics})
    return Message(content, dst_node_id=0, message_type="train")


def released(update: float) -> float:
    """A round with the same noise, in which the client with many examples sends an update."""
    np.random.seed(1)
    strategy = DifferentialPrivacyServerSideFixedClipping(FedAvg(), 1.0, CLIP, CLIENTS)
    strategy.current_arrays = ArrayRecord([np.zeros(1)])
    replies = [reply(update, 1000), *(reply(1e-30, 100) for _ in range(CLIENTS - 1))]
    arrays, _ = strategy.aggregate_train(1, replies)
    return float(arrays.to_numpy_ndarrays()[0][0])


change = released(10.0) - released(1e-30)
print(f"noise is for a change of {CLIP / CLIENTS:.3f}; one client changes {change:.3f}")
