"""Training on an accelerator: `python benchmarks/gpu.py`, unattended, in under eight minutes.

It needs JAX and NumPy, but no data set and no network, and says what is missing. Without an
accelerator it runs on the CPU, with smaller sizes. Each row is printed as soon as it is measured,
training after a check against the CPU; a row that does not fit in memory says so.
"""

import argparse
import importlib.util
import sys
from pathlib import Path

NOT_INSTALLED = 2
"""Exit status."""


def main() -> int:
    """Prints the tables."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument(
        "--seconds", type=float, default=420.0, help="begin no row after this time (420)"
    )
    parser.add_argument("--small", action="store_true", help="tiny sizes, to try the script")
    arguments = parser.parse_args()
    missing = [name for name in ("jax", "numpy") if not importlib.util.find_spec(name)]
    if missing:
        print(f"missing: {', '.join(missing)}; pip install 'jax[cuda12]'")
        return NOT_INSTALLED
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

    from benchmarks.jax_rounds import print_tables

    return 0 if print_tables(arguments.seconds, arguments.small) else 1


if __name__ == "__main__":
    sys.exit(main())
