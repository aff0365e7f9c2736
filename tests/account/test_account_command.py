"""`fl-audit account`: one record of a config, a folder or options, and the least noise."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from fl_audit.cli import main

GBOARD = """
[task]
kind = "numbers"
num_clients = 3000000
dim = 2400000
[mechanism]
kind = "tree_aggregation"
noise_multiplier = 7.0
clip_norm = 5.0
[participation]
kind = "min_separation"
separation = 314
rounds = 2000
clients_per_round = 6500
client_rounds_at_most = 6
[canaries]
count = 0
[audit]
delta = 1e-10
"""
POISSON = ["--noise-multiplier", "1", "--rounds", "2000", "--sampling", "poisson", "--rate", "0.01"]


@pytest.fixture
def gboard(tmp_path):
    path = tmp_path / "gboard.toml"
    path.write_text(GBOARD)
    return str(path)


def json_of(capsys, *arguments):
    assert main(["account", *map(str, arguments), "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def test_gboard_has_its_published_guarantee(gboard, capsys):
    client = json_of(capsys, gboard)["client"]
    # 0.81 and 8.90 are published (by Rényi DP); 79 / 98, and one Gaussian release of that, exactly.
    assert client["rho"] == pytest.approx(79 / 98, rel=1e-12)
    assert f"{client['epsilon']:.3f}" == "8.526"
    assert f"{client['by_accountant']['rdp']:.2f}" == "8.90"
    assert client["tightest"] == "analytic_gaussian" and client["participations"] == 6


def test_without_the_cap_a_client_has_seven_rounds(gboard, capsys):
    uncapped = json_of(capsys, gboard, "--set", "participation.client_rounds_at_most=7")
    assert uncapped["client"]["rho"] == pytest.approx(87 / 98, rel=1e-12)
    assert uncapped["client"]["participations"] == 7


def test_options_say_the_same_as_a_config(gboard, capsys):
    options = ["--mechanism", "tree_aggregation", "--noise-multiplier", 7, "--rounds", 2000]
    of_options = json_of(
        capsys, *options, "--participations", 6, "--separation", 314, "--delta", 1e-10
    )
    assert of_options["client"] == json_of(capsys, gboard)["client"]


def test_attackers_with_and_without_the_schedule(capsys):
    found = json_of(capsys, *POISSON, "--delta", 1e-6)
    hidden, known = found["client"], found["knowing_rounds"]["client"]
    assert found["canary"] == hidden
    assert set(hidden["by_accountant"]) == {"rdp", "pld"} and hidden["tightest"] == "pld"
    assert hidden["lower"] <= hidden["epsilon"] <= hidden["lower"] * (1 + 1e-3)
    assert known["epsilon"] == pytest.approx(known["lower"], rel=1e-6) and known["epsilon"] > 38
    assert found["neighbours"].startswith("one client more or less")
    assert found["noise_multiplier"] == 1 and found["delta"] == 1e-6


@pytest.mark.parametrize(
    "options",
    [
        "--rounds 100 --sampling poisson --rate 0.1",
        "--rounds 40 --sampling shuffle --participations 4 --mechanism matrix_factorisation "
        "--strategy banded_sqrt --bands 4",
    ],
)
def test_the_noise_that_is_found_has_the_epsilon(options, capsys):
    found = json_of(capsys, *options.split(), "--epsilon", 2, "--delta", 1e-5)
    assert 2 * (1 - 1e-3) < found["client"]["epsilon"] <= 2
    noise = found["noise_multiplier"]
    stated = [*options.split(), "--noise-multiplier", noise]
    again = json_of(capsys, *stated, "--delta", 1e-5)
    assert again == found


def test_the_screen_has_every_bound_once(gboard, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "100")
    assert main(["account", gboard]) == 0
    printed = capsys.readouterr().out
    lines = printed.splitlines()
    assert len(lines) < 30 and all(len(line) <= 100 for line in lines)
    assert "at most 6 of a client or canary" in printed
    assert "with or without the schedule" in printed  # rounds are known beforehand
    (exact,) = (line for line in lines if line.startswith("Exact (analytic Gaussian)"))
    assert exact.endswith("≤ 8.527 *")
    assert main(["account", *POISSON, "--delta", "1e-6"]) == 0
    printed = capsys.readouterr().out
    assert "without the schedule  with the schedule" in printed
    assert "≥ 2.955" in printed and "≤ 2.956 *" in printed


def test_what_no_accountant_knows_has_its_reason(capsys):
    tree = ["--mechanism", "tree_aggregation", "--noise-multiplier", "1", "--rounds", "20"]
    sampled = [*tree, "--sampling", "poisson", "--rate", "0.1", "--delta", "1e-6"]
    assert json_of(capsys, *sampled)["client"]["epsilon"] is None
    assert main(["account", *sampled]) == 0
    assert "No upper bound (client, attacker" in capsys.readouterr().out


def test_a_sample_of_hardly_anybody_is_one_of_a_million(capsys):
    options = ["--noise-multiplier", 1, "--rounds", 100, "--sampling", "fixed_size", "--rate"]
    rare, least = (json_of(capsys, *options, rate, "--delta", 1e-9) for rate in (1e-7, 1e-6))
    assert rare == least
    assert rare["knowing_rounds"]["client"]["epsilon"] < 10  # every round would give 109


POISSON_TEXT = "--noise-multiplier 1 --rounds 2000 --sampling poisson"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ("--rounds 10", "--delta: is required without CONFIG.toml"),
        ("--delta 1e-5", "--rounds: is required without CONFIG.toml"),
        ("--rounds 10 --delta 1e-5", "--noise-multiplier: give this, or --epsilon"),
        ("--rounds 10 --delta 2 --noise-multiplier 1", "--delta 2: must be in"),
        ("--set a.b=1", "--set: changes a key of a config"),
        (
            "--rounds 0 --delta 1e-5 --noise-multiplier 1 --mechanism matrix_factorisation "
            "--strategy sqrt",
            "--rounds 0: must be at least 1",
        ),
        (f"{POISSON_TEXT} --rate 0.1 --delta 1e-5 --separation 3", "--separation: does not fit"),
        (f"{POISSON_TEXT} --rate 2 --delta 1e-5", "--rate 2: must be in (0, 1]"),
        (f"{POISSON_TEXT} --delta 1e-5", "--rate: is required with --sampling poisson"),
        (
            "--rounds 9 --delta 1e-5 --noise-multiplier 1e-7",
            "error: --noise-multiplier: must be 0, for no noise, or from",
        ),
        ("--rounds 9 --delta 1e-5 --epsilon 0", "--epsilon 0: must be a finite number above 0"),
        (
            "--rounds 9 --delta 1e-5 --epsilon 1 --mechanism tree_aggregation "
            "--sampling poisson --rate 0.5",
            "--epsilon: 1: no analytical epsilon is known here",
        ),
        (
            "--rounds 9 --delta 1e-5 --noise-multiplier 1 --mechanism matrix_factorisation "
            "--strategy sqrt --bands 4",
            "--mechanism matrix_factorisation: bands is not for strategy 'sqrt'",
        ),
        ("{config} --rounds 9", "--rounds: {config} states this already"),
        ("{folder}", "holds neither run.json (a run) nor pool.json (a log)"),
        ("{folder} --epsilon 1", "--epsilon: needs a config"),
        (
            "{config} --epsilon 2 --set=mechanism={{kind='none',canary_norm=1.0}}",
            "--epsilon: mechanism 'none' adds no noise",
        ),
        (
            "{config} --set participation.client_rounds_at_most=4",
            "participation.client_rounds_at_most: 4 rounds per client do not fill 2000 rounds",
        ),
    ],
)
def test_bad_input_is_one_line_and_status_2(arguments, words, gboard, tmp_path, capsys):
    names = {"config": gboard, "folder": tmp_path}
    assert main(["account", *arguments.format(**names).split()]) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert words.format(**names) in printed.err
    assert printed.err.count("\n") == 1


def test_no_tensorflow_is_imported(gboard):
    program = (
        "import sys\nfrom fl_audit.cli import main\n"
        f"main(['account', {gboard!r}, '--json'])\n"
        "sys.exit(bool({'tensorflow', 'jax', 'matplotlib', 'dp_accounting'} & set(sys.modules)))\n"
    )
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0


def test_a_run_has_the_accounting_of_its_report(capsys):
    run = Path(__file__).parents[1] / "recorded/inputs/runs/noisy"
    report = json.loads((run / "report.json").read_text())["analytical"]
    found = json_of(capsys, run)
    assert found["client"]["epsilon"] == pytest.approx(report["client"]["epsilon"], rel=1e-6)
    assert found["delta"] == report["delta"]
    assert json_of(capsys, run, "--delta", 1e-9)["client"]["epsilon"] > found["client"]["epsilon"]
