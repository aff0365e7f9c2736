"""A round under noise that a matrix of 32 bands correlates, against one with independent noise.

Usage: python -m benchmarks.correlated_noise [CLIENTS, 10 by default]

The next-word LSTM of 4,050,748 parameters with made-up clients of 4 batches, on `local`, in turns,
by wall time and by time of a processor. Rounds go on from one another, so that all past noise is
there.
"""

import dataclasses
import statistics
import sys
import time

import msgspec

from benchmarks.next_word import PAPER, classifier_of, made_up_clients
from benchmarks.rounds import OurRound, in_memory, run_of
from benchmarks.timing import Race, times, wall_time
from fl_audit.config import FedAvg, GaussianFixed, MatrixFactorisation
from fl_audit.mechanisms import Mechanism

TURNS = 7

INDEPENDENT = GaussianFixed(noise_multiplier=1.0, clip_norm=1.0)
CORRELATED = MatrixFactorisation(
    noise_multiplier=1.0, clip_norm=1.0, strategy="banded_sqrt", bands=32
)


class GoesOn:
    """Rounds that go on from one another."""

    def __init__(self, one: OurRound) -> None:
        """Takes the first round."""
        self._round = one

    def __call__(self, num_clients: int | None = None) -> None:
        """Runs the next round."""
        self._round.state = self._round(num_clients).state


def rounds_of(mechanism: Mechanism, cohort: int) -> GoesOn:
    """The rounds under a mechanism."""
    clients = made_up_clients(PAPER, cohort, 4)
    run = run_of(in_memory("made up", classifier_of(PAPER), clients), FedAvg())
    config = msgspec.structs.replace(run.config, mechanism=mechanism)
    return GoesOn(OurRound(dataclasses.replace(run, config=config)))


def main() -> None:
    """Prints the times and the ratio."""
    cohort = int(sys.argv[1]) if len(sys.argv) > 1 else 10
    both = [rounds_of(one, cohort) for one in (INDEPENDENT, CORRELATED)]
    for one in both:
        for _ in range(CORRELATED.bands or 1):
            one(1)  # prepares everything, and fills the memory of past noise
    wall: list[list[float]] = [[], []]
    processor: list[list[float]] = [[], []]
    for _ in range(TURNS):
        for which, one in enumerate(both):
            before = time.process_time()
            wall[which].append(wall_time(one))
            processor[which].append(time.process_time() - before)
    print("                   independent  32 bands    32 bands over independent")
    for name, (ours, theirs) in (("wall time", wall), ("processor time", processor)):
        print(f"{name:15}", Race(tuple(ours), tuple(theirs)))
    every = zip(*processor, strict=True)
    more = statistics.median(theirs - ours for ours, theirs in every)
    print(f"more time of a processor a round: {times(1000 * more)} ms")


if __name__ == "__main__":
    main()
