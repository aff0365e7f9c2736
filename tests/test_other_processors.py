"""The tests that look at digits pass on other processors, as far as this one can act so.

OpenBLAS takes the kernels of another processor, NumPy leaves its vector instructions aside, and
TensorFlow its oneDNN. What only a newer processor has (AVX-512) cannot be tried on an older one;
one that has it acts as SkylakeX too.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent

DIGITS = (
    "tests/canaries",
    "tests/recorded",
    "tests/checks",
    "tests/test_inner_products.py",
)
"""The tests whose digits come from long vectors, or that compare printed ones."""

NO_VECTORS = "SSSE3 SSE41 POPCNT SSE42 AVX F16C FMA3 AVX2 AVX512F AVX512CD AVX512_SKX AVX512_CLX"

CPU = Path("/proc/cpuinfo").read_text() if Path("/proc/cpuinfo").exists() else ""

PROCESSORS = {
    "Prescott": {"OPENBLAS_CORETYPE": "Prescott"},
    "Sandybridge": {"OPENBLAS_CORETYPE": "Sandybridge"},
    "Haswell": {"OPENBLAS_CORETYPE": "Haswell"},
    "Zen or SkylakeX": {"OPENBLAS_CORETYPE": "SkylakeX" if "avx512f" in CPU else "Zen"},
    "no vectors in NumPy, no oneDNN": {
        "NPY_DISABLE_CPU_FEATURES": NO_VECTORS,
        "TF_ENABLE_ONEDNN_OPTS": "0",
    },
}


@pytest.mark.slow
@pytest.mark.parametrize("processor", PROCESSORS)
def test_digits_are_those_of_another_processor(processor):
    command = [sys.executable, "-W", "ignore", "-m", "pytest", "-q", "-p", "no:cacheprovider"]
    done = subprocess.run(
        [*command, *DIGITS],
        cwd=ROOT,
        env={**os.environ, **PROCESSORS[processor]},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-4000:]
