"""Likelihood ratios for an attacker who knows the pattern, and not a canary's rounds.

The attacker has z_t, the standardized score of a canary in round t, which is N(m, 1) in a round of
an included canary and N(0, 1) in any other, independently over rounds. With w_t = m z_t - m^2 / 2
the likelihood ratio of inclusion is the mean of exp(sum of w_t over S) over the pattern's
distribution of the canary's rounds S. By Neyman and Pearson no score is better:

>>> sampling = AllocatedRounds(number=1, rounds=3)
>>> log_ratio(sampling, np.log([[2.0], [3.0], [7.0]])).round(6).tolist()  # log of the mean, 4
[1.386294]

Everything here is an array with a row per round and a column per canary. The time is linear in both
(times the number of rounds of each member under random allocation).
"""

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy import special

from fl_audit.accounting.sampling import (
    AllocatedRounds,
    BallsInBinsSampling,
    CyclicPoissonSampling,
    MinSeparationSampling,
    OneRoundPerBlock,
    Sampling,
)
from fl_audit.array_types import FloatArray, IndexArray

Presences = npt.NDArray[np.bool_]
"""Whether each canary is in each round, of shape (rounds, canaries)."""


@dataclass(frozen=True)
class KnownPattern:
    """What the attacker knows of a canary's rounds.

    Attributes:
      sampling: The distribution of its rounds, with `has_likelihood`.
      shift: The shift m of its score in such a round, in standard deviations, above 0.
    """

    sampling: Sampling
    shift: float
    rounds: int

    def log_ratios(self, scores: FloatArray, seen: IndexArray) -> FloatArray:
        """The log likelihood ratio of each canary.

        Args:
          scores: Standardized scores z, float64 of shape (n, canaries).
          seen: Their rounds from 0, int64 of shape (n,); others say nothing.
        """
        logs = np.zeros((self.rounds, scores.shape[1]))
        logs[seen] = self.shift * scores - self.shift**2 / 2
        return log_ratio(self.sampling, logs)

    def draw_scores(
        self, canaries: int, seen: IndexArray, random: np.random.Generator
    ) -> FloatArray:
        """Standardized scores of canaries, each included by a fair coin, as `log_ratios` takes."""
        present = draw_presences(self.sampling, self.rounds, canaries, random)
        present &= random.random(canaries) < 0.5
        return random.standard_normal((len(seen), canaries)) + self.shift * present[seen]


def has_likelihood(sampling: Sampling) -> bool:
    """Whether the distribution of a member's rounds under a sampling is implemented."""
    known = (
        AllocatedRounds,
        BallsInBinsSampling,
        CyclicPoissonSampling,
        MinSeparationSampling,
        OneRoundPerBlock,
    )
    return isinstance(sampling, known) or sampling.share is not None


def log_ratio(sampling: Sampling, logs: FloatArray) -> FloatArray:
    """The log likelihood ratio of inclusion.

    Args:
      logs: The log ratio w_t of each round if the canary is in it, float64 of shape (rounds,
        canaries); 0 for a round that was not seen.

    Returns:
      float64 of shape (canaries,).
    """
    match sampling:
        case OneRoundPerBlock(blocks=blocks):
            return _one_of_each_block(logs, [n for n, count in blocks for _ in range(count)])
        case BallsInBinsSampling(bins=bins):
            return _mean_of_groups(logs, bins)
        case AllocatedRounds(number=number):
            return _allocated(logs, number)
        case CyclicPoissonSampling(probability=q, separation=groups):
            return _mean_of_groups(_by_coin(logs, q), groups)
        case MinSeparationSampling(probability=p, separation=separation):
            return _separated(logs, p, separation)
        case _ if sampling.share is not None:
            return np.asarray(_by_coin(logs, sampling.share).sum(axis=0))
        case _:
            raise ValueError(f"no likelihood is implemented for {type(sampling).__name__}")


