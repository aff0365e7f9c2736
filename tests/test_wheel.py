"""The wheel: it holds every file of the package, and works where it is installed."""

import re
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from fl_audit import __version__

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    folder = tmp_path_factory.mktemp("wheel")
    build = f"from setuptools import build_meta; build_meta.build_wheel({str(folder)!r})"
    # A copy: setuptools leaves build/ and *.egg-info beside what it builds.
    source = folder / "source"
    for name in (*_files_of_the_package(), "pyproject.toml", "setup.cfg", "README.md"):
        (source / name).parent.mkdir(parents=True, exist_ok=True)
        (source / name).write_bytes((ROOT / name).read_bytes())
    subprocess.run([sys.executable, "-c", build], cwd=source, check=True, capture_output=True)
    (built,) = folder.glob("fl_audit-*.whl")
    return built


def _files_of_the_package():
    """Their names in the tree, which need not be one of Git; without what Python keeps in it."""
    files = [path for path in (ROOT / "fl_audit").rglob("*") if path.is_file()]
    return [str(p.relative_to(ROOT)) for p in files if p.parent.name != "__pycache__"]


def test_every_file_of_the_package_is_in_the_wheel(wheel):
    in_tree = set(_files_of_the_package())
    assert len(in_tree) > 200
    assert in_tree <= set(zipfile.ZipFile(wheel).namelist())


def test_wheel_citation_and_changes_are_of_one_version(wheel):
    assert wheel.name.split("-")[1] == __version__
    assert f"\nversion: {__version__}\n" in (ROOT / "CITATION.cff").read_text()
    newest = re.search(r"^## (\S+)$", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert newest is not None and newest[1] == __version__


def test_an_installed_wheel_answers_without_the_checkout(wheel, tmp_path):
    zipfile.ZipFile(wheel).extractall(tmp_path / "site")
    numbers = ["--fn=35", "--tp=65", "--fp=25", "--tn=75", "--delta=0.05", "--confidence=0.95"]
    answer = subprocess.run(
        [sys.executable, "-m", "fl_audit", "counts", *numbers, "--json"],
        cwd=tmp_path,
        env={"PYTHONPATH": "site"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert '"bayes": [0.52' in answer.stdout, answer.stderr


@pytest.mark.slow
def test_type_checkers_see_the_types_of_an_installed_wheel(wheel, tmp_path):
    place = tmp_path / "site"
    zipfile.ZipFile(wheel).extractall(place)
    program = tmp_path / "program.py"
    program.write_text("from fl_audit.estimators import estimate\nreveal_type(estimate)\n")
    told = subprocess.run(
        [sys.executable, "-m", "mypy", "--ignore-missing-imports", str(program)],
        env={"MYPYPATH": "", "PYTHONPATH": str(place), "PATH": ""},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert "CanaryScores" in told.stdout and "Any" not in told.stdout.split("->")[0]
