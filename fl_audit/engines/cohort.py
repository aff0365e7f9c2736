"""The participants of a round and their data, read ahead of time.

`CohortData` reads the examples of a cohort's clients, and of canaries that hold examples, in the
order of training. `prefetched` reads the next cohort while a round trains.
"""

import collections
import contextlib
import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from fl_audit.array_types import IntArray
from fl_audit.config import Client
from fl_audit.participation import Cohort
from fl_audit.seeds import Stream, generator
from fl_audit.tasks.learning_task import Examples, LearningTask


@dataclass(frozen=True)
class RoundData:
    """The participants of one round."""

    clients: Sequence[Examples]  # each real client's, in the order of training, pass after pass
    canaries: IntArray  # indices in the pool
    canary_examples: Sequence[
        Examples
    ] = ()  # each canary's, likewise; empty if canaries are vectors

    @property
    def trained(self) -> Sequence[Examples]:
        """The examples of all participants that train."""
        return [*self.clients, *self.canary_examples]

    @property
    def vectors(self) -> IntArray:
        """The canaries that send a vector."""
        return self.canaries[len(self.canary_examples) :]


@dataclass(frozen=True)
class CohortData:
    """Reads the data of a round's participants; may be called from any thread."""

    task: LearningTask
    config: Client
    seed: int
    canary_examples: Sequence[Examples] = ()

    def round_data(self, cohort: Cohort, round_index: int) -> RoundData:
        """The data of a cohort, each participant's examples in the order of training."""
        clients = [self._examples(int(client), round_index) for client in cohort.clients]
        if not self.canary_examples:
            return RoundData(clients, cohort.canaries)
        canaries = [self.of_canary(int(canary), round_index) for canary in cohort.canaries]
        return RoundData(clients, cohort.canaries, canaries)

    def of_canary(self, canary: int, round_index: int) -> Examples:
        """A canary's examples in the order of training of a round."""
        examples = self.canary_examples[canary]
        random = generator(self.seed, Stream.CANARY_ORDER, round_index, canary)
        return examples.take(self._order(len(examples), random))

    def _examples(self, client: int, round_index: int) -> Examples:
        population = self.task.population
        random = generator(self.seed, Stream.LOCAL_ORDER, round_index, client)
        return population.take(client, self._order(population.num_examples(client), random))

    def _order(self, num_examples: int, random: np.random.Generator) -> IntArray:
        """The positions of the examples to train on, pass after pass."""
        passes = [
            random.permutation(num_examples)[: self.task.max_examples_per_client]
            for _ in range(self.config.epochs)
        ]
        return np.concatenate(passes)


# Reading ahead.


S = TypeVar("S")
T = TypeVar("T")


@contextlib.contextmanager
def prefetched(
    make: Callable[[S], T], items: Iterable[S], num_threads: int = 1
) -> Iterator[Iterator[T]]:
    """Calls `make` for each item in background threads; yields an iterator of results, in order.

    While the caller works on a result, the next `num_threads` results, and no more, are computed.
    An error of `make` is raised when the failed result is requested. After the block no thread is
    left: calls of `make` that began are finished, and no other is begun. Items are taken one by one
    in the caller's thread.
    """
    executor = ThreadPoolExecutor(num_threads, thread_name_prefix="prefetch")
    try:
        yield _in_order(executor, make, iter(items), num_threads)
    finally:
        executor.shutdown(cancel_futures=True)


def _in_order(
    executor: ThreadPoolExecutor, make: Callable[[S], T], items: Iterator[S], ahead: int
) -> Iterator[T]:
    pending: collections.deque[Future[T]] = collections.deque()

    def submit(count: int) -> None:
        pending.extend(executor.submit(make, item) for item in itertools.islice(items, count))

    submit(ahead)
    while pending:
        result = pending.popleft().result()
        submit(1)
        yield result
