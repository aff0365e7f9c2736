"""The rate at which each lower bound exceeds 0 where nothing leaks: scores are pure noise."""

import numpy as np

from fl_audit.estimators import CanaryScores, estimate

METHODS = [
    "threshold_valid",
    "one_run_valid",
    "threshold_gdp",
    "one_run_fdp",
    "threshold_jeffreys",
    "threshold_clopper_pearson",
    "one_run",
]
RUNS = 200


def main() -> None:
    """Prints a row per number of canaries and delta: the share of runs with a bound above 0."""
    random = np.random.default_rng(0)
    print(f"| canaries | δ | {' | '.join(METHODS)} |")
    print("|---" * (len(METHODS) + 2) + "|")
    for num_canaries, delta in ((120, 1e-3), (500, 1e-3), (500, 1e-5), (1000, 1e-5)):
        above_zero = np.zeros(len(METHODS))
        for _ in range(RUNS):
            scores = random.normal(size=num_canaries)
            included = random.random(num_canaries) < 0.5
            canaries = CanaryScores(scores[included], scores[~included])
            result = estimate(canaries, delta=delta, methods=METHODS)
            above_zero += [e.epsilon > 0 for e in result.estimates]
        shares = " | ".join(f"{100 * share:.1f} %" for share in above_zero / RUNS)
        print(f"| {num_canaries} | {delta:g} | {shares} |")


if __name__ == "__main__":
    main()
