"""The power to find bugs of given sizes, on simulated scores without training.

Usage: python -m experiments.broken_mechanisms.power [AUDITS, 200 by default]

A score on `final_minus_initial` is a canary's whole signal plus Gaussian noise. There are 1,000
canaries of which coins include half, as in `every_round.toml` or, where named, `one_draw.toml`.
"""

import math
import sys
from collections.abc import Callable, Mapping

import numpy as np

from fl_audit.array_types import FloatArray
from fl_audit.estimators import METHODS, AuditSetting, CanaryScores, GaussianCanaryNull
from fl_audit.estimators.gaussian.mechanism import epsilon_of_mu
from fl_audit.estimators.null import Null

Signals = Callable[[np.random.Generator, int], FloatArray]
"""A function that draws the signals of a number of included canaries, in deviations of noise."""

DIM, DELTA, CANARIES, MU = 25_834, 1e-3, 1_000, 0.7

LEVELS = {"the verdict's eight looks": 0.05 / 8, "this look alone": 0.05}


def _scaled(times: float) -> Signals:
    return lambda random, size: np.full(size, times * MU)


SIGNALS: Mapping[str, Signals] = {
    "correct": _scaled(1.0),
    "noise not scaled with the adaptive clip": _scaled(2.1),
    "clip by variable, as Rademacher canaries see it": _scaled(2.08),
    "half the noise multiplier, every client counted twice": _scaled(2.0),
    "one upload in ten counted twice": _scaled(1.1),
    "drawn with replacement, one_draw": lambda random, size: MU * random.poisson(1.0, size),
}


def main() -> None:
    """Prints a row per bug: how often the claim is contradicted, by the number of tests."""
    audits = int(sys.argv[1]) if len(sys.argv) > 1 else 200
    random = np.random.default_rng(0)
    claim = epsilon_of_mu(MU, DELTA)
    print(f"| bug | {' | '.join(LEVELS)} |\n|---|---|---|")
    for bug, signals in SIGNALS.items():
        bounds = np.array([_bounds(random, signals) for _ in range(audits)])
        shares = " | ".join(f"{100 * share:.0f} %" for share in (bounds > claim).mean(axis=0))
        print(f"| {bug} | {shares} |", flush=True)


def _bounds(random: np.random.Generator, signals: Signals) -> list[float]:
    """The bounds by `threshold_valid` of one simulated audit, one per level."""
    num_included = int(random.binomial(CANARIES, 0.5))
    noise = random.normal(size=CANARIES)
    noise[:num_included] += signals(random, num_included)
    scores = noise / math.sqrt(DIM)
    canaries = CanaryScores(scores[:num_included], scores[num_included:])
    settings = (
        AuditSetting(canaries, DELTA, 1 - level, Null("closed_form", GaussianCanaryNull(DIM), DIM))
        for level in LEVELS.values()
    )
    return [METHODS["threshold_valid"](setting).epsilon for setting in settings]


if __name__ == "__main__":
    main()
