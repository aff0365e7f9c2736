"""Speed of the estimators against what a user would run instead; `make bench` runs it.

Every race checks first that both sides give the same result. Times are wall times; a ratio is of
two times taken one after the other, and its range is over turns.
"""

import itertools
import math
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

from benchmarks.equality import check
from benchmarks.peers import double_quadrature, steinke_pseudocode
from benchmarks.timing import Race, race, seconds, wall_time
from fl_audit.estimators import METHODS, CanaryScores
from fl_audit.estimators.challenge_bases import ChainSettings, ChallengeCounts, posterior
from fl_audit.estimators.counts import ConfusionCounts, EpsilonPosterior
from fl_audit.estimators.one_run.bound import epsilon_lower_bound
from fl_audit.estimators.one_run.guesses import (
    best_guesses,
    correct_among_bottom,
    correct_among_top,
)

WORKED_EXAMPLE = ConfusionCounts(
    false_negatives=35, true_positives=65, false_positives=25, true_negatives=75
)
"""The example of Zanella-Béguelin et al. (2022), section 3.2; delta is 0.05, confidence 95 %."""


def main() -> None:
    """Prints the table."""
    print(f"{'':58}{'ours':>10}  {'peer':>10}  how many times as fast (range)")
    show("Bayesian interval, against the authors' way (dblquad)", bayesian_interval())
    show("  against dblquad by hand, to 1e-8", bayesian_interval_by_hand())
    show("One-run scan of 2,003,001 pairs, against 6 by pseudocode", one_run_scan())
    show("Grid posterior of 20 bases, against our Markov chain", grid_posterior())
    for num in (2000, 1_000_000):
        took = estimate_command(num)
        print(f"fl-audit estimate, {len(METHODS)} methods, {num:,} scores: {seconds(took)}")


def show(name: str, result: Race) -> None:
    """Prints one line of the table."""
    print(f"{name:58}{result}", flush=True)


def bayesian_interval() -> Race:
    """Races the interval of the example; the authors' tolerances are 0.005 and 0.01, ours 1e-8."""
    ours, theirs = _bayes(), double_quadrature.interval(WORKED_EXAMPLE, 0.05, 0.95)
    check(ours.lower, theirs.lower, 0.01)
    check(ours.upper, theirs.upper, 0.01)
    return race(
        _bayes, lambda: double_quadrature.interval(WORKED_EXAMPLE, 0.05, 0.95), turns=3, laps=50
    )


def bayesian_interval_by_hand() -> Race:
    """Races the same interval at equal accuracy, the peer without scipy.stats' slow densities."""

    def peer() -> double_quadrature.Interval:
        return double_quadrature.interval_by_hand(WORKED_EXAMPLE, 0.05, 0.95, 1e-8, 1e-8)

    check(_bayes().upper, peer().upper, 1e-6)
    return race(_bayes, peer, turns=3, laps=50)


def _bayes() -> double_quadrature.Interval:
    return EpsilonPosterior(WORKED_EXAMPLE, 0.05).interval(0.95)


def one_run_scan() -> Race:
    """Races all k+ and k- of 2,000 canaries against six pairs by the paper's appendix D."""
    rng = np.random.default_rng(1)
    bits = rng.integers(0, 2, 2000)
    values = 2 * bits + rng.standard_normal(2000)
    scores = CanaryScores(values[bits == 1], values[bits == 0])
    delta, confidence, m = 1e-5, 0.95, 2000
    top, bottom = correct_among_top(scores), correct_among_bottom(scores)
    pairs = [p for p in itertools.product((50, 100, 200), repeat=2) if p[0] <= p[1]]

    def peer() -> float:
        return max(
            steinke_pseudocode.eps_lower_bound(m, k + j, int(top[k] + bottom[j]), delta, confidence)
            for k, j in pairs
        )

    def ours() -> float:
        best = best_guesses(scores, delta, confidence)
        return epsilon_lower_bound(m, best.total, best.correct, delta, confidence)

    for k, j in pairs[:2]:
        right = int(top[k] + bottom[j])
        pseudocode = steinke_pseudocode.eps_lower_bound(m, k + j, right, delta, confidence)
        check(epsilon_lower_bound(m, k + j, right, delta, confidence), pseudocode, 1e-6)
    if ours() < peer() - 1e-6:
        raise SystemExit("the scan over all pairs found less than six pairs of them")
    return race(ours, peer, turns=2, laps=3)


def grid_posterior() -> Race:
    """Races the posterior of 20 bases of 100 + 100 challenges against chains of 20,000 draws."""
    rng = np.random.default_rng(2)
    hundred = np.full(20, 100)
    counts = ChallengeCounts(
        rng.binomial(100, 0.1, 20), hundred, rng.binomial(100, 0.4, 20), hundred
    )
    exact = posterior(counts, 1e-3)
    chain = posterior(counts, 1e-3, method="mhaar", settings=ChainSettings(), seed=3)
    if chain.ess is None:
        raise SystemExit("a chain without an effective sample size")
    spread = (exact.epsilon.upper - exact.epsilon.lower) / 3.29
    check(exact.epsilon.mean, chain.epsilon.mean, 5 * spread / math.sqrt(chain.ess))
    return race(
        lambda: posterior(counts, 1e-3),
        lambda: posterior(counts, 1e-3, method="mhaar", settings=ChainSettings(), seed=3),
        turns=3,
    )


def estimate_command(num: int) -> float:
    """The seconds that the command takes on a file, its start included."""
    rng = np.random.default_rng(3)
    bits = rng.integers(0, 2, num)
    scores = (bits + rng.standard_normal(num)) / 2000
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "scores.csv"
        rows = zip(range(num), bits, scores.tolist(), strict=True)
        lines = ["canary_id,included,score", *(f"{i},{bit},{score!r}" for i, bit, score in rows)]
        path.write_text("\n".join(lines) + "\n")
        command = [sys.executable, "-m", "fl_audit.cli", "estimate", str(path)]
        options = ["--delta", "1e-6", "--dim", "4000000", "--json"]
        return wall_time(
            lambda: subprocess.run([*command, *options], check=True, stdout=subprocess.DEVNULL)
        )


if __name__ == "__main__":
    main()
