"""How often each one-run bound exceeds 0 where nothing leaks: scores are pure noise."""

import numpy as np

from fl_audit.estimators import CanaryScores, estimate

METHODS = ["one_run", "one_run_valid"]
RUNS = 200


def main() -> None:
    """Prints a row per number of canaries and delta: the share of runs with a bound above 0."""
    random = np.random.default_rng(0)
    print("canaries  delta  " + "  ".join(METHODS))
    for num_canaries, delta in ((120, 1e-3), (500, 1e-3), (500, 1e-5), (1000, 1e-5)):
        above_zero = np.zeros(len(METHODS))
        for _ in range(RUNS):
            scores = random.normal(size=num_canaries)
            included = random.random(num_canaries) < 0.5
            canaries = CanaryScores(scores[included], scores[~included])
            result = estimate(canaries, delta=delta, methods=METHODS)
            above_zero += [e.epsilon > 0 for e in result.estimates]
        shares = "  ".join(f"{share:.3f}" for share in above_zero / RUNS)
        print(f"{num_canaries:8}  {delta:g}  {shares}")


if __name__ == "__main__":
    main()
