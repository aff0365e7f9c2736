"""The clients: ordinary ones, and canary clients that send their vector instead of learning."""

import numpy as np
from flwr.app import ArrayRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from setting import CLIP_NORM, NUM_CLIENTS, POOL, Weights, examples, train

from fl_audit.attacks import unflatten

app = ClientApp()


@app.train()
def train_round(message: Message, context: Context) -> Message:
    """Answers the server, as an ordinary client or as a canary."""
    weights = message.content["arrays"].to_numpy_ndarrays()
    node = int(context.node_config["partition-id"])
    if node < NUM_CLIENTS:
        weights = train(weights, *examples(seed=node, count=20))
    else:
        weights = canary(weights, int(np.flatnonzero(POOL.included)[node - NUM_CLIENTS]))
    # All clients have the same weight, as Flower's noise assumes.
    content = {"arrays": ArrayRecord(weights), "metrics": MetricRecord({"num-examples": 1})}
    return Message(RecordDict(content), reply_to=message)


def canary(weights: Weights, number: int) -> Weights:
    """The model plus the canary's vector at a norm far above the clip norm."""
    update = 100 * CLIP_NORM * POOL.vector(number)
    return [old + moved for old, moved in zip(weights, unflatten(update, weights), strict=True)]
