"""Canaries in a custom loop, and the programs of docs/any_process.md as they stand there."""

import ast
import os
import subprocess
import sys

import numpy as np
import pytest
import tensorflow as tf

from fl_audit import estimate
from fl_audit.attacks import CanaryPool, RoundScorer
from fl_audit.engines.tff.canary_clients import CanaryClients
from fl_audit.engines.tff.canary_process import canary_dim
from fl_audit.engines.tff.compiled import LocalContext, local_runtime
from fl_audit.errors import InputError
from fl_audit.formats.score_file import read_score_file
from fl_audit.report.checks import folder_canary_check, folder_checks
from fl_audit.report.folder import AuditedFolder, folder_statistics
from tests.engines.tff.test_arrival_story import process_with
from tests.started_programs import left_of
from tests.tests_of_docs import ROOT, blocks

pytestmark = pytest.mark.tff


def _programs() -> list[str]:
    return blocks((ROOT / "docs/any_process.md").read_text(), "python")


@pytest.fixture(scope="module")
def process():
    return process_with(None, dim=5)


@pytest.fixture(scope="module")
def pool(process):
    return CanaryPool(seed=3, count=40, dim=canary_dim(process))


def test_every_included_canary_takes_part_in_a_round_of_each_part(process, pool):
    canaries = CanaryClients(process, pool, 12, norm=1.0, repeats=3)
    again = CanaryClients(process, pool, 12, norm=1.0, repeats=3)
    included = np.flatnonzero(pool.included).tolist()
    for part in range(3):
        rounds = range(4 * part + 1, 4 * part + 5)
        assert sorted(c for r in rounds for c in canaries.in_round(r)) == included
        assert all(np.array_equal(again.in_round(r), canaries.in_round(r)) for r in rounds)
    assert len({len(canaries.in_round(r)) for r in range(1, 13)}) > 1


def test_a_round_is_its_clients_and_then_its_canaries_with_no_examples(process, pool):
    canaries = CanaryClients(process, pool, 2, norm=7.0)
    client = tf.data.Dataset.from_tensors((tf.ones([2, 5]), tf.ones([2, 1])))
    real, *others = canaries.join(2, [client])
    assert real["examples"] is client
    assert not list(real["canary"])
    assert len(others) == len(canaries.in_round(2)) > 0
    for data, canary in zip(others, canaries.in_round(2), strict=True):
        assert not list(data["examples"])
        (vector,) = data["canary"]
        np.testing.assert_array_equal(vector, 7.0 * pool.vector(canary))


@pytest.mark.parametrize(
    ("changed", "mistake"),
    [
        ({"repeats": 0}, r"^repeats: must be in 1 to num_rounds \(4\), got 0$"),
        ({"repeats": 5}, r"^repeats: must be in 1 to num_rounds \(4\), got 5$"),
        ({"norm": 0.0}, "^norm: must be positive and finite, got 0.0$"),
        ({"norm": float("inf")}, "^norm: must be positive and finite, got inf$"),
        ({"pool": CanaryPool(seed=0, count=4, dim=6)}, "^pool: must have dim 5 .* got 6$"),
    ],
)
def test_mistakes_are_named(process, pool, changed, mistake):
    arguments = {"pool": pool, "num_rounds": 4, "norm": 1.0} | changed
    with pytest.raises(InputError, match=mistake):
        CanaryClients(process, **arguments)


@pytest.mark.parametrize("round_number", [0, 5])
def test_there_is_no_such_round(process, pool, round_number):
    with pytest.raises(InputError, match=r"^round_number: must be in 1 to 4 \(num_rounds\), got"):
        CanaryClients(process, pool, 4, norm=1.0).in_round(round_number)


@pytest.mark.slow
def test_the_documents_process_in_its_program_runs_and_finds_the_canaries(tmp_path, monkeypatch):
    """The page's composed process takes the place of the program's own, under Python's runtime."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(
        "fl_audit.training.native_runtime", lambda: local_runtime(LocalContext(num_threads=2))
    )
    program, composed, correlated = map(ast.parse, _programs())
    (at,) = (
        index
        for index, node in enumerate(program.body)
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "process"
    )
    program.body[at : at + 1] = composed.body
    names: dict[str, object] = {}
    exec(compile(program, "docs/any_process.md", "exec"), names)
    scores, pool = (names[name] for name in ("scorer", "pool"))
    assert scores.scored_rounds == list(range(1, 21))
    cosines = np.load(tmp_path / "audit_log" / "round_cosines.npy")
    present = np.zeros_like(cosines, bool)
    for round_number in range(1, 21):
        present[round_number - 1, names["canaries"].in_round(round_number)] = True
    assert present.any(axis=0).tolist() == pool.included.tolist()
    # In its round a canary is 0.3 / 15 of an aggregate whose noise alone has length 0.15
    # (0.3 * 0.3 / 15 * 650^0.5): a cosine of about 0.1 with it, where the null deviates by 0.04.
    # The mean of about 100 has standard error 0.004: it is below 0.06 with probability 1e-15.
    assert cosines[present].mean() > 0.06
    assert abs(cosines[~present].mean()) < 0.01
    for statistic in ("final", "final_minus_initial", "max", "sum", "own_rounds"):
        scored = read_score_file(tmp_path / "audit_log" / f"scores_{statistic}.csv")
        methods = [row["method"] for row in estimate(scored.canary_scores(), delta=1e-3).records()]
        assert "threshold_valid" in methods
    exec(compile(correlated, "docs/any_process.md", "exec"), names)
    folder = AuditedFolder(tmp_path / "ftrl_log")
    assert folder_canary_check(folder, folder_statistics(folder)).state == "arrived"
    checks = {check.name: check.passed for check in folder_checks(folder).results}
    assert checks["enough_noise"]
    assert checks["fresh_noise"]


@pytest.mark.slow
def test_the_documents_whole_program_ends_and_leaves_no_worker(tmp_path):
    """What reads its output waits for all that may write to it; stock TFF's worker stays behind."""
    whole, *_ = _programs()
    (tmp_path / "audit.py").write_text(whole)
    mark, root = tmp_path / "mark", str(ROOT)
    ended = subprocess.run(
        f"{sys.executable} audit.py | cat",
        shell=True,
        cwd=tmp_path,
        env={
            **os.environ,
            "FL_AUDIT_TEST_MARK": str(mark),
            "PYTHONPATH": root,
        },
        capture_output=True,
        text=True,
        timeout=500,
        check=True,
    )
    assert ended.stdout.splitlines()[-1] == "round 20 of 20", ended.stderr
    assert not left_of(mark)
    assert RoundScorer.open(tmp_path / "audit_log").scored_rounds == list(range(1, 21))
    scores = read_score_file(tmp_path / "audit_log" / "scores_own_rounds.csv")
    # As above: included canaries have a mean of about 0.1 with a standard error of 0.004.
    assert scores.score[scores.included].mean() > 0.06
