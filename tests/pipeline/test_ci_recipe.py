"""The recipe of docs/ci.md: the shell lines of its steps are run, on a run that they train."""

import os
import re
import subprocess
import sys
from pathlib import Path
from textwrap import dedent
from xml.etree import ElementTree as ET

import pytest

from tests.small_configs import TINY_RUN
from tests.tests_of_docs import ROOT, blocks


def _steps():
    """The lines of each step that has some, by the step's name."""
    recipe, _ = blocks((ROOT / "docs/ci.md").read_text(encoding="utf-8"), "yaml")
    found = re.findall(r"- name: (.*)\n +run: \|\n((?: {10}.*\n)+)", recipe)
    return {name: dedent(lines) for name, lines in found}


def _run(step, folder, **variables):
    return subprocess.run(
        ["bash", "-e", "-c", _steps()[step]],
        cwd=folder,
        env={**os.environ, **variables},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.fixture(scope="module")
def repository(tmp_path_factory):
    """A repository with a claim that a noiseless run contradicts, and the environment of here."""
    folder = tmp_path_factory.mktemp("repository")
    config = TINY_RUN.replace("count = 8", "count = 60") + "claimed_epsilon = 0.5\n"
    (folder / "audit.toml").write_text(config)
    return folder


def test_install_takes_the_lock_and_the_package(repository):
    """Programs list what pip is asked for and link what git clones: no network, no git."""
    tools = repository / "tools"
    tools.mkdir()
    lists = 'mkdir -p .venv/bin\necho "$@" >> pip.log\ncp "$0" .venv/bin/python 2>/dev/null || true'
    for name, script in {"python": lists, "git": 'ln -s "$FL_AUDIT" fl_audit'}.items():
        (tools / name).write_text(f"#!/bin/sh\n{script}\n")
        (tools / name).chmod(0o755)
    path = f"{tools}:{os.environ['PATH']}"
    done = _run("Install", repository, PATH=path, FL_AUDIT=str(ROOT))
    assert done.returncode == 0, done.stderr
    made = (repository / "pip.log").read_text()
    for named in re.findall(r"(?:-r )?(\.?/?fl_audit\S*)", made):
        assert (repository / named).exists(), named
    (repository / ".venv/bin/python").unlink()


@pytest.mark.slow
@pytest.mark.tff
def test_a_contradicted_claim_fails_the_step_and_shows_as_a_failed_test(repository):
    (repository / ".venv/bin").mkdir(parents=True, exist_ok=True)
    (repository / ".venv/bin/fl-audit").symlink_to(Path(sys.executable).with_name("fl-audit"))
    done = _run("Train and audit", repository)
    assert done.returncode == 3, done.stderr
    root = ET.parse(repository / "audit.xml").getroot()
    failed = [
        case.get("name") for case in root.iter("testcase") if case.find("failure") is not None
    ]
    assert failed == ["claim"]
    assert "CONTRADICTED" in root.find(".//failure").get("message")
    again = _run("Test the claim again, at the folder's own delta", repository)
    assert again.returncode in (3, 4), again.stderr
    assert '"delta": 0.001' in (repository / "audit.json").read_text()
