"""Flower's DP strategies and mods, with FedAvg below them.

A cohort smaller than the number of sampled clients is filled with clients that send next to
nothing, and clients beyond it are what the strategies warn of: the reading is that of a full
cohort, of which one client changes what it sends.
"""

import functools
import logging
from collections.abc import Callable
from typing import Any

import numpy as np
from flwr.app import ArrayRecord, ConfigRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp.mod import adaptiveclipping_mod, fixedclipping_mod
from flwr.serverapp import strategy as strategies
from flwr.supercore.task_identity import TaskIdentity

from experiments.in_the_wild.feature import (
    CLIP_NORM,
    COHORT,
    NOISE_MULTIPLIER,
    SHAPES,
    Feature,
    pin_randomness,
)
from fl_audit import Promise

logging.getLogger("flwr").setLevel(logging.ERROR)
TaskIdentity.run_id = TaskIdentity.node_id = TaskIdentity.task_id = 1

NEXT_TO_NOTHING = 1e-30
"""What a client that is filled in sends: a zero update ends FlatClip by ZeroDivisionError."""

_STARTS = ArrayRecord([np.zeros(shape) for shape in SHAPES])


def reply(update: Any, num_examples: int) -> Message:
    """The message of a client that trained."""
    content = RecordDict(
        {
            "arrays": ArrayRecord([np.asarray(part, float) for part in update]),
            "metrics": MetricRecord({"num-examples": num_examples}),
        }
    )
    return Message(content, dst_node_id=0, message_type="train")


def clipped_by(
    mod: Callable, clip_norm: float, made: Message, starts: ArrayRecord = _STARTS
) -> Message:
    """A client's reply through a mod of the client, to a server that sent it a model of zeros."""
    sent = RecordDict({"arrays": starts})
    sent["config"] = ConfigRecord({"clipping_norm": clip_norm})
    message = Message(sent, dst_node_id=0, message_type="train")
    context = Context(0, 0, {}, RecordDict(), {})
    return mod(message, context, lambda *_: made)


def server(examples: Callable[[int], int], mod: Callable | None = None) -> Callable:
    """A round of a strategy whose client i says that it has so many examples."""

    def run(strategy: Any, updates: list, random: np.random.Generator) -> tuple[Any, Any]:
        pin_randomness(random)
        missing = max(COHORT - len(updates), 0)
        nothing = [np.full(shape, NEXT_TO_NOTHING) for shape in SHAPES]
        replies = [reply(u, examples(i)) for i, u in enumerate([*updates, *[nothing] * missing])]
        if mod is not None:
            replies = [clipped_by(mod, strategy.clipping_norm, made) for made in replies]
        strategy.current_arrays = _STARTS
        arrays, _ = strategy.aggregate_train(1, replies)
        return strategy, arrays.to_numpy_ndarrays()

    return run


def equal(_: int) -> int:
    """Every client has 100 examples."""
    return 100


def uneven(client: int) -> int:
    """The first client has ten times as many examples as the others."""
    return 1000 if client == 0 else 100


_CENTRAL = (
    "Strategy wrapper for central DP with {} fixed clipping. ... noise_multiplier: The noise "
    "multiplier for the Gaussian mechanism for model updates."
)
_ADAPTIVE = (
    "Message-based central DP with {} adaptive clipping. Paper: Andrew et al. (arXiv:1905.03871)"
)


def fixed(name: str) -> Callable:
    """A function to a strategy with fixed clipping on one side."""
    kind = getattr(strategies, f"DifferentialPrivacy{name}FixedClipping")
    return functools.partial(kind, strategies.FedAvg(), NOISE_MULTIPLIER, CLIP_NORM, COHORT)


def adaptive(name: str) -> Callable:
    """A function to a strategy with adaptive clipping on one side."""
    kind = getattr(strategies, f"DifferentialPrivacy{name}AdaptiveClipping")
    return lambda: kind(
        strategies.FedAvg(), NOISE_MULTIPLIER, COHORT, initial_clipping_norm=CLIP_NORM
    )


_KINDS = {"fixed": fixed, "adaptive": adaptive}
_STATED = {"fixed": _CENTRAL, "adaptive": _ADAPTIVE}


def _feature(
    kind: str, side: str, examples: Callable[[int], int], mod: Callable | None = None
) -> Feature:
    """A strategy of one kind, which clips on one side."""
    start = _KINDS[kind](f"{side.capitalize()}Side")
    who = "every client has 100 examples" if examples is equal else "one has 1,000, the others 100"
    return Feature(
        name=f"{side}-side {kind} clipping" + (", uneven examples" if examples is uneven else ""),
        library="flwr",
        stated=_STATED[kind].format(f"{side}-side"),
        source=f"docstring of {type(start()).__name__}",
        reading=f"{COHORT} clients, as many as are sampled; one changes what it sends; {who}",
        promise=Promise(
            clip_norm=CLIP_NORM,
            denominator=COHORT,
            noise_multiplier=float(start().noise_multiplier),
        ),
        server=server(examples, mod),
        start=start,
        warned=("denominator",),
    )


FEATURES = (
    _feature("fixed", "server", equal),
    _feature("fixed", "server", uneven),
    _feature("fixed", "client", equal, fixedclipping_mod),
    _feature("fixed", "client", uneven, fixedclipping_mod),
    _feature("adaptive", "server", equal),
    _feature("adaptive", "server", uneven),
    _feature("adaptive", "client", equal, adaptiveclipping_mod),
    _feature("adaptive", "client", uneven, adaptiveclipping_mod),
)
