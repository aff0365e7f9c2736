"""Servers of plain NumPy whose clip norm adapts: a right one, and ones that are wrong in one place.

A state is the clip norm, and what a wrong server keeps beside it.
"""

from dataclasses import dataclass

import numpy as np
from replay_zoo import norm_of

from fl_audit.checks import AdaptiveClip, Promise

SHAPES = ((40, 50), (60,))
CLIP, COHORT, NOISE, QUANTILE, RATE = 0.5, 20, 1.0, 0.5, 0.2
COUNT_STDDEV = 1.0


def promise(count_stddev=COUNT_STDDEV, quantile=QUANTILE, cohort=COHORT):
    clip = AdaptiveClip(
        target_quantile=quantile,
        learning_rate=RATE,
        count_stddev=count_stddev,
        denominator=cohort,
    )
    return Promise(clip_norm=CLIP, denominator=cohort, noise_multiplier=NOISE, adaptive_clip=clip)


@dataclass(frozen=True)
class Rule:
    """How a server moves its clip norm; the fields are what may be wrong."""

    count_stddev: float = COUNT_STDDEV
    quantile: float = QUANTILE
    rate: float = RATE
    cohort: float = COHORT
    centre: float = 0.5
    limit: bool = True
    by_who_came: bool = False
    keeps_noise: bool = False
    noise_of_next: bool = False
    noise_of_first: bool = False
    clips_to_first: bool = False
    counts_twice: bool = False
    long_ones: bool = False
    by_first_variable: bool = False
    linear: bool = False


def clip_of(state):
    return float(state[0])


def server(rule=Rule()):
    """A round of a rule; the state is (clip norm, kept noise)."""

    def of_round(state, updates, random):
        clip, kept = state
        used = CLIP if rule.clips_to_first else clip
        total = [np.zeros(shape) for shape in SHAPES]
        count = 0.0
        for update in updates:
            norm = norm_of(update)
            factor = min(1.0, used / max(norm, 1e-30))
            total = [t + factor * part for t, part in zip(total, update, strict=True)]
            norm = norm_of(update[:1]) if rule.by_first_variable else norm
            is_short = (norm > clip) if rule.long_ones else (norm <= clip)
            count += (2 if rule.counts_twice else 1) * (is_short - rule.centre)
        noise = [random.normal(0, 1, shape) for shape in SHAPES]
        of_count = random.normal()
        of_count = kept if rule.keeps_noise and kept is not None else of_count
        count += rule.count_stddev * of_count
        share = count / (max(1, len(updates)) if rule.by_who_came else rule.cohort) + rule.centre
        share = np.clip(share, 0, 1) if rule.limit else share
        move = rule.rate * (share - rule.quantile)
        after = np.float32(clip * (1 - move if rule.linear else np.exp(-move)))
        stddev = NOISE * (after if rule.noise_of_next else CLIP if rule.noise_of_first else clip)
        release = [(t + stddev * n) / COHORT for t, n in zip(total, noise, strict=True)]
        return (after, of_count), release

    return of_round


WRONG = {
    "count without noise": (Rule(count_stddev=0.0), "count_noise"),
    "half the count's noise": (Rule(count_stddev=COUNT_STDDEV / 2), "count_noise"),
    "twice the count's noise": (Rule(count_stddev=2 * COUNT_STDDEV), "count_noise"),
    "the count's noise drawn once": (Rule(keeps_noise=True), "count_noise"),
    "a count from zero": (Rule(centre=0.0), "clip_count"),
    "every client counted twice": (Rule(counts_twice=True), "clip_count"),
    "over those who came": (Rule(by_who_came=True), "clip_count"),
    "another quantile": (Rule(quantile=0.6), "clip_update"),
    "half the rate": (Rule(rate=RATE / 2), "clip_update"),
    "a linear update": (Rule(linear=True), "clip_update"),
    "long ones counted": (Rule(long_ones=True), "clip_update"),
    "the first variable's norm counted": (Rule(by_first_variable=True), "clip_update"),
    "noise of the next clip norm": (Rule(noise_of_next=True), "clip_noise"),
    "noise of the first clip norm": (Rule(noise_of_first=True), "clip_noise"),
    "clips to the first norm": (Rule(clips_to_first=True), "clip_next"),
}
"""What is wrong, and the finding that has to fail."""
