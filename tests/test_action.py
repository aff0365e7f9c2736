"""The shell lines of action.yml's steps are run, with the inputs that it declares."""

import os
import re
import subprocess
from pathlib import Path
from textwrap import dedent

import pytest

from fl_audit import cli

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


@pytest.mark.parametrize(
    ("inputs", "expected"),
    [
        ({}, ["estimate", "my log"]),
        (
            {"options": "--delta 1e-3 --claimed-epsilon 8 --require consistent"},
            [
                *("estimate", "my log", "--delta", "1e-3", "--claimed-epsilon", "8"),
                *("--require", "consistent"),
            ],
        ),
        (
            {"command": "verify", "options": "--link 0f"},
            ["verify", "my log", "--link", "0f"],
        ),
    ],
)
@pytest.mark.parametrize("status", [0, 3])
def test_the_program_gets_its_words_and_its_status_is_that_of_the_step(
    tmp_path, inputs, expected, status
):
    """The program is replaced by one that lists its arguments; the real one's parser takes them."""
    program = tmp_path / "fl-audit/bin/fl-audit"
    program.parent.mkdir(parents=True)
    program.write_text(f"#!/bin/sh\nprintf '%s\\n' \"$@\"\nexit {status}\n")
    program.chmod(0o755)
    done = subprocess.run(
        ["bash", "-eo", "pipefail", "-c", lines_of("Audit")],
        env=os.environ
        | variables_of("Audit", {"path": "my log", **inputs})
        | {"RUNNER_TEMP": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout.splitlines()) == (status, expected)
    cli._parser().parse_args(expected)


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
