"""Results made ahead: their order, how many, what is raised where, and when the thread ends."""

import threading
import traceback
import weakref

import pytest

from fl_audit.engines.cohort import prefetched

TIMEOUT = 30.0  # that a deadlock fails instead of hanging; nothing waits for it otherwise


def threads() -> list[str]:
    return [t.name for t in threading.enumerate() if t.name.startswith("prefetch")]


@pytest.fixture(autouse=True)
def _no_thread_stays():
    assert not threads()
    yield
    assert not threads()


@pytest.mark.parametrize("num_threads", [1, 2, 7])
@pytest.mark.parametrize("count", [0, 1, 2, 20])
def test_results_come_in_order(count, num_threads):
    with prefetched(lambda r: r * r, iter(range(count)), num_threads) as results:
        assert list(results) == [r * r for r in range(count)]


def test_the_next_is_made_while_the_caller_works():
    made = [threading.Event() for _ in range(4)]
    with prefetched(lambda r: made[r].set(), range(4)) as results:
        for round_index, _ in enumerate(results):
            # The caller asks for nothing here, and yet the next one gets made.
            assert made[min(round_index + 1, 3)].wait(TIMEOUT)


class Result:
    """Something that can be watched."""


@pytest.mark.parametrize("num_threads", [1, 2, 5])
def test_no_more_than_num_threads_are_made_ahead(num_threads):
    begun = threading.Semaphore(0)
    made: list[weakref.ref[Result]] = []

    def make(_: int) -> Result:
        result = Result()
        made.append(weakref.ref(result))
        begun.release()
        return result

    with prefetched(make, range(20), num_threads) as results:
        for round_index, _ in enumerate(results):
            expected = min(round_index + 1 + num_threads, 20)
            while len(made) < expected:
                assert begun.acquire(timeout=TIMEOUT)
            # Another would come at once: give it the chance, then look.
            assert not begun_more(made, expected)
            assert sum(ref() is not None for ref in made) <= num_threads + 1


def begun_more(made: list[object], expected: int) -> bool:
    threading.Event().wait(0.002)
    return len(made) > expected


def fail_at(bad: int):
    def make(round_index: int) -> int:
        if round_index == bad:
            raise LookupError(f"round {round_index}")
        return round_index

    return make


@pytest.mark.parametrize("num_threads", [1, 3])
def test_an_error_is_raised_where_its_result_is_asked_for(num_threads):
    seen = []
    with prefetched(fail_at(2), range(9), num_threads) as results:
        seen += [next(results), next(results)]
        with pytest.raises(LookupError, match="round 2") as caught:
            next(results)
        assert list(results) == []
    assert seen == [0, 1]
    frames = [frame.name for frame in traceback.extract_tb(caught.value.__traceback__)]
    assert frames[-1] == "make"


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt, SystemExit])
def test_an_error_of_the_caller_ends_the_thread(error):
    made = []
    with pytest.raises(error), prefetched(made.append, range(1000)) as results:
        next(results)
        raise error
    assert len(made) <= 2


def test_leaving_early_waits_for_the_one_being_made_and_begins_no_other():
    begun, go_on = threading.Event(), threading.Event()
    finished = []

    def make(round_index: int) -> None:
        if round_index == 1:
            begun.set()
            assert go_on.wait(TIMEOUT)
        finished.append(round_index)

    with prefetched(make, range(10)) as results:
        next(results)
        assert begun.wait(TIMEOUT)
        threading.Timer(0.01, go_on.set).start()
    assert finished == [0, 1]
