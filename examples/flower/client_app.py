"""The clients: ordinary ones, and canary clients that send their vector instead of learning."""

import numpy as np
from flwr.app import ArrayRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from setting import CLIP_NORM, NUM_CLIENTS, POOL, examples, train

from fl_audit.flower import canary_arrays

app = ClientApp()


@app.train()
def train_round(message: Message, context: Context) -> Message:
    """Answers the server, as an ordinary client or as a canary."""
    weights = message.content["arrays"].to_numpy_ndarrays()
    node = int(context.node_config["partition-id"])
    if node < NUM_CLIENTS:
        weights = train(weights, *examples(seed=node, count=20))
    else:
        canary = int(np.flatnonzero(POOL.included)[node - NUM_CLIENTS])
        weights = canary_arrays(weights, POOL, canary, norm=100 * CLIP_NORM)
    # All clients have the same weight, as Flower's noise assumes.
    content = {"arrays": ArrayRecord(weights), "metrics": MetricRecord({"num-examples": 1})}
    return Message(RecordDict(content), reply_to=message)
