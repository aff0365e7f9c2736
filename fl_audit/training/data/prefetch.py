"""Making of coming results in background threads while the caller works on the last one."""

import collections
import contextlib
import itertools
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

S = TypeVar("S")
T = TypeVar("T")


@contextlib.contextmanager
def prefetched(
    make: Callable[[S], T], items: Iterable[S], num_threads: int = 1
) -> Iterator[Iterator[T]]:
    """Calls `make` for each item in background threads and gives the results in order.

    The next `num_threads` results, and no more, are made while the caller works on the last one.
    What `make` raises is raised where its result is asked for. However the block is left, its
    threads have ended by then: calls of `make` that have begun are waited for, later ones are not
    begun.

    Args:
      make: A function that is called with an item, in any thread.
      items: The items, taken one by one in the caller's thread.
      num_threads: The number of calls of `make` at the same time, at least 1.

    Yields:
      An iterator over the results, in the order of `items`.
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
