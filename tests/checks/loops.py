"""Loops of other systems, logged by `RoundScorer`: right ones, and ones that are each wrong once.

Twenty clients a round with updates at the clip norm 1, of which a half has the same direction in
all rounds; noise of one clip norm on their sum, which is divided by 20; 4,000 coordinates, 40
rounds.
"""

import dataclasses
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from fl_audit.attacks import CanaryPool, RoundScorer
from fl_audit.checks import AdaptiveClip, MechanismWatch
from fl_audit.participation.placement import spread

DIM, ROUNDS, COHORT, NOISE = 4000, 40, 20, 1.0
SIZES = (3000, 900, 90, 10)
COUNT = 40

Array = np.ndarray
Random = np.random.Generator


def updates(random: Random) -> Array:
    """The sums of clients' updates by round, of shape (rounds, dim)."""
    drawn = random.normal(size=(ROUNDS, DIM)) * np.sqrt(COHORT / DIM)
    common = COHORT * np.where(np.arange(DIM) % 2, 1, -1) / np.sqrt(DIM)
    return (drawn + common) / 2


def fresh(random: Random) -> Array:
    return random.normal(size=(ROUNDS, DIM))


@dataclass(frozen=True)
class Loop:
    """A training, and what its engineer states.

    Attributes:
      noise: The noise on the sums, over the clip norm, of shape (rounds, dim).
      updates: The sums of updates, over the clip norm, of the same shape.
      clip_norms: The clip norm by round.
      released: What becomes of the aggregates.
      states_noise: Whether the noise of a round, from 0, is stated.
      is_logged: Whether a round, from 0, is logged.
      undoes: Whether clients send the negative of the last round's noise, as long as they may.
      clips_variables: Whether each variable is clipped by itself, of canaries that are sent long.
      options: Further arguments of `RoundScorer.create`.
    """

    noise: Callable[[Random], Array] = fresh
    updates: Callable[[Random], Array] = updates
    clip_norms: Callable[[Random], Array] = lambda random: np.ones(ROUNDS)
    released: Callable[[Array], Array] = lambda aggregates: aggregates
    states_noise: Callable[[int], bool] = lambda index: True
    is_logged: Callable[[int], bool] = lambda index: True
    undoes: bool = False
    clips_variables: bool = False
    count: int = COUNT
    options: dict[str, Any] = field(default_factory=dict)

    def _clipped(self, vector: Array) -> Array:
        """A canary, sent at the clip norm or longer, after the clip."""
        if not self.clips_variables:
            return vector
        parts = np.split(vector, np.cumsum(SIZES)[:-1])
        return np.concatenate([part / np.linalg.norm(part) for part in parts])

    def _pool(self, seed: int) -> tuple[CanaryPool, list[list[int]]]:
        """The canaries, and the round, from 1, of each."""
        pool = CanaryPool(seed=seed, count=self.count, dim=DIM)
        return pool, spread(np.arange(self.count), seed, ROUNDS, 1).by_member(self.count)

    def rounds(self, seed: int) -> Iterator[tuple[int, Array, float, dict[str, float]]]:
        """Trains, and gives each logged round: its index, aggregate, unit, and what is stated."""
        random, (pool, canary_rounds) = np.random.default_rng(seed), self._pool(seed)
        clip_norms, sums = self.clip_norms(random), self.updates(random)
        present = np.zeros(ROUNDS)
        for canary in np.flatnonzero(pool.included):
            for number in canary_rounds[canary]:
                sums[number - 1] += self._clipped(pool.vector(int(canary)))
                present[number - 1] += 1
        unit, noise = clip_norms / COHORT, self.noise(random)
        if self.undoes:
            lengths = np.linalg.norm(noise[:-1], axis=1, keepdims=True)
            sums[1:] -= COHORT * noise[:-1] / lengths
        released = self.released((sums + NOISE * noise) * unit[:, None])
        for index in filter(self.is_logged, range(ROUNDS)):
            stated: dict[str, float] = {}
            if self.states_noise(index):
                stated["noise_stddev"] = NOISE * unit[index]
                stated["norm_bound"] = (COHORT + present[index]) * unit[index]
            yield index, released[index], unit[index], stated

    def watched(self, seed: int) -> MechanismWatch:
        """Its rounds as the checks of aggregates see them, without a log."""
        watch = MechanismWatch(SIZES)
        for _, released, _, stated in self.rounds(seed):
            watch.see_round(released.astype(np.float32), **stated)
        return watch

    def log(self, path: Path, seed: int) -> Path:
        """Trains and writes the log folder; canaries are sent at the clip norm."""
        pool, canary_rounds = self._pool(seed)
        scorer = RoundScorer.create(
            path, pool, ROUNDS, canary_rounds, variable_sizes=SIZES, **self.options
        )
        for index, released, unit, stated in self.rounds(seed):
            scorer.score_round(index + 1, released, canary_length=unit, **stated)
        scorer.finish()
        return path


