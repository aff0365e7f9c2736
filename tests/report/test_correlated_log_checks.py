"""Checks of logs and loops whose folder says what correlates their noise."""

import json

import numpy as np
import pytest

from fl_audit.accounting.toeplitz import Toeplitz
from fl_audit.accounting.tree_nodes import Trees
from fl_audit.attacks import CanaryPool, RoundScorer
from fl_audit.canaries.pool import write_pool
from fl_audit.errors import InputError
from fl_audit.formats.folders import LogFolder
from fl_audit.formats.noise_correlation import read_correlation, write_correlation
from fl_audit.report.checks import folder_checks
from fl_audit.report.folder import AuditedFolder
from tests.checks.correlated_servers import BOUND, DIM, RIGHT, ROUNDS, WRONG, Server


def handed_over(path, server: Server, way: str):
    """The folder of a server, by a loop, by one that restarts, or by files."""
    pool = CanaryPool(seed=5, count=20, dim=DIM)
    bounds = BOUND * server.stddev / server.stddev[0]
    if way == "files":
        folder = LogFolder(path)
        folder.aggregates.mkdir(parents=True)
        write_pool(folder.pool, pool)
        for index, released in enumerate(server.released):
            np.save(folder.aggregates / f"round_{index + 1:06}.npy", released.astype(np.float32))
        np.save(folder.round_mechanism, np.stack([server.stddev, bounds], axis=1))
        if server.correlation is not None:
            write_correlation(folder, server.correlation)
        return path
    scorer = RoundScorer.create(path, pool, ROUNDS, noise_correlation=server.correlation)
    for index, released in enumerate(server.released):
        if way == "restarted loop" and index == 9:
            scorer = RoundScorer.open(path)
        scorer.score_round(
            index + 1,
            released.astype(np.float32),
            noise_stddev=server.stddev[index],
            norm_bound=bounds[index],
        )
    return path


def failed(path) -> set[str]:
    checks = folder_checks(AuditedFolder(path))
    assert checks is not None
    return {check.name for check in checks.results if not check.passed}


@pytest.mark.sampled(2)
@pytest.mark.parametrize("way", ["files", "loop", "restarted loop"])
@pytest.mark.parametrize("name", ["banded square root", "trees of 6 rounds"])
def test_a_right_one_passes(name, way, tmp_path):
    """Five checks of 6 folders: 3e-5 by the bounds, seeds fixed."""
    path = handed_over(tmp_path / "log", RIGHT[name](3), way)
    assert failed(path) == set()
    checks = folder_checks(AuditedFolder(path))
    assert checks is not None
    (enough,) = (check for check in checks.results if check.name == "enough_noise")
    assert enough.detectable_ratio > 0.9
    if way != "restarted loop":
        assert checks.not_checked is None


@pytest.mark.sampled(4)
@pytest.mark.parametrize("way", ["files", "loop"])
@pytest.mark.parametrize(
    "name",
    [
        "half the noise",
        "half the noise of a tree",
        "the stream begins again after a resume",
        "independent noise, accounted as correlated",
        "correlated noise, accounted as independent",
    ],
)
def test_a_wrong_one_is_found(name, way, tmp_path):
    make, check = WRONG[name]
    assert check in failed(handed_over(tmp_path / "log", make(3), way))


def test_a_round_that_comes_again(tmp_path):
    """The server goes back to round 7; what was whitened before is not taken for its past."""
    server = RIGHT["banded square root"](3)
    path = handed_over(tmp_path / "log", server, "loop")
    scorer = RoundScorer.open(path)
    for index in (*range(12), *range(7, ROUNDS)):
        released = server.released[index].astype(np.float32)
        scorer.score_round(index + 1, released, noise_stddev=server.stddev[0], norm_bound=BOUND)
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
