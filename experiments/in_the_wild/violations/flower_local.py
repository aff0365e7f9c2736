"""Flower 1.41.0, LocalDpMod: above epsilon 8.2 the noise is too small for the epsilon stated.

sqrt(2 ln(1.25 / delta)) / epsilon is a bound for epsilon up to 1 (Dwork & Roth 2014, theorem A.1).
Exact (Balle & Wang 2018), at delta 1e-5: 10.4 for 10, 25.4 for 20, 96.4 for 50.

    pip install flwr==1.41.0 scipy && python flower_local.py
"""

import logging
import math

import numpy as np
from flwr.app import ArrayRecord, ConfigRecord, Context, Message, RecordDict
from flwr.clientapp.mod import LocalDpMod
from flwr.supercore.task_identity import TaskIdentity
from scipy import optimize, stats

logging.getLogger("flwr").setLevel(logging.ERROR)
TaskIdentity.run_id = TaskIdentity.node_id = TaskIdentity.task_id = 1
CLIP, DELTA, UPLOADS = 1.0, 1e-5, 3000


def upload(mod: LocalDpMod, update: float) -> float:
    """What a client of a model with one parameter sends."""
    sent = RecordDict({"arrays": ArrayRecord([np.zeros(1)]), "config": ConfigRecord()})
    trained = RecordDict({"arrays": ArrayRecord([np.array([update])])})
    message = Message(sent, dst_node_id=0, message_type="train")
    answer = Message(trained, dst_node_id=0, message_type="train")
    made = mod(message, Context(0, 0, {}, RecordDict(), {}), lambda *_: answer)
    return float(next(iter(made.content.array_records.values())).to_numpy_ndarrays()[0][0])


def exact(mu: float) -> float:
    """The epsilon of a Gaussian mechanism at DELTA."""

    def excess(e: float) -> float:
        tail = stats.norm.logcdf(-mu / 2 - e / mu)
        return stats.norm.cdf(mu / 2 - e / mu) - math.exp(min(e + tail, 0.0)) - DELTA

    return optimize.brentq(excess, 0, 500)


np.random.seed(1)
for epsilon in (1.0, 8.0, 10.0, 20.0, 50.0):
    mod = LocalDpMod(CLIP, CLIP, epsilon, DELTA)
    found = np.array([[upload(mod, u) for u in (10.0, 1e-30)] for _ in range(UPLOADS)])
    mu = (found[:, 0].mean() - found[:, 1].mean()) / found.std(axis=0).mean()
    print(f"stated epsilon {epsilon:g}: measured mu {mu:.2f}, which is epsilon {exact(mu):.2f}")
