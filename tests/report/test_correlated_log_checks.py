"""Checks of logs and loops whose folder says what correlates their noise."""

import json

import numpy as np
import pytest

from fl_audit.accounting.toeplitz import Toeplitz
from fl_audit.accounting.tree_nodes import Trees
from fl_audit.attacks import CanaryPool, RoundScorer
from fl_audit.errors import InputError
from fl_audit.formats.folders import LogFolder
from fl_audit.formats.noise_correlation import read_correlation, write_correlation
from fl_audit.report.checks import folder_checks
from fl_audit.report.folder import AuditedFolder
from tests.checks.correlated_servers import DIM, RIGHT, ROUNDS
from tests.checks.told_servers import Server


def score(scorer, server: Server, rounds) -> None:
    for index in rounds:
        scorer.score_round(
            index + 1,
            server.released[index].astype(np.float32),
            noise_stddev=server.stddev[index],
            norm_bound=server.bound[index],
        )


def failed(path) -> set[str]:
    checks = folder_checks(AuditedFolder(path))
    assert checks is not None
    return {check.name for check in checks.results if not check.passed}


@pytest.mark.parametrize("name", ["banded square root", "trees of 6 rounds"])
def test_a_loop_that_restarts_and_goes_back_passes(name, tmp_path):
    """What was whitened before is not taken for the past of a round that comes again."""
    server, path = RIGHT[name](3), tmp_path / "log"
    pool = CanaryPool(seed=5, count=20, dim=DIM)
    scorer = RoundScorer.create(path, pool, ROUNDS, noise_correlation=server.correlation)
    score(scorer, server, range(9))
    score(RoundScorer.open(path), server, range(9, ROUNDS))
    assert failed(path) == set()
    score(RoundScorer.open(path), server, (*range(12), *range(7, ROUNDS)))
    assert failed(path) == set()


@pytest.mark.parametrize(
    "correlation", [Toeplitz((2.0, 1.0, 0.25), 9), Trees(9), Trees(9, 4)], ids=str
)
def test_what_is_written_is_read(correlation, tmp_path):
    write_correlation(LogFolder(tmp_path), correlation)
    assert read_correlation(LogFolder(tmp_path), 9) == correlation


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ({}, "first_column"),
        ({"first_column": []}, "first_column must have an entry"),
        ({"first_column": [0.0, 1.0]}, "the first of them above 0"),
        ({"first_column": [1.0], "bands": 2}, "bands"),
        ({"tree_rounds": 0}, "at least 1 or null"),
        ({"tree_rounds": "all"}, "must be a whole number"),
    ],
)
def test_a_file_that_says_no_strategy(content, message, tmp_path):
    folder = LogFolder(tmp_path)
    folder.noise_correlation.write_text(json.dumps(content))
    with pytest.raises(InputError, match=message):
        read_correlation(folder, 9)
