"""Stand-ins for a round's participants, which an attacker makes of similar data.

They show what others in a round may send (`fl_audit.attacks.update_ratio`). Held-out examples,
which no client has, replace clients'; examples made like canaries' replace canaries'. Nothing here
depends on a canary's coin.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from fl_audit.array_types import FloatArray
from fl_audit.canaries.tables import coin_probability
from fl_audit.config import ExampleCanaries
from fl_audit.engines.example_canaries import alike_canaries, parts_of, usual_size
from fl_audit.engines.prepare import PreparedRun
from fl_audit.seeds import Stream, generator
from fl_audit.tasks.learning_task import Examples

_MOST_OF_A_KIND = 128
_MOST_NUMBERS = 1 << 26
"""The largest size of all stand-ins' updates together, 256 MB."""


@dataclass(frozen=True, eq=False)
class StandIns:
    """Stand-ins for a round's participants."""

    clients: Sequence[Examples]  # the examples of each, in the order of training
    counts: FloatArray  # the expected number of participants that each represents, (n,)
    repeats: float  # the expected number of rounds of a participant, at least 1


def make_stand_ins(run: PreparedRun) -> StandIns:
    """Stand-ins for a run's clients and canaries; of a kind no more than there are canaries."""
    random = generator(run.config.seed, Stream.STAND_INS)
    schedule, pool = run.schedule, run.num_canaries
    most = max(1, min(_MOST_OF_A_KIND, pool, _MOST_NUMBERS // (2 * run.task.classifier.dim)))
    of_canary = float(np.mean([len(rounds) for rounds in run.own_rounds.of_canary]))
    canaries_of_round = coin_probability(run.config.canaries) * pool * of_canary
    canaries_of_round /= schedule.num_rounds
    like_canaries = alike_canaries(_canaries(run), run.task, most, random)
    like_clients = _like_clients(run, most, random)
    clients_of_round = schedule.expected_clients
    if not like_canaries:  # canaries are like clients, or cannot be imitated
        clients_of_round += canaries_of_round
    counts = (
        np.full(len(like_clients), clients_of_round / len(like_clients)),
        np.full(len(like_canaries), canaries_of_round / max(len(like_canaries), 1)),
    )
    of_client = schedule.expected_clients * schedule.num_rounds / run.num_clients
    most_examples = run.task.max_examples_per_client
    passes = [
        examples.take(np.tile(np.arange(len(examples))[:most_examples], run.config.client.epochs))
        for examples in (*like_clients, *like_canaries)
    ]
    return StandIns(passes, np.concatenate(counts), max(1.0, of_canary, of_client))


def _canaries(run: PreparedRun) -> ExampleCanaries:
    canaries = run.config.canaries
    if not isinstance(canaries, ExampleCanaries):
        raise TypeError("stand-ins are for canaries that hold examples")
    return canaries


def _like_clients(run: PreparedRun, most: int, random: np.random.Generator) -> list[Examples]:
    """Held-out examples in parts as large as a client's."""
    held_out = run.task.held_out
    size = min(usual_size(run.task), len(held_out))
    order = random.permutation(len(held_out))[: most * size]
    return list(parts_of(held_out.take(order), size))
