"""Flower 1.41.0, adaptive clipping: sensitivity of the count, and noise by the next clip norm.

Andrew et al. (2021) release the sum of b_i - 1/2, to which one client adds at most 1/2. Flower
releases the count of clipped clients, to which one adds 0 or 1, with noise for 1/2. And it changes
the clip norm before it draws the noise of the model: where most clients are clipped the norm falls
by up to exp(-0.1), and so does the noise, while the updates were clipped to the norm before. With
noise_multiplier 1 and 20 clients a round is 1.38-GDP, not 1-GDP: epsilon 6.41 at delta 1e-5
where 4.38 is meant.

    pip install flwr==1.41.0 && python flower_adaptive.py
"""

import logging
import math

import numpy as np
from flwr.app import ArrayRecord, Message, MetricRecord, RecordDict
from flwr.serverapp.strategy import DifferentialPrivacyServerSideAdaptiveClipping, FedAvg
from flwr.supercore.task_identity import TaskIdentity

logging.getLogger("flwr").setLevel(logging.ERROR)
TaskIdentity.run_id = TaskIdentity.node_id = TaskIdentity.task_id = 1
CLIENTS, CLIP, ROUNDS = 20, 1.0, 1500


def reply(update: float) -> Message:
    """A client's update of a model with one parameter, which was 0."""
    arrays, metrics = ArrayRecord([np.array([update])]), MetricRecord({"num-examples": 1})
    content = RecordDict({"arrays": arrays, "metrics": metrics})
    return Message(content, dst_node_id=0, message_type="train")


def round_of(canary: float) -> tuple[float, float, float]:
    """One round: the sum, the standard deviation of its noise, the count of clipped clients."""
    strategy = DifferentialPrivacyServerSideAdaptiveClipping(
        FedAvg(), noise_multiplier=1.0, num_sampled_clients=CLIENTS, initial_clipping_norm=CLIP
    )
    strategy.current_arrays = ArrayRecord([np.zeros(1)])
    others = [10.0, -10.0] * 9 + [1e-30]  # 18 clipped ones, whose sum is 0
    arrays, _ = strategy.aggregate_train(1, [reply(u) for u in [*others, canary]])
    fraction = 0.5 - math.log(strategy.clipping_norm / CLIP) / 0.2
    noise = strategy.noise_multiplier * strategy.clipping_norm
    return arrays.to_numpy_ndarrays()[0][0] * CLIENTS, noise, fraction * CLIENTS - 18


def score(canary: float) -> float:
    """The likelihood ratio's score of a round: N(0, 1) without the canary."""
    total, noise, count = round_of(canary)  # the count's noise has deviation 20 / 20
    return (total / noise**2 + count) / math.hypot(1 / noise, 1.0)


np.random.seed(1)
scores = {sent: np.array([score(sent) for _ in range(ROUNDS)]) for sent in (1e-30, 10.0)}
measured = (scores[10.0].mean() - scores[1e-30].mean()) / scores[1e-30].std()
error = math.sqrt(2 / ROUNDS)
print(f"stated: mu = 1; measured in {ROUNDS} rounds each: {measured:.2f} ± {error:.2f}")
