"""The script for a GPU machine, without a GPU and without what such a machine may lack."""

import ast
import itertools
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
ABSENT = (
    "tensorflow",
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
def test_every_row_comes_out_with_jax_and_numpy_alone():
    done = run_without(*ABSENT)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "No accelerator" in done.stdout
    assert "no number" not in done.stdout
    assert len(re.findall(r"^4 clients, \d at once +[\d.e+]+ ", done.stdout, re.M)) == 2
    assert re.search(r"^bfloat16, 4 at once +[\d.e+]+ ", done.stdout, re.M)
    assert re.search(r"^audited round over unaudited +[\d.]+ \(", done.stdout, re.M)
    for family in ("50 hadamard", "4 gaussian"):
        assert re.search(rf"^{family}, on the device +[\d.]+ \w+, on the host ", done.stdout, re.M)
    assert re.search(r"^training of 10 x 342,000 such clients: [\d.,]+ hours", done.stdout, re.M)


def imports_when_run(tree: ast.AST) -> Iterator[ast.AST]:
    """All nodes but those in functions and under `if TYPE_CHECKING`."""
    for node in ast.iter_child_nodes(tree):
        is_typing = isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test)
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and not is_typing:
            yield node
            yield from imports_when_run(node)


def imported(file: Path) -> Iterator[str]:
    """The names that a file imports as it is imported, each with the packages that it stands in."""
    for node in imports_when_run(ast.parse(file.read_text())):
        names = []
        if isinstance(node, ast.ImportFrom):
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        elif isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        for name in names:
            yield from itertools.accumulate(name.split("."), "{}.{}".format)


def test_what_it_imports_needs_no_more():
    """Read, not run; the test above runs it."""
    ahead, seen = ["benchmarks.jax_rounds"], set()
    while ahead:
        name = ahead.pop()
        seen.add(name)
        place = ROOT.joinpath(*name.split("."))
        for file in (place.with_suffix(".py"), place / "__init__.py"):
            if file.exists():
                ahead += set(imported(file)) - seen
    assert "fl_audit.engines.jax.device_blocks" in seen
    assert not seen & set(ABSENT)


def test_without_jax_it_says_so_in_a_line():
    done = run_without("jax")
    assert done.returncode == 2
    assert done.stdout.splitlines() == ["missing: jax; pip install 'jax[cuda12]'"]
