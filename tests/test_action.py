"""The shell lines of action.yml's steps are run, with the inputs that it declares."""

import os
import re
import subprocess
import sys
from pathlib import Path
from textwrap import dedent

import pytest

from fl_audit.attacks import CanaryPool, RoundScorer
from fl_audit.formats.round_chain import read_chain

ROOT = Path(__file__).parent.parent
ACTION = (ROOT / "action.yml").read_text(encoding="utf-8")


def lines_of(step: str) -> str:
    found = re.search(rf"- name: {step}\n(?: +.*\n)*? +run: \|\n((?: {{8}}.*\n)+)", ACTION)
    return dedent(found[1])


def variables_of(step: str, inputs: dict[str, str]) -> dict[str, str]:
    """The variables that a step takes from inputs, which have their defaults."""
    declared = dict(re.findall(r"^  (\w+):\n    description: .*\n    default: (.*)$", ACTION, re.M))
    inputs = {name: value.strip('"') for name, value in declared.items()} | inputs
    text = ACTION.partition(f"- name: {step}\n")[2].partition("- name:")[0]
    named = re.findall(r"(\w+): \$\{\{ inputs\.(\w+) \}\}", text)
    return {variable: inputs[name] for variable, name in named}


def audit(folder: Path, **inputs: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["bash", "-eo", "pipefail", "-c", lines_of("Audit")],
        env=os.environ | variables_of("Audit", inputs) | {"RUNNER_TEMP": str(folder)},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.fixture(scope="module")
def runner(tmp_path_factory):
    """A runner with the program of here, and the log of a training without noise."""
    folder = tmp_path_factory.mktemp("runner")
    program = folder / "fl-audit/bin/fl-audit"
    program.parent.mkdir(parents=True)
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -m fl_audit.cli "$@"\n')
    program.chmod(0o755)
    pool = CanaryPool(seed=5, count=100, dim=2000)
    scorer = RoundScorer.create(folder / "my log", pool, 1, [[1]] * pool.count)
    scorer.score_round(1, sum(pool.vector(c) for c in range(100) if pool.included[c]))
    scorer.finish()
    return folder


def test_a_contradicted_claim_fails_the_step(runner):
    log = str(runner / "my log")
    contradicted = audit(runner, path=log, options="--delta 1e-3 --claimed-epsilon 0.1")
    assert contradicted.returncode == 3, contradicted.stderr
    assert "CONTRADICTED" in contradicted.stdout
    assert audit(runner, path=log, options="--delta 1e-3").returncode == 0
    required = "--delta 1e-3 --claimed-epsilon 50 --require consistent"
    assert audit(runner, path=log, options=required).returncode == 4


def test_verify_of_a_log_needs_the_last_link(runner):
    log = runner / "my log"
    link = read_chain(log / "chain.jsonl").lines[-1].link
    for options, status in (("", 5), (f"--link {link}", 0)):
        verified = audit(runner, command="verify", path=str(log), options=options)
        assert verified.returncode == status, verified.stdout


def test_it_installs_the_package_beside_it(tmp_path):
    """Python is replaced by a program that lists its arguments: no network in a test."""
    python = tmp_path / "python3"
    python.write_text(
        f'#!/bin/sh\necho "$@" >> {tmp_path}/calls\nmkdir -p {tmp_path}/fl-audit/bin\n'
        f'cp "$0" {tmp_path}/fl-audit/bin/python 2>/dev/null || true\n'
    )
    python.chmod(0o755)
    variables = {"PATH": f"{tmp_path}:{os.environ['PATH']}", "RUNNER_TEMP": str(tmp_path)}
    subprocess.run(
        ["bash", "-e", "-c", lines_of("Install")],
        env=os.environ | variables | {"ACTION": str(ROOT)},
        check=True,
    )
    assert (tmp_path / "calls").read_text().splitlines() == [
        f"-m venv {tmp_path}/fl-audit",
        f"-m pip install --quiet {ROOT}",
    ]
