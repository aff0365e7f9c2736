"""Folders and files of a stranger: their names must not reach the terminal, nor end a command."""

import csv
import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from fl_audit.cli import main
from fl_audit.progress import warn

LOG = Path(__file__).parents[1] / "recorded" / "inputs" / "log_of_cosines"
ALL_AT_ONCE = "red\x1b[31m\nline a$\\alpha^$b<b> not_utf8\udcff"
EACH = ("red\x1b[31m\nline", "not_utf8\udcff", "a$\\alpha^$b<b>")
NAMES = [ALL_AT_ONCE, *(pytest.param(name, marks=pytest.mark.slow) for name in EACH)]
DELTA = ("--delta", "1e-3")
NOWHERE_RAW = {"\x1b", "\x00", "\x07", "\x7f", "\x9b", "\u202e"}


@pytest.fixture(params=NAMES, ids=ascii)
def strange(request, tmp_path, monkeypatch) -> Path:
    monkeypatch.chdir(tmp_path)
    shutil.copytree(LOG, request.param)
    return Path(request.param)


def harmless(text: str) -> bool:
    return all(character.isprintable() or character == "\n" for character in text)


def called(capsys, *words: str) -> str:
    assert main(list(words)) == 0
    found = capsys.readouterr()
    assert harmless(found.out)
    assert found.err == ""
    return found.out


def test_what_is_printed_obeys_nobody(strange, capsys):
    shutil.copytree(LOG, "plain")
    called(capsys, "estimate", str(strange), *DELTA, "--verbose")
    called(capsys, "compare", str(strange), "plain", *DELTA)
    printed = called(capsys, "compare", str(strange), "plain", *DELTA, "--json")
    assert json.loads(printed)["runs"][0]["folder"] == str(strange)


def test_pages_are_written(strange, capsys):
    shutil.copytree(LOG, "plain")
    called(capsys, "estimate", str(strange), *DELTA, "--out", "page.html")
    called(capsys, "compare", str(strange), "plain", *DELTA, "--out", "compared.html")
    for name in ("page.html", "compared.html"):
        page = Path(name).read_text(encoding="utf-8")
        assert "<svg" in page
        assert not set(page) & NOWHERE_RAW


def test_tables_for_spreadsheets_hold_no_formula_and_no_control_character(strange, capsys):
    shutil.copytree(LOG, "=cmd()")
    words = ("--csv", "rows.csv", "--latex", "table.tex")
    called(capsys, "compare", str(strange), "=cmd()", *DELTA, *words)
    for name in ("rows.csv", "table.tex"):
        assert not set(Path(name).read_text(encoding="utf-8")) & NOWHERE_RAW
    with Path("rows.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert {row["run"] for row in rows} >= {"'=cmd()"}
    below = [row["threshold"] for row in rows if row.get("threshold", "").startswith("-")]
    assert all(float(text) < 0 for text in below)


def test_progress_and_warnings_show_names_without_control_characters(capsys):
    warn("red\x1b[31m\nline")
    assert capsys.readouterr().err == "red\\x1b[31m\\nline\n"


def test_a_path_that_is_printed_has_no_control_characters(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert harmless(called(capsys, "init", "digits", "--out", "red\x1b[31m.toml"))


def test_an_error_is_one_line_whatever_the_name(strange, capsys):
    (strange / "pool.json").write_text("{}")
    assert main(["estimate", str(strange), *DELTA]) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert harmless(error)


def test_pages_need_no_display_whatever_mplbackend_says(monkeypatch):
    """Every command chooses the files' backend before it imports Matplotlib."""
    monkeypatch.setenv("MPLBACKEND", "nonsense")
    program = (
        "from fl_audit.cli import main; main(['completion', 'bash']); "
        "import matplotlib; print(matplotlib.get_backend())"
    )
    shown = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert shown.stdout.endswith("agg\n")
