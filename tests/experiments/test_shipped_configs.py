"""Configs that come with the repository need nothing from outside it."""

import csv
import gzip
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

from fl_audit.config.file import load_config

ROOT = Path(__file__).parents[2]
TOMLS = sorted(
    path
    for folder in ("docs", "examples", "experiments", "fl_audit", "tests")
    for path in (ROOT / folder).rglob("*.toml")
)
RUNS = [path for path in TOMLS if {"task", "participation"} <= set(tomllib.loads(path.read_text()))]
MADE_BY_A_COMMAND = [
    ROOT / "experiments" / name / "stand_in" for name in ("stackoverflow", "emnist")
]
"""Folders that a script writes; the README beside it has the command."""


def _paths(table: dict[str, object]) -> Iterator[str]:
    for key, value in table.items():
        if isinstance(value, dict):
            yield from _paths(value)
        elif key in ("path", "held_out", "word_counts", "base", "folder", "log"):
            yield str(value)


@pytest.mark.parametrize("config", TOMLS, ids=lambda path: str(path.relative_to(ROOT)))
def test_files_that_a_config_names_are_here(config):
    for named in _paths(tomllib.loads(config.read_text(encoding="utf-8"))):
        path = (config.parent / named).resolve()
        assert path.is_relative_to(ROOT), f"{named} is outside the repository"
        assert path.exists() or any(path.is_relative_to(made) for made in MADE_BY_A_COMMAND), named


@pytest.mark.parametrize("config", RUNS, ids=lambda path: str(path.relative_to(ROOT)))
def test_shipped_runs_are_valid(config):
    load_config(config)


def test_the_plays_are_those_that_the_readme_describes():
    path = ROOT / "experiments/shakespeare/shakespeare.csv.gz"
    assert path.stat().st_size < 500_000
    with gzip.open(path, "rt", encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 7_097
    assert len({row["client_id"] for row in rows}) == 299
    assert sum(len(row["text"].split()) for row in rows) == 192_828
