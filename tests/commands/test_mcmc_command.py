"""fl-audit mcmc: one JSON object, words, and one line for bad input."""

import json
import re

import pytest

from fl_audit.cli import main


@pytest.fixture
def counts_csv(tmp_path):
    path = tmp_path / "counts.csv"
    path.write_text("fp,n0,fn,n1\n10,100,20,100\n5,100,30,100\n")
    return str(path)


def test_the_chain_agrees_with_the_grid(counts_csv, capsys):
    chain = ["--method", "mhaar", "--draws", "4000", "--burn-in", "500", "--seed", "3"]
    assert main(["mcmc", counts_csv, "--delta", "1e-5", "--json"]) == 0
    grid = json.loads(capsys.readouterr().out)
    assert main(["mcmc", counts_csv, "--delta", "1e-5", "--json", *chain]) == 0
    found = json.loads(capsys.readouterr().out)
    # The posterior's deviation is about 1.05; 5.5 standard errors of the mean: below 1e-7.
    assert abs(found["epsilon"]["mean"] - grid["epsilon"]["mean"]) < 5.8 / found["ess"] ** 0.5
    assert found["ess"] > 200
    assert 0 < found["acceptance"] < 1


def test_chains_that_have_not_come_together_are_warned_of(counts_csv, capsys):
    chain = ["--correlated", "--draws", "64", "--burn-in", "0"]
    assert main(["mcmc", counts_csv, "--delta", "1e-5", *chain]) == 0
    printed = capsys.readouterr()
    assert "the chains have not converged" in printed.err
    assert "effective sample size" in printed.out


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--alpha-prior", "stron"], "did you mean 'strongest'?"),
        (["--method", "mhaar", "--draws", "-4"], "draws must be at least"),
        (["--alpha-prior", "beta:2"], "beta:A,B, as in beta:2,5"),
        (["--alpha-prior", "beta:0,1"], "strength's a must be a number from 0.001 to 1,000,000"),
        (["--alpha-prior", "beta:1e308,1e308"], "strength's a must be a number from 0.001 to 1"),
        (
            ["--epsilon-variance", "0"],
            "epsilon_variance must be a number above 0 and at most 1,000,000",
        ),
        (["--method", "mhaar", "--chains", "3"], "chains must be at least 4"),
        (["--method", "mhaar", "--auxiliary", "1"], "auxiliary must be at least 2"),
        (
            ["--method", "mhaar", "--chains", "10000", "--auxiliary", "10000", "--draws", "40000"],
            "must be at most 50,000,000, got 200,000,000",
        ),
        (
            ["--out", "no/such/folder/page.html"],
            "argument --out: no/such/folder/page.html: cannot be",
        ),
        (["--delta", "1"], "delta must be in [0, 1)"),
        (["--confidence", "2"], "confidence must be in (0, 1)"),
    ],
)
def test_bad_input_is_one_line_and_status_2(options, message, counts_csv, capsys):
    assert main(["mcmc", counts_csv, "--delta", "1e-5", *options]) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert message in printed.err
    assert printed.err.count("\n") == 1


def test_flags_of_the_chain_change_nothing_on_the_grid_and_say_so(counts_csv, capsys):
    assert main(["mcmc", counts_csv, "--delta", "0", "--chains", "4", "--burn-in", "9"]) == 0
    warning = capsys.readouterr().err
    assert "--burn-in, --chains changed nothing; give --method mhaar" in warning


DENSITIES = ["ε", "Error rates", "Strength", "ε and strength"]


def _pictures(counts_csv, out, capsys, *options):
    """The titles of the pictures on a page."""
    command = ["mcmc", counts_csv, "--delta", "1e-5", "--json", "--out", str(out), *options]
    assert main(command) == 0
    printed = capsys.readouterr()
    json.loads(printed.out)
    assert f"page: {out}" in printed.err
    return re.findall(r"<h3>(.+?)</h3>\s*<svg", out.read_text(encoding="utf-8"))


def test_a_page_of_the_grid_has_densities(counts_csv, tmp_path, capsys):
    out = tmp_path / "page.html"
    assert _pictures(counts_csv, out, capsys) == DENSITIES
    assert _pictures(counts_csv, out, capsys, "--alpha-prior", "0.4") == DENSITIES[:2]


def test_a_page_of_chains_says_how_they_mixed(counts_csv, tmp_path, capsys):
    chain = ["--correlated", "--draws", "200", "--burn-in", "100", "--chains", "4"]
    traces = [f"Trace of {name}" for name in "εsτρ"]
    pictures = _pictures(counts_csv, tmp_path / "page.html", capsys, *chain)
    assert pictures == [*DENSITIES, "Autocorrelation", *traces]
