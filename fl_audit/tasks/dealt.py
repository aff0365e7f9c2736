"""Examples without clients of their own, dealt to clients at random."""

import numpy as np

from fl_audit.errors import InputError
from fl_audit.seeds import Stream, generator
from fl_audit.tasks.classifier import Examples, InMemoryPopulation


def deal(
    everything: Examples, num_clients: int, num_held_out: int, seed: int
) -> tuple[InMemoryPopulation, Examples]:
    """Deals shuffled examples to clients in equal shares, and holds the last ones out.

    Args:
      everything: All examples.
      num_clients: The number of clients.
      num_held_out: The number of examples that no client has.
      seed: The seed of the run, which decides the order.

    Returns:
      The clients, named client-0 and so on, and the examples held out.

    Raises:
      InputError: There are more clients than examples for them.
    """
    num_training = len(everything) - num_held_out
    if not 1 <= num_clients <= num_training:
        raise InputError(
            f"task.num_clients: must be from 1 to {num_training}, the examples that are not held "
            f"out, got {num_clients}"
        )
    shuffled = everything.take(generator(seed, Stream.PARTITION).permutation(len(everything)))
    shares = np.array_split(np.arange(num_training), num_clients)
    population = InMemoryPopulation(
        client_ids=[f"client-{i}" for i in range(num_clients)],
        data=[shuffled.take(share) for share in shares],
    )
    return population, shuffled.take(np.arange(num_training, len(everything)))
