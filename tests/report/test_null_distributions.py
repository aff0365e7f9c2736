"""The null distribution of each statistic is the same in the report and in `fl-audit estimate
RUN`."""

import json

import numpy as np
import pytest

from fl_audit.attacks.compared_vectors import ComparedVectors, Vectors, write_compared_vectors
from fl_audit.attacks.threat_models import STATISTICS, statistics_of
from fl_audit.config.file import config_to_toml, parse_config
from fl_audit.estimators import Concentration
from fl_audit.formats.score_file import ScoreFile, read_score_file, write_score_file
from fl_audit.report import write_report
from fl_audit.report.finished_run import read_finished_run
from fl_audit.report.folder import AuditedFolder, folder_statistics
from fl_audit.report.terminal import summary_lines
from tests.attacks.toys import (
    FIRST_ROUND,
    SmallestAttacker,
    registered_attacker,
    registered_threat_model,
)
from tests.report.conftest import CONFIG, DIM, EVERY_THREAT_MODEL, ROUNDS, built

EVERY_MODEL = ["final", "final_and_initial", "all_iterates", "known_rounds"]
OF_EXAMPLES = {
    "audit": {"threat_models": EVERY_MODEL},
    "canaries": {"kind": "examples", "source": "mislabelled", "count": 200},
}
OF_VECTORS = [*EVERY_THREAT_MODEL["threat_models"], "known_rounds", "secret_rounds", "one_upload"]
ONE_ROUND = {"audit": {**EVERY_THREAT_MODEL, "threat_models": OF_VECTORS, "window_last_round": 3}}


def with_every_statistic(folder, changes: dict) -> None:
    """Changes the folder's config, and writes a score file for every statistic."""
    folder.config.write_text(config_to_toml(parse_config({**CONFIG, **changes}, "config")))
    final = read_score_file(folder.scores("final"))
    random = np.random.default_rng(3)
    for statistic in STATISTICS.values():
        values = random.normal(0, DIM**-0.5, len(final.score))
        write_score_file(
            folder.scores(statistic.name), ScoreFile(final.canary_id, final.included, values)
        )


@pytest.mark.parametrize("changes", [{}, {"audit": EVERY_THREAT_MODEL}, ONE_ROUND, OF_EXAMPLES])
def test_a_run_and_its_folder_agree_on_every_statistic(run_folder, changes):
    with_every_statistic(run_folder, changes)
    of_folder = {s.name: s.null.kind for s in folder_statistics(AuditedFolder(run_folder.path))}
    assert of_folder.keys() == set(STATISTICS)
    run = read_finished_run(run_folder)
    of_run = {statistic.name: run.scored(statistic).null.kind for statistic in run.statistics}
    assert of_run == {name: of_folder[name] for name in of_run}


def test_the_four_configs_have_every_statistic_between_them():
    configs = [parse_config({**CONFIG, **c}, "config") for c in (ONE_ROUND, OF_EXAMPLES)]
    names = {s.name for c in configs for s in statistics_of(c.canaries, c.audit)}
    assert names == set(STATISTICS)


def known_of_rounds(scale: float) -> dict[str, ComparedVectors]:
    dense = Concentration(1.6 / DIM**0.5, 3 / DIM)
    return {
        "final": ComparedVectors((Vectors(1, dense),)),
        "max": ComparedVectors((Vectors(ROUNDS, dense),)),
        "sum": ComparedVectors((Vectors(1, dense),), scale),
    }


def test_bounds_stand_on_what_a_run_knows_of_its_vectors(run_folder):
    before = built(run_folder).statistics
    write_compared_vectors(run_folder.compared_vectors, known_of_rounds(ROUNDS**0.5))
    after = write_report(run_folder).statistics
    names = ("final", "final_minus_initial", "max", "sum")
    assert tuple(before) == tuple(after) == names
    assert [after[name].null for name in names] == [*2 * ["closed_form"], *2 * ["empirical"]]
    assert [before[name].bounds_null for name in names] == [before[name].null for name in names]
    assert [after[name].bounds_null for name in names] == 4 * ["closed_form"]
    valid = [made["max"].estimate_by("threshold_valid").epsilon for made in (before, after)]
    assert valid[0] < valid[1]
    assert after["final_minus_initial"] == before["final_minus_initial"]
    for name in names:
        assert after[name].estimate_by("gaussian_fit") == before[name].estimate_by("gaussian_fit")
    page = " ".join(run_folder.report_html.read_text().split())
    assert page.count("fitted to the excluded scores; the valid bounds use a proven") == 2
    assert "the excluded scores refute" not in page


def test_the_page_and_the_terminal_say_that_scores_refute_their_null(run_folder):
    write_compared_vectors(run_folder.compared_vectors, known_of_rounds(1.0))  # far too short
    report = write_report(run_folder)
    page = " ".join(run_folder.report_html.read_text().split())
    reason = "the excluded scores refute the known null (p &lt; 1e-06)"
    assert "<b>Sum of rounds</b>: bounds do not use the known null" in page
    assert f"the known null distribution, because {reason}" in page
    lines = [line for line in summary_lines(report) if "refute" in line]
    assert len(lines) == 1
    assert lines[0].startswith("sum: the excluded scores refute the known null")


def test_a_report_has_statistics_and_threat_models_from_outside(run_folder):
    audit = {"threat_models": ["all_iterates", "first_round"], "window_last_round": 7}
    with registered_attacker(SmallestAttacker), registered_threat_model(FIRST_ROUND):
        with_every_statistic(run_folder, {"audit": audit})
        write_report(run_folder)
        report = json.loads(run_folder.report_json.read_text())
        page = run_folder.report_html.read_text()
    assert list(report["statistics"]) == ["max", "sum", "smallest", "first"]
    assert report["statistics"]["smallest"]["null"] == "empirical"
    assert report["statistics"]["first"]["null"] == "closed_form"
    assert report["threat_models"]["first_round"] == {
        "title": "First round",
        "sees": "the first of the rounds, not the 7th",
        "first_round": 1,
        "last_round": 1,
        "num_included_in_rounds": 4,
    }
    assert "Smallest cosine with the noised update of any round." in page
