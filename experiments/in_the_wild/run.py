"""Replays the DP features of libraries, and prints a row for each.

python -m experiments.in_the_wild.run flower opacus pfl optax
python -m experiments.in_the_wild.run tensorflow_privacy
"""

import importlib
import sys
import time
import warnings

from experiments.in_the_wild.feature import released_as, replayed

warnings.simplefilter("ignore")


def main() -> None:
    """Prints a row for each feature of the libraries that are named."""
    print("| feature | of | outcome | found | cannot tell | s |\n|---|---|---|---|---|---|")
    for library in sys.argv[1:]:
        for feature in importlib.import_module(f"experiments.in_the_wild.{library}").FEATURES:
            before = time.process_time()
            outcome = replayed(feature)
            found = "; ".join(f"`{name}`: {said}" for name, said in outcome.violated.items())
            seconds = time.process_time() - before
            print(
                f"| {feature.name} | {released_as(feature)} | {outcome.word} | {found} | "
                f"{', '.join(outcome.open)} | {seconds:.1f} |",
                flush=True,
            )


if __name__ == "__main__":
    main()
