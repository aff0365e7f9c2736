"""The script for a GPU machine, without a GPU and without what such a machine may lack."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
ABSENT = (
    "tensorflow_federated",
    "tensorflow_privacy",
    "msgspec",
    "scipy",
    "sklearn",
    "dp_accounting",
)

RUN = """
import runpy, sys
for name in {absent!r}:
    sys.modules[name] = None
sys.argv = ["gpu.py", "--small"]
sys.path[:] = [place for place in sys.path if place not in ("", {root!r})]
runpy.run_path({script!r}, run_name="__main__")
"""


def run_without(*absent: str) -> subprocess.CompletedProcess[str]:
    script = str(ROOT / "benchmarks" / "gpu.py")
    program = RUN.format(absent=absent, root=str(ROOT), script=script)
    return subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False, timeout=300
    )


@pytest.mark.slow
def test_every_row_comes_out_with_tensorflow_and_numpy_alone():
    done = run_without(*ABSENT)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "No GPU: TensorFlow" in done.stdout
    assert "no number" not in done.stdout
    assert len(re.findall(r"^4 clients, \d at once +[\d.]+ ", done.stdout, re.M)) == 2
    assert re.search(r"^d = 1,000, k = 2,000 .* times \(", done.stdout, re.M)


def test_without_tensorflow_it_says_so_in_a_line():
    done = run_without("tensorflow")
    assert done.returncode == 2
    assert done.stdout.splitlines() == [
        "missing: tensorflow; pip install 'tensorflow[and-cuda]>=2.14'"
    ]
