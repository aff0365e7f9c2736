"""Logs and scores of other systems beside finished runs."""

import json

import numpy as np
import pytest

from fl_audit.attacks import CanaryPool, RoundScorer
from fl_audit.cli import main
from tests.comparison.conftest import MakeRun


@pytest.fixture
def audit(tmp_path):
    random, pool = np.random.default_rng(1), CanaryPool(seed=1, count=100, dim=2000)
    scorer = RoundScorer.create(tmp_path / "audit", pool, 2)
    together = sum(pool.vector(int(canary)) for canary in np.flatnonzero(pool.included))
    for number in (1, 2):
        scorer.score_round(number, together + random.normal(0, 1, 2000))
    return scorer.folder.path


def compared(capsys, *argv: object) -> dict:
    assert main(["compare", *map(str, argv), "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def test_a_log_stands_beside_runs_without_what_it_does_not_know(
    make_run: MakeRun, audit, tmp_path, capsys
):
    first = make_run("quiet", {"config.mechanism.noise_multiplier": 0.1})
    second = make_run("loud")
    alone = compared(capsys, first, second)
    page = tmp_path / "compare.html"
    made = compared(capsys, first, audit, second, "--delta", "1e-3", "--out", page)
    # The runs keep their names and their order; the log comes last, named as its folder.
    assert [s["label"] for s in made["settings"]] == [
        *(s["label"] for s in alone["settings"]),
        str(audit),
    ]
    assert made["differing_keys"] == alone["differing_keys"]
    other = made["settings"][-1]
    assert (other["accuracy"], other["noise_multiplier"], other["keys"]) == (None, None, {})
    assert other["analytical"] == {"client": None, "canary": None}
    main(["estimate", str(audit), "--delta", "1e-3", "--json"])
    estimated = json.loads(capsys.readouterr().out)
    by_folder = {run["folder"]: run["report"] for run in made["runs"]}
    assert by_folder[str(audit)] == estimated
    for name, statistic in estimated["statistics"].items():
        for estimate in statistic["estimates"]:
            spread = other["statistics"][name][estimate["method"]]
            assert spread["values"] == [estimate["epsilon"]]
    assert any("Scores of another system" in warning for warning in made["warnings"])
    assert str(audit) in page.read_text()


def test_lines_say_what_is_not_known(make_run: MakeRun, audit, capsys):
    assert main(["compare", str(make_run("run")), str(audit)]) == 0  # at the run's delta
    lines = capsys.readouterr().out.splitlines()
    row = next(line for line in lines if line.startswith(str(audit)))
    assert row.split()[1:] == ["1", "2", "–", "–", "–", "none", "known", "none", "known"]


def test_logs_alone_need_a_delta(audit, tmp_path, capsys):
    other = tmp_path / "other"
    audit.rename(other)
    copy = tmp_path / "scores"
    copy.mkdir()
    (copy / "scores_mine.csv").write_text("canary_id,included,score\na,1,2\nb,0,1\nc,1,3\nd,0,0\n")
    assert main(["compare", str(other), str(copy)]) == 2
    assert f"--delta: is needed for {other}, which has no report of a run" in (
        capsys.readouterr().err
    )
    page = tmp_path / "page.html"
    made = compared(capsys, other, copy, "--delta", "1e-3", "--out", page)
    assert [s["label"] for s in made["settings"]] == [str(other), str(copy)]
    assert "Privacy against accuracy" not in page.read_text()
