"""The experiments that take under a minute each run, as `make experiments-small` does."""

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def commands() -> list[str]:
    """The Python commands of the Makefile's target, without what stands for the interpreter."""
    text = (ROOT / "Makefile").read_text()
    target = text.split("\nexperiments-small:")[1].split("\n\n")[0]
    return re.findall(r"\$\(BIN\)/python (.+)", target)


def test_the_target_names_scripts_that_exist():
    found = commands()
    assert len(found) >= 5
    for command in found:
        words = shlex.split(command)
        script = words[1].replace(".", "/") + ".py" if words[0] == "-m" else words[0]
        assert (ROOT / script).exists(), command


@pytest.mark.slow
@pytest.mark.parametrize("command", commands())
def test_it_runs(command, tmp_path):
    words = [word.replace("$(PICTURES)", str(tmp_path)) for word in shlex.split(command)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "MPLCONFIGDIR": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, *words],
        check=False,
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert len(done.stdout) > 200
