"""What a replay asks of the noise: of the round under many seeds, and of the round after it."""

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from fl_audit.array_types import FloatArray
from fl_audit.mechanism_checks.finding import Finding, untold
from fl_audit.mechanism_checks.replayed_clients import Ruler
from fl_audit.mechanism_checks.replayed_noise import (
    NoisyRounds,
    echo_finding,
    length_finding,
    num_seeds,
    resolution_finding,
)
from fl_audit.mechanism_checks.trial_rounds import Answer, Trial, TrialRounds, Trials


@dataclass(frozen=True, eq=False)
class NoiseQuestions:
    """The questions about noise.

    Attributes:
      rounds: The rounds of the server.
      trials: The maker of cohorts.
      recorded: The round as it is.
      ruler: The measure.
      without: The cohort of a trial without its client.
    """

    rounds: TrialRounds
    trials: Trials
    recorded: Answer
    ruler: Ruler
    without: Callable[[Trial], list[FloatArray]]

    def findings(self, touched: FloatArray) -> Iterator[Finding]:
        """The findings on noise, where the promise is about it.

        Args:
          touched: Whether any client changes a variable, of shape (variables,).
        """
        expected = "another seed gives noise as long as promised in every variable"
        stddev = self.trials.promise.noise_stddev
        if stddev is None:
            yield untold("noise_length", expected, "no law of fresh noise is promised")
            return
        resolution = float(np.finfo(np.float32).eps) * float(np.linalg.norm(self.recorded.release))
        if not resolution < stddev < np.inf:
            return
        seeds = range(1, num_seeds(self.rounds.sizes))
        releases = np.array(
            [self.rounds.run(self.trials.few, seed).release for seed in (0, *seeds)]
        )
        other = self.rounds.run(self.trials.vectors, 1).release
        shows = self._shows_noise(releases, touched)
        coordinates = np.repeat(shows, self.rounds.sizes)
        releases = releases[:, coordinates]
        recorded = np.array([self.recorded.release, other])[:, coordinates]
        sizes = list(itertools.compress(self.rounds.sizes, shows))
        groups = (
            NoisyRounds("the smallest round", releases, stddev),
            NoisyRounds("the recorded round", recorded, stddev),
        )
        yield length_finding("noise_length", expected, groups, sizes, may_be_longer=False)
        difference = recorded[0] - recorded[1]
        if np.isfinite(difference).all() and difference.any():
            yield echo_finding(difference, stddev)
        if not self.trials.few:
            yield resolution_finding(releases, recorded[0])
        if self.recorded.state is not None:
            yield self._next_noise(coordinates, sizes, stddev)

    def _shows_noise(self, releases: FloatArray, touched: FloatArray) -> FloatArray:
        """Which variables have noise or clients: a frozen one has neither."""
        parts = np.split(np.ptp(releases, axis=0), np.cumsum(self.rounds.sizes)[:-1])
        shows = np.array([part.any() for part in parts]) | touched
        return np.asarray(shows if shows.any() else ~shows)

    def _next_noise(self, coordinates: FloatArray, sizes: list[int], stddev: float) -> Finding:
        """Whether the next round's noise is new, for as much as a client counts there."""
        name, expected = "noise_next", "the next round draws new noise, as long as promised there"
        # A clip norm that follows the updates is longer after long ones.
        longer = self.rounds.run([20 * vector for vector in self.trials.vectors]).state
        most = max(self.trials.promise.sensitivity, self._longest_after(None))
        states = (self.recorded.state, longer)
        share, state = max(
            ((self._longest_after(state) / most / 1.001, state) for state in states),
            key=lambda pair: pair[0],
        )
        if share < 1e-3:
            return untold(name, expected, "no client counts in the next round")
        seeds = range(2, 2 + num_seeds(sizes))
        after = [
            self.rounds.go_on(state, self.trials.few, seed).release[coordinates] for seed in seeds
        ]
        rounds = NoisyRounds("the next round", np.array(after), share * stddev)
        return length_finding(name, expected, [rounds], sizes, may_be_longer=True)

    def _longest_after(self, state: Any) -> float:
        """The most that a client alone changes in a round from a state; None for the first one."""
        start = self.rounds.state if state is None else state
        found = [0.0]
        for trial in itertools.islice(self.trials.alone(), 1, 4, 2):  # 1.2 and 10 clip norms
            one = self.rounds.go_on(start, trial.cohort, 2)
            none = self.rounds.go_on(start, self.without(trial), 2)
            magnitude = float(np.linalg.norm(one.release))
            length = float(np.linalg.norm(one.release - none.release))
            found.append(length - self.ruler.rounding(magnitude))
        return max(found)
