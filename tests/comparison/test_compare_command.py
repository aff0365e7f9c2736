"""`fl-audit compare` as a user calls it."""

import json

import pytest

from fl_audit.cli import main

NOISE = "config.mechanism.noise_multiplier"


@pytest.fixture
def folders(make_run):
    changes = {NOISE: 0, "analytical.canary.epsilon": "inf"}
    return [str(make_run("a", changes)), str(make_run("b", {NOISE: 0.3}))]


def test_prints_a_table(folders, capsys):
    assert main(["compare", *folders]) == 0
    printed = capsys.readouterr()
    assert printed.out.startswith("digits: 2 settings, 2 runs\n")
    assert "page:" not in printed.out


def test_prints_one_json_object_and_nothing_else(folders, capsys, tmp_path):
    page = tmp_path / "page.html"
    assert main(["compare", *folders, "--json", "--out", str(page)]) == 0
    printed = capsys.readouterr()
    settings = json.loads(printed.out)["settings"]
    assert settings[0]["analytical"]["canary"]["mean"] == "inf"
    assert printed.err == f"page: {page}\n"


def test_says_whose_training_went_wrong(make_run, capsys, tmp_path):
    fault = {"name": "loss grows", "words": "The training loss grew from 2 to 9."}
    runs = [make_run("a", {NOISE: 0}), make_run("b", {NOISE: 0.3, "faults": [fault]})]
    page = tmp_path / "page.html"
    assert main(["compare", *map(str, runs), "--out", str(page)]) == 0
    assert "faults of training" in capsys.readouterr().out
    assert "Faults of training" in page.read_text()
    assert "loss grows" in page.read_text()


def test_writes_a_page(folders, capsys, tmp_path):
    page = tmp_path / "page.html"
    assert main(["compare", *folders, "--out", str(page)]) == 0
    assert page.read_text().startswith("<!DOCTYPE html>")
    assert capsys.readouterr().out.endswith(f"page: {page}\n")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], "the following arguments are required: DIR"),
        (["nowhere", "elsewhere"], "nowhere: no such folder"),
    ],
)
def test_bad_input_is_one_line_and_status_2(arguments, words, capsys):
    assert main(["compare", *arguments]) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert words in printed.err
    assert printed.err.count("\n") == 1


def test_a_page_that_cannot_be_written(folders, capsys, tmp_path):
    assert main(["compare", *folders, "--out", str(tmp_path / "no" / "page.html")]) == 2
    printed = capsys.readouterr()
    assert printed.out.startswith("digits: 2 settings")  # the answer is there all the same
    assert "page.html: cannot be written: No such file or directory" in printed.err
