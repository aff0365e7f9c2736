"""A comparison as rows, as CSV and as a table for LaTeX."""

import csv
import math
import re

import pytest

from fl_audit.cli import main
from fl_audit.comparison import compare
from tests.tests_of_docs import ROOT, blocks

NOISE = "config.mechanism.noise_multiplier"


@pytest.fixture
def folders(make_run):
    changes = {NOISE: 0, "analytical.canary.epsilon": "inf", "config.seed": 2}
    return [make_run("a_1", changes), make_run("b", {NOISE: 0.3}, {"one_run": 1 / 3})]


def test_rows_are_those_of_the_reports_with_what_differs(folders):
    comparison = compare(folders)
    rows = comparison.records()
    reports = [run.report for run in comparison.runs]
    assert len(rows) == sum(len(report.records()) for report in reports)
    first = rows[0]
    assert first["run"] == str(folders[0])
    assert (first["seed"], first["mechanism.noise_multiplier"]) == (2, 0)
    assert (first["accounting_canary"], first["accuracy"]) == (math.inf, 0.9)
    found = [row["epsilon"] for row in rows if row["method"] == "one_run" and row["seed"] == 1]
    assert set(found) == {1 / 3}


def test_a_stopped_run_has_the_rounds_that_it_trained(make_run):
    stopped, whole = make_run("stopped", {"run.stopped_after": 3}), make_run("whole")
    rounds = {(row["run"], row["rounds"]) for row in compare([stopped, whole]).records()}
    assert rounds == {(str(stopped), 3), (str(whole), 8)}


def test_the_lines_of_sweeps_md_make_a_table_of_seeds(folders, capsys):
    pytest.importorskip("pandas")
    (block,) = blocks((ROOT / "docs/sweeps.md").read_text(), "python")
    exec(block, {"folders": folders})
    assert "a_1" not in capsys.readouterr().out


def test_compare_writes_csv_and_latex(folders, capsys, tmp_path):
    table, tex = tmp_path / "out.csv", tmp_path / "out.tex"
    words = ["compare", *map(str, folders), "--csv", str(table), "--latex", str(tex)]
    assert main(words) == 0
    assert capsys.readouterr().out.endswith(f"table: {table}\ntable: {tex}\n")
    with table.open(newline="") as file:
        rows = list(csv.DictReader(file))
    expected = compare(folders).records()
    assert [row["method"] for row in rows] == [row["method"] for row in expected]
    assert [float(row["epsilon"]) for row in rows] == [row["epsilon"] for row in expected]
    assert {row["accounting_canary"] for row in rows[:1]} == {"inf"}
    assert {row["upper"] for row in rows if row["kind"] == "lower_bound"} == {""}


def test_the_table_has_as_many_cells_as_columns_and_no_sign_of_latex(folders, tmp_path, capsys):
    tex = tmp_path / "out.tex"
    assert main(["compare", *map(str, folders), "--latex", str(tex)]) == 0
    text = tex.read_text()
    rows = [line for line in text.splitlines() if line.endswith(r"\\")]
    columns = len(re.search(r"\{tabular\}\{(\w+)\}", text)[1])
    spanned = [int(number) - 1 for number in re.findall(r"multicolumn\{(\d)\}", text)]
    ands = sum(len(re.findall(r"(?<!\\)&", row)) for row in rows)
    assert ands + sum(spanned) == (columns - 1) * len(rows)
    assert len(rows) == 2 + 2 * 4  # the head, and four statistics of each setting
    assert all(line.isascii() for line in text.splitlines())
    assert r"$\infty$" in text
