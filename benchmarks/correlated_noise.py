"""A round under noise that a matrix of 32 bands correlates, against one with independent noise.

Usage: python -m benchmarks.correlated_noise [CLIENTS, 10 by default]

The next-word LSTM of 4,050,748 parameters with made-up clients of 4 batches, on `local`, in turns.
"""

import dataclasses
import sys

import msgspec

from benchmarks.next_word import PAPER, classifier_of, made_up_clients
from benchmarks.rounds import OurRound, in_memory, run_of
from benchmarks.timing import race
from fl_audit.config import FedAvg, GaussianFixed, MatrixFactorisation
from fl_audit.mechanisms import Mechanism

TURNS = 7

INDEPENDENT = GaussianFixed(noise_multiplier=1.0, clip_norm=1.0)
CORRELATED = MatrixFactorisation(
    noise_multiplier=1.0, clip_norm=1.0, strategy="banded_sqrt", bands=32
)


def round_of(mechanism: Mechanism, cohort: int) -> OurRound:
    """A round under a mechanism."""
    clients = made_up_clients(PAPER, cohort, 4)
    run = run_of(in_memory("made up", classifier_of(PAPER), clients), FedAvg())
    config = msgspec.structs.replace(run.config, mechanism=mechanism)
    return OurRound(dataclasses.replace(run, config=config))


def main() -> None:
    """Prints the times and the ratio."""
    cohort = int(sys.argv[1]) if len(sys.argv) > 1 else 10
    independent, correlated = (round_of(one, cohort) for one in (INDEPENDENT, CORRELATED))
    for one in (independent, correlated):
        one()  # prepares everything
    print("    independent  32 bands    32 bands over independent")
    print(race(independent, correlated, turns=TURNS))


if __name__ == "__main__":
    main()
