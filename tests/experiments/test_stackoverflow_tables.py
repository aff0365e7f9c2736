"""Tables 2 and 3 of Andrew et al. (2023) beside a sweep, and what the page says of them."""

import numpy as np
import pytest

from experiments.stackoverflow import figures, tables
from fl_audit.config.file import load_config
from fl_audit.formats.folders import RunFolder
from fl_audit.formats.score_file import ScoreFile, write_score_file
from fl_audit.participation.patterns import shuffle_schedule
from fl_audit.participation.schedule import Roster
from tests.comparison.conftest import built_report, make_run
from tests.tests_of_docs import ROOT

__all__ = ["built_report", "make_run"]

FOLDER = ROOT / "experiments/stackoverflow"
PAGE = (FOLDER / "README.md").read_text(encoding="utf-8")


def _cells(line):
    return [cell.strip() for cell in line.strip("|").split("|")]


@pytest.mark.parametrize("table", [tables.table_2, tables.table_3])
def test_the_page_has_the_tables_with_empty_columns(table):
    shown = [_cells(line) for line in PAGE.splitlines() if line.startswith("|")]
    head, _, *rows = map(_cells, table([]))
    assert [head in shown, *(row in shown for row in rows)] == [True] * 6


@pytest.fixture
def sweep(make_run, tmp_path):
    noise, inclusion = "config.mechanism.noise_multiplier", "config.canaries.inclusion"
    folder = tmp_path / "sweep/runs"
    folder.mkdir(parents=True)
    bare = {"statistics": {}, "run.num_canaries": 0, "run.num_included": 0, "accuracy": 0.2}
    made = [
        make_run("half", {noise: 0.1023, inclusion: "fixed_half"}, {"gaussian_fit": 1.5}),
        make_run("coins", {noise: 0.1836, inclusion: "coins"}, {"one_run": 0.25}),
        make_run("bare", {noise: 0.1023} | bare),
    ]
    for run in made:
        run.rename(folder / run.name)
    return folder.parent


def test_a_sweeps_numbers_stand_beside_the_papers(sweep):
    runs = tables.read_runs(sweep)
    by_noise = {_cells(line)[0]: _cells(line)[1:] for line in tables.table_2(runs)}
    assert by_noise["0.1023"] == ["23.1 %", "20.00 %", "23.1 %", "90.00 %"]
    assert by_noise["0"] == ["25.3 %", "", "25.3 %", ""]
    by_noise = {_cells(line)[0]: _cells(line)[1:] for line in tables.table_3(runs)}
    assert by_noise["0.1023"][4:6] == ["243", "1.50"]
    assert by_noise["0.2344"][3] == ""
    (row,) = tables.one_run_table(runs)[2:]
    assert _cells(row)[:2] == ["0.1836", "0.250"]


def test_figures_take_the_runs_with_canaries(sweep):
    scores = ScoreFile(("1", "2"), np.array([True, False]), np.array([0.5, 0.0]))
    for name in ("half", "coins"):
        write_score_file(RunFolder(sweep / "runs" / name).scores(tables.FINAL), scores)
    found = figures.read_settings(sweep)
    assert {noise: list(by_rounds) for noise, by_rounds in found.items()} == {
        0.1023: [1.0],
        0.1836: [1.0],
    }
    setting = found[0.1023][1.0]
    assert (setting.cosines.tolist(), setting.dim, setting.estimate) == ([0.5], 10_000, 1.5)


def test_the_analytical_column_is_that_of_167_of_341_000():
    # Printed: 100k, 1,000, 100 and 50. Section 5's rate of 167/2,048 gives 1,818 for the last.
    found = [tables.rdp_epsilon(noise) for noise in (0.0644, 0.1023, 0.1836, 0.2344)]
    assert found == pytest.approx([100e3, 1e3, 100, 50], rel=5e-3)
    assert tables.rdp_epsilon(0.2344, 167 / 2048) == pytest.approx(1818, abs=1)
    assert "167/2,048, which is 0.08, a misprint: it gives 1,818" in PAGE


def test_clients_that_are_left_out():
    assert 342_477 - 2048 * 167 == 461
    config = load_config(FOLDER / "config.toml")
    clients = list(map(str, range(342_477)))
    schedule = shuffle_schedule(config.participation, 1, Roster(clients, np.zeros(0, bool)))
    later = sum(len(schedule.clients(index)) for index in range(2048, 2051))
    assert later == 498
    assert "leave 461 clients out" in PAGE and "leaves out 498" in PAGE