def changed(change: Callable[[Array, Random], None]) -> Callable[[Random], Array]:
    """Right noise that is changed in place."""

    def noise(random: Random) -> Array:
        made = fresh(random)
        change(made, random)
        return made

    return noise


def _again_after_resume(noise: Array, random: Random) -> None:
    noise[20:] = noise[:20]


def _every_fifth(noise: Array, random: Random) -> None:
    noise[5:] = noise[np.arange(5, ROUNDS) % 5]


def _pairs(noise: Array, random: Random) -> None:
    noise[1::2] = -noise[::2]


def _two_away(noise: Array, random: Random) -> None:
    for start in range(0, ROUNDS, 4):
        noise[start + 2 : start + 4] = -noise[start : start + 2]


def _fours(noise: Array, random: Random) -> None:
    noise[3::4] = -(noise[::4] + noise[1::4] + noise[2::4]) / np.sqrt(3)


def _delayed(noise: Array, random: Random) -> None:
    noise[7:] = np.sqrt(0.5) * (noise[7:] + noise[:-7].copy())


def _reversed_later(noise: Array, random: Random) -> None:
    noise[30] = noise[3, ::-1]


def _twice_later(sign: float = 1.0, step: int = 1) -> Callable[[Array, Random], None]:
    def change(noise: Array, random: Random) -> None:
        noise[10:, DIM // 2 :] = sign * noise[10:, : DIM // 2][:, ::step]

    return change


def _missing(where: slice, first: int = 0) -> Callable[[Array, Random], None]:
    def change(noise: Array, random: Random) -> None:
        noise[first:, where] = 0

    return change


def _low_rank(random: Random) -> Array:
    rank = 60
    return random.normal(size=(ROUNDS, rank)) @ random.normal(size=(rank, DIM)) / np.sqrt(rank)


def _rounded(random: Random) -> Array:
    return np.round(fresh(random)) / np.sqrt(13 / 12)


def _long_bias(random: Random) -> Array:
    made = updates(random)
    made[:, -10:] += 20 * COHORT / np.sqrt(10)
    return made


CLIP = AdaptiveClip(target_quantile=0.5, learning_rate=0.2, count_stddev=1.0, denominator=COHORT)


def _clip_by_count(count_stddev: float) -> Callable[[Random], Array]:
    """Clip norms that a count of about half of the clients moves."""

    def clip_norms(random: Random) -> Array:
        counts = random.binomial(COHORT, 0.5, ROUNDS) - COHORT / 2
        counts = counts + count_stddev * random.normal(size=ROUNDS)
        moves = np.append(0, np.cumsum(-CLIP.learning_rate * counts / COHORT)[:-1])
        return np.exp(moves)

    return clip_norms


ADAPTIVE = Loop(clip_norms=_clip_by_count(CLIP.count_stddev), options={"adaptive_clip": CLIP})

WRONG: dict[str, tuple[Loop, str]] = {
    "the generator starts anew after a resume": (
        Loop(changed(_again_after_resume)),
        "fresh_noise",
    ),
    "noise repeats every fifth round": (Loop(changed(_every_fifth)), "fresh_noise"),
    "noise cancels over pairs": (Loop(changed(_pairs)), "fresh_noise"),
    "noise is the negative of that two rounds before": (Loop(changed(_two_away)), "fresh_noise"),
    "noise cancels over fours": (Loop(changed(_fours)), "fresh_noise"),
    "half of the noise is that of seven rounds before": (Loop(changed(_delayed)), "fresh_noise"),
    "one round has another's noise reversed": (Loop(changed(_reversed_later)), "fresh_noise"),
    "low rank": (Loop(_low_rank), "fresh_noise"),
    "one draw twice in later aggregates": (Loop(changed(_twice_later())), "no_echo"),
    "one draw twice, negated": (Loop(changed(_twice_later(sign=-1))), "no_echo"),
    "one draw twice, reversed": (Loop(changed(_twice_later(step=-1))), "no_echo"),
    "missing on a tenth from round 11 on": (
        Loop(changed(_missing(slice(5, None, 10), 10))),
        "noise_everywhere",
    ),
    "missing on five coordinates": (Loop(changed(_missing(slice(7, 12)))), "noise_everywhere"),
    "uniform noise": (
        Loop(lambda random: random.uniform(-np.sqrt(3), np.sqrt(3), (ROUNDS, DIM))),
        "noise_distribution",
    ),
    "random signs": (
        Loop(lambda random: random.choice([-1.0, 1.0], (ROUNDS, DIM))),
        "noise_distribution",
    ),
    "noise rounded to whole multiples": (Loop(_rounded), "noise_distribution"),
    "a bias that is not clipped": (Loop(updates=_long_bias), "bounded_length"),
    "half the noise": (Loop(lambda random: fresh(random) / 2), "enough_noise"),
    "a count without noise": (
        dataclasses.replace(ADAPTIVE, clip_norms=_clip_by_count(0.0)),
        "count_noise",
    ),
}
"""Wrong loops, each with the check that finds it."""

UNSEEN: dict[str, tuple[Loop, str]] = {
    "half of the planned rounds are not logged": (
        Loop(is_logged=lambda index: index < ROUNDS // 2),
        "20 of 40 rounds are not in the log",
    ),
    "noise is stated in one round of 40": (
        Loop(states_noise=lambda index: index == 3),
        "the noise’s standard deviation is unknown in 39 of 40 rounds",
    ),
    "noise is not stated": (
        Loop(states_noise=lambda index: False),
        "the noise’s standard deviation is unknown",
    ),
    "a clip norm that moves, and no rule": (
        Loop(clip_norms=_clip_by_count(0.0)),
        "the clip norm changes by an unknown rule",
    ),
}
"""Loops that say too little to be checked, each with what the checks say of it."""

NOT_NOTICED: dict[str, Loop] = {
    "missing on one coordinate in the last ten rounds": Loop(
        changed(_missing(slice(7, 8), ROUNDS - 10))
    ),
    "a clip of twice the norm": Loop(updates=lambda random: 1.9 * updates(random)),
}
"""Wrong loops that no check finds, which a consistent verdict on a log says."""


CLIP_PER_VARIABLE = Loop(clips_variables=True, count=400)
"""A client is then as long as the clip norm times the root of the number of variables; the canary
check finds it."""

RIGHT: dict[str, Loop] = {
    "as stated": Loop(),
    "nobody sends anything": Loop(updates=lambda random: np.zeros((ROUNDS, DIM))),
    "all send the same in every round": Loop(
        updates=lambda random: np.tile(COHORT * np.eye(1, DIM, 5), (ROUNDS, 1))
    ),
    "updates change sign in every round": Loop(
        updates=lambda random: updates(random) * (-1.0) ** np.arange(ROUNDS)[:, None]
    ),
    "an adaptive clip": ADAPTIVE,
    "a clip norm that grows tenfold": Loop(clip_norms=lambda random: np.geomspace(1, 10, ROUNDS)),
    "clients undo what they can of the noise before": Loop(
        updates=lambda random: np.zeros((ROUNDS, DIM)), undoes=True
    ),
    "float16": Loop(released=lambda one: one.astype(np.float16).astype(np.float64)),
    "a grid of a quarter of the noise": Loop(
        released=lambda one: np.round(4 * COHORT / NOISE * one) * NOISE / COHORT / 4
    ),
    "a grid as coarse as the noise": Loop(
        released=lambda one: np.round(COHORT / NOISE * one) * NOISE / COHORT
    ),
    "every other round": Loop(is_logged=lambda index: index % 2 == 0),
}
"""Right loops, though unusual."""
