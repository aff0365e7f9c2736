"""Training and scoring on a GPU: `python benchmarks/gpu.py`, unattended.

It needs TensorFlow 2.14 or later, built for CUDA, and NumPy, but no data set and no network, and
says what is missing. Without a GPU it runs on the CPU, with smaller sizes. Every number is printed
after a check that the result is correct; a row that does not fit in memory says so.
"""

import argparse
import importlib.util
import os
import sys
from pathlib import Path

NO_TENSORFLOW = 2
"""Exit status."""


def main() -> int:
    """Prints the tables."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument(
        "--seconds", type=float, default=900.0, help="begin no row after this time (900)"
    )
    parser.add_argument("--small", action="store_true", help="tiny sizes, to try the script")
    arguments = parser.parse_args()
    missing = [name for name in ("numpy", "tensorflow") if not importlib.util.find_spec(name)]
    if missing:
        print(f"missing: {', '.join(missing)}; pip install 'tensorflow[and-cuda]>=2.14'")
        return NO_TENSORFLOW
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

    from benchmarks.device_tables import print_tables

    return 0 if print_tables(arguments.seconds, arguments.small) else 1


if __name__ == "__main__":
    sys.exit(main())