def _by_coin(logs: FloatArray, probability: float) -> FloatArray:
    """The log of 1 - q + q e^w of each round."""
    if probability == 1:
        return logs
    return np.logaddexp(math.log1p(-probability), math.log(probability) + logs)


def _one_of_each_block(logs: FloatArray, lengths: list[int]) -> FloatArray:
    """The sum over blocks of the log of the mean ratio of a block's rounds."""
    total, start = np.zeros(logs.shape[1]), 0
    for length in lengths:
        block = logs[start : start + length]
        total += special.logsumexp(block, axis=0) - math.log(length)
        start += length
    return total


def _mean_of_groups(logs: FloatArray, groups: int) -> FloatArray:
    """The log of the mean over groups that take turns, of which some may have no round."""
    rounds, canaries = logs.shape
    sums = np.zeros((groups, canaries))
    for start in range(0, rounds, groups):
        turn = logs[start : start + groups]
        sums[: len(turn)] += turn
    return np.asarray(special.logsumexp(sums, axis=0) - math.log(groups))


def _allocated(logs: FloatArray, number: int) -> FloatArray:
    """The log of the elementary symmetric polynomial of the ratios, over the number of choices."""
    rounds, canaries = logs.shape
    chosen = np.full((number + 1, canaries), -np.inf)
    chosen[0] = 0.0
    for of_round in logs:
        chosen[1:] = np.logaddexp(chosen[1:], chosen[:-1] + of_round)
    choices = special.gammaln(rounds + 1) - special.gammaln([number + 1, rounds - number + 1]).sum()
    return np.asarray(chosen[number] - choices)


def _separated(logs: FloatArray, probability: float, separation: int) -> FloatArray:
    """A forward pass: `resting[i]` are those who may join after i more rounds."""
    rest, canaries = separation - 1, logs.shape[1]
    started = -math.log1p(rest * probability)
    ready = np.full(canaries, started)
    resting = [np.full(canaries, started + math.log(probability)) for _ in range(rest)]
    waits = math.log1p(-probability) if probability < 1 else -math.inf
    for of_round in logs:
        resting.append(ready + math.log(probability) + of_round)
        ready = np.logaddexp(ready + waits, resting.pop(0))
    return np.asarray(special.logsumexp([ready, *resting], axis=0))


def draw_presences(
    sampling: Sampling, rounds: int, canaries: int, random: np.random.Generator
) -> Presences:
    """Draws the rounds of canaries, from the distribution whose likelihood `log_ratio` takes."""
    everyone = np.arange(canaries)
    present = np.zeros((rounds, canaries), bool)
    match sampling:
        case OneRoundPerBlock(blocks=blocks):
            start = 0
            for length in [n for n, count in blocks for _ in range(count)]:
                present[start + random.integers(length, size=canaries), everyone] = True
                start += length
        case BallsInBinsSampling(bins=bins):
            present = np.arange(rounds)[:, None] % bins == random.integers(bins, size=canaries)
        case AllocatedRounds(number=number):
            ranks = random.random((rounds, canaries))
            present = ranks <= np.partition(ranks, number - 1, axis=0)[number - 1]
        case CyclicPoissonSampling(probability=q, separation=groups):
            is_turn = np.arange(rounds)[:, None] % groups == random.integers(groups, size=canaries)
            present = is_turn & (random.random((rounds, canaries)) < q)
        case MinSeparationSampling(probability=p, separation=separation):
            rest = separation - 1
            is_resting = random.random(canaries) < rest * p / (1 + rest * p)
            left = is_resting * random.integers(1, max(rest, 1) + 1, size=canaries)
            for of_round in present:
                of_round[:] = (left == 0) & (random.random(canaries) < p)
                left = np.where(of_round, rest, np.maximum(left - 1, 0))
        case _ if sampling.share is not None:
            present = random.random((rounds, canaries)) < sampling.share
        case _:
            raise ValueError(f"no likelihood is implemented for {type(sampling).__name__}")
    return np.asarray(present)
