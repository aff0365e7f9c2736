"""Replays the DP features of libraries, and prints a row for each; exits 1 if any is a surprise.

python -m experiments.in_the_wild.run flower opacus pfl optax
python -m experiments.in_the_wild.run tensorflow_privacy
"""

import importlib
import sys
import time
import warnings

from experiments.in_the_wild.feature import released_as, replayed

EXPECTED = {
    "fedml": ("held", "violated", "violated"),
    "flower": ("held", "violated", "held", *5 * ("violated",)),
    "jax_privacy": 7 * ("held",),
    "opacus": 8 * ("held",),
    "optax": ("held",),
    "pfl": 3 * ("held",),
    "tensorflow_privacy": 6 * ("held",),
}
"""What a replay finds of each of a library's `FEATURES`, at the versions on the page."""


def main() -> int:
    """Prints a row for each feature of the libraries that are named."""
    warnings.simplefilter("ignore")
    is_expected = True
    print("| feature | of | outcome | found | cannot tell | s |\n|---|---|---|---|---|---|")
    for library in sys.argv[1:]:
        features = importlib.import_module(f"experiments.in_the_wild.{library}").FEATURES
        for feature, word in zip(features, EXPECTED[library], strict=True):
            before = time.process_time()
            outcome = replayed(feature)
            is_expected &= outcome.word == word
            found = "; ".join(f"`{name}`: {said}" for name, said in outcome.violated.items())
            seconds = time.process_time() - before
            print(
                f"| {feature.name} | {released_as(feature)} | {outcome.word} | {found} | "
                f"{', '.join(outcome.open)} | {seconds:.1f} |",
                flush=True,
            )
    return 0 if is_expected else 1


if __name__ == "__main__":
    sys.exit(main())
