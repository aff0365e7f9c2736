"""Estimate, counts and one-run beside what is recorded: words, folders, refusals."""

import json
import os
import re
import subprocess
import sys

import numpy as np
import pytest

from fl_audit.attacks import CanaryPool, RoundScorer
from fl_audit.cli import main
from fl_audit.estimators import METHODS
from fl_audit.formats.folders import LogFolder, RunFolder
from fl_audit.formats.score_file import ScoreFile, write_score_file

ONE_RUN = ["one-run", "--examples", "100", "--guesses", "100", "--correct", "75", "--delta", "0"]
COUNTS = ["counts", "--fn", "35", "--tp", "65", "--fp", "25", "--tn", "75", "--delta", "0.05"]


@pytest.fixture(scope="module")
def scores_csv(tmp_path_factory) -> str:
    rng = np.random.default_rng(1)
    included = rng.random(2000) < 0.5
    score = rng.normal(0, 0.01, 2000) + 0.02 * included
    path = tmp_path_factory.mktemp("scores") / "scores.csv"
    write_score_file(path, ScoreFile(tuple(map(str, range(2000))), included, score))
    return str(path)


def test_estimate_prints_a_table(scores_csv, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "100")
    assert main(["estimate", scores_csv, "--delta", "1e-5", "--verbose"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert all(len(line) <= 100 for line in lines)
    methods = [line.split()[0] for line in lines if line.startswith("  ")]
    assert sorted(methods) == sorted(METHODS)
    # What may be relied on comes first, and each group says how far.
    assert lines[7].split() == ["statistic", "score"]
    assert lines[8] == "valid lower bounds"
    assert methods[:2] == ["threshold_valid", "one_run_valid"]
    assert "too high more often than their confidence says" in " ".join(" ".join(lines).split())


def _threshold_valid(argv, capsys) -> dict:
    assert main([*argv, "--methods", "threshold_valid", "--json"]) == 0
    return json.loads(capsys.readouterr().out)["estimates"][0]


def test_the_family_of_gaussian_canaries_gives_the_exact_law(scores_csv, capsys):
    argv = ["estimate", scores_csv, "--delta", "1e-5", "--dim", "10000"]
    nothing = _threshold_valid(argv, capsys)
    families = ("gaussian", "rademacher", "hadamard")
    of = {name: _threshold_valid([*argv, "--canaries", name], capsys) for name in families}
    assert of["rademacher"] == of["hadamard"] == nothing
    # The bound for any vector is 3.178 times the Gaussian tail, and e^1.16 is 3.18; the exact law's
    # tail is a little thinner.
    assert 1.1 < of["gaussian"]["epsilon"] - nothing["epsilon"] < 1.2
    assert "exact distribution" in of["gaussian"]["details"]["null_law"]


def test_what_methods_leave_out_is_said_to_be_left_out(scores_csv, capsys):
    def printed(*methods):
        assert main(["estimate", scores_csv, "--delta=1e-5", "--methods", *methods]) == 0
        return " ".join(capsys.readouterr().out.split())

    assert "none, because --methods leaves out shift_fit" in printed("threshold_valid")
    assert "none, because --methods leaves out every valid method" in printed("shift_fit")
    assert "no leakage was detected" not in printed("shift_fit")


def test_printed_bounds_hold_as_the_computed_ones_do(capsys):
    assert main(ONE_RUN) == 0  # 0.70221393
    assert capsys.readouterr().out.startswith("epsilon >= 0.702213 at")
    assert main([*COUNTS, "--confidence=0.95"]) == 0  # 0.29515 to 1.48873
    row = next(s for s in capsys.readouterr().out.splitlines() if s.startswith("clopper_pearson"))
    assert row.split()[1:4] == ["0.2951", "to", "1.489"]


@pytest.mark.parametrize("options", [[], ["--dim", "10000", "--null", "empirical"]])
def test_a_family_without_a_closed_form_is_refused(scores_csv, capsys, options):
    argv = ["estimate", scores_csv, "--delta", "1e-5", "--canaries", "gaussian", *options]
    assert main(argv) == 2
    assert "--canaries: is only for the closed_form null, which" in capsys.readouterr().err


def test_a_table_says_which_null_bounds_stand_on_and_why_another_is_not_used(scores_csv, capsys):
    argv = ["estimate", scores_csv, "--delta", "1e-5", "--verbose", "--dim"]
    assert main([*argv, "10000"]) == 0
    right = " ".join(capsys.readouterr().out.split())
    assert "null distribution of the valid bounds: cosines of gaussian, rademacher or" in right
    assert "empirical null:" not in right
    assert main([*argv, "400"]) == 0
    wrong = " ".join(capsys.readouterr().out.split())
    assert "null distribution of the valid bounds:" not in wrong
    assert wrong.count("empirical null: the excluded scores refute the known null (p <") == 1


def test_a_contradicted_claim_exits_3(scores_csv, capsys):
    claim = ["--delta", "1e-5", "--dim", "10000", "--claimed-epsilon", "1"]
    assert main(["estimate", scores_csv, *claim, "--methods", "threshold_valid"]) == 3
    lines = capsys.readouterr().out.splitlines()
    start = lines.index("verdict: CONTRADICTED: the claim ε ≤ 1 at δ = 10⁻⁵")
    assert lines[start - 1] == ""
    assert "by threshold_valid exceeds the claim" in " ".join(lines[start:])


def test_scores_of_the_wrong_sign_are_said_with_the_bound_turned_round(tmp_path, capsys):
    random = np.random.default_rng(14)
    included = np.arange(200) % 2 == 0
    score = random.normal(0, 1, 200) + 2 * included
    names = tuple(map(str, range(200)))
    printed = {}
    for sign in (1, -1):
        path = tmp_path / f"{sign}.csv"
        write_score_file(path, ScoreFile(names, included, sign * score))
        assert main(["estimate", str(path), "--delta", "1e-5"]) == 0
        printed[sign] = " ".join(capsys.readouterr().out.split())
    (bound,) = re.findall(r"audited ε ≥ ([0-9.]+)\.", printed[1])
    assert float(bound) > 1
    assert f"wrong sign? The negated scores show ε ≥ {bound}." in printed[-1]
    assert "no leakage" not in printed[-1]
    assert main(["estimate", str(tmp_path / "-1.csv"), "--delta", "1e-5", "--json"]) == 0
    assert float(bound) <= json.loads(capsys.readouterr().out)["turned_round"] < float(bound) + 0.1


@pytest.mark.filterwarnings("error::RuntimeWarning")
def test_a_rho_whose_curve_is_no_float_is_one_line(scores_csv, capsys):
    argv = ["estimate", scores_csv, "--delta", "1e-5", "--claimed-rho", "1e308"]
    assert main([*argv, "--methods", "one_run_valid"]) == 2
    assert capsys.readouterr().err.startswith("fl-audit: error: claimed rho must allow")


@pytest.mark.filterwarnings("error::RuntimeWarning")
def test_scores_whose_range_is_no_float_give_no_warning(tmp_path, capsys):
    score = np.tile([1.7e308, -1.7e308, 0.0, 1.0], 5).repeat(2)
    file = ScoreFile(tuple(map(str, range(40))), np.arange(40) % 2 == 0, score)
    write_score_file(tmp_path / "s.csv", file)
    assert main(["estimate", str(tmp_path / "s.csv"), "--delta", "1e-5", "--verbose"]) == 0
    assert capsys.readouterr().err == ""


@pytest.fixture(scope="module")
def log_folder(tmp_path_factory) -> LogFolder:
    """Three rounds in which every included canary moves the model, and the models."""
    folder = LogFolder(tmp_path_factory.mktemp("logs") / "log")
    folder.aggregates.mkdir(parents=True)
    pool = CanaryPool(seed=1, count=300, dim=4000)
    fields = {"format_version": 2, "family": "rademacher", "seed": 1, "count": 300, "dim": 4000}
    folder.pool.write_text(json.dumps(fields))
    random = np.random.default_rng(1)
    model = random.normal(size=4000)
    np.save(folder.initial, model)
    together = sum(pool.vector(canary) for canary in np.flatnonzero(pool.included))
    for number in (1, 2, 3):
        moved = together + random.normal(0, 0.3, 4000)
        np.save(folder.aggregates / f"round_{number:06}.npy", moved)
        model += moved
    np.save(folder.final, model)
    return folder


def test_a_folder_gives_what_a_file_gives_of_every_statistic(log_folder, tmp_path, capsys):
    before = {path: path.stat().st_mtime_ns for path in log_folder.path.rglob("*")}
    kinds = "threshold_valid,threshold_gdp,shift_fit,gaussian_fit,one_run_valid"
    asked = ["--delta", "1e-4", "--methods", kinds, "--json"]
    assert main(["estimate", str(log_folder.path), *asked]) == 0
    printed = capsys.readouterr()
    assert printed.err == ""
    report = json.loads(printed.out)
    assert list(report) == ["statistics", "arrival", "checks"]
    assert list(report["statistics"]) == ["final", "final_minus_initial", "max", "sum"]
    assert {path: path.stat().st_mtime_ns for path in log_folder.path.rglob("*")} == before

    # The same by the class, whose score files are estimated one by one.
    scorer = RoundScorer.create(tmp_path / "audit", CanaryPool(1, 300, 4000), 3)
    for number in (1, 2, 3):
        aggregate = np.load(log_folder.aggregates / f"round_{number:06}.npy")
        scorer.score_round(number, aggregate)
    paths = scorer.finish(initial=np.load(log_folder.initial), final=np.load(log_folder.final))
    for name, path in paths.items():
        null = "empirical" if name in ("max", "sum") else "closed_form"
        assert main(["estimate", str(path), *asked, "--dim", "4000", "--null", null]) == 0
        of_file, of_folder = json.loads(capsys.readouterr().out), report["statistics"][name]
        made = [of_file.pop("estimates"), of_folder["estimates"]]
        assert of_file == {key: of_folder[key] for key in of_file}
        for alone, known in zip(*made, strict=True):
            if known["method"] == "shift_fit":
                assert known["lower"] <= known["epsilon"] <= known["upper"]
                continue
            if known["method"] not in ("threshold_valid", "threshold_gdp"):
                assert alone == known
                continue
            # A folder knows the vectors that canaries were compared with, and a file does not.
            assert known["epsilon"] > alone["epsilon"] > 1
            assert known["details"]["null"] == "closed_form"
            assert alone["details"]["null"] == null

    # A folder with score files is not scored again.
    paths["sum"].unlink()
    assert main(["estimate", str(tmp_path / "audit"), *asked]) == 0
    again = json.loads(capsys.readouterr().out)["statistics"]
    assert list(again) == ["final", "final_minus_initial", "max"]
    assert again == {name: report["statistics"][name] for name in again}


def test_a_folder_knows_its_canaries(log_folder, capsys):
    argv = ["estimate", str(log_folder.path), "--delta", "1e-3", "--canaries"]
    assert main([*argv, "gaussian"]) == 2
    assert "--canaries: must be rademacher, as " in capsys.readouterr().err
    assert main([*argv, "rademacher", "--methods", "threshold_valid", "--verbose"]) == 0
    lines = " ".join(capsys.readouterr().out.split())
    # Three rounds that share more than a third of their squared length: above the root of 3 * 5/3.
    assert re.search(
        r"sum: null distribution of the valid bounds: 2\.[2-9]\d* times cosines", lines
    )
    assert "max: null distribution of the valid bounds: the largest of 3 round scores" in lines


def test_a_folder_of_score_files_alone_takes_dim_from_the_command_line(tmp_path, capsys):
    random = np.random.default_rng(1)
    scored = ScoreFile(tuple("abcdefgh"), np.arange(8) < 4, random.normal(0, 0.1, 8))
    for name in ("final", "made_up"):
        write_score_file(RunFolder(tmp_path).scores(name), scored)
    argv = ["estimate", str(tmp_path), "--delta", "1e-3", "--methods", "gaussian_fit", "--json"]
    for dim, nulls in ((None, ("empirical", "empirical")), (50, ("closed_form", "empirical"))):
        assert main(argv if dim is None else [*argv, "--dim", str(dim)]) == 0
        made = json.loads(capsys.readouterr().out)["statistics"]
        assert list(made) == ["final", "made_up"]
        assert {result["dim"] for result in made.values()} == {dim}
        found = tuple(result["estimates"][0]["details"]["null"] for result in made.values())
        assert tuple(null.split()[0] for null in found) == nulls


def test_a_statistic_of_a_file_is_refused(scores_csv, capsys):
    assert main(["estimate", scores_csv, "--delta", "0", "--statistic", "max"]) == 2
    assert "--statistic: chooses among a folder's statistics; " in capsys.readouterr().err


# What tests/recorded does not hold.
BAD = [
    (
        ["audit"],
        "unknown command 'audit': did you mean 'estimate' (audits scores, a log or a run)?",
    ),
    (["report"], "unknown command 'report': did you mean 'show' (prints the report of a run)?"),
    (["--jason"], "unknown option '--jason'"),
    (["estimate", "{scores}"], "--delta: is required (such as 1e-5), as "),
    (["estimate", "{scores}", "--delta=1e-5", "--method=x"], "did you mean '--methods'?"),
    (["estimate", "{scores}", "more", "--delta", "1e-5"], "one argument too many: more"),
    (["estimate", "{scores}", "--delta", "small"], "--delta: must be a number, got 'small'"),
    (["estimate", "{scores}", "--delta", "1"], "delta must be in [0, 1), got 1.0"),
    (["estimate", "{scores}", "--delta", "nan"], "delta must be in [0, 1), got nan"),
    (
        ["estimate", "{scores}", "--delta", "0", "--confidence", "95"],
        "confidence must be in (0, 1)",
    ),
    (["estimate", "{scores}", "--delta", "0", "--dim", "1"], "dim must be in 2 to 2^53, got 1"),
    (
        ["estimate", "{scores}", "--delta", "0", "--dim", "1.5"],
        "--dim: must be a whole number, got '1.5'",
    ),
    (
        ["estimate", "{scores}", "--delta", "0", "--null", "exact"],
        "--null: unknown 'exact'",
    ),
    (["estimate", "{scores}", "--delta", "0", "--null", "closed_form"], "needs dim"),
    (["estimate", "{scores}", "--delta", "0", "--methods", ""], "unknown method ''"),
    (
        ["estimate", "{scores}", "--delta", "1e-5", "--claimed-epsilon", "0"],
        "claimed epsilon must be above 0 and at most 300, got 0.0",
    ),
    (
        ["estimate", "{scores}", "--delta=1e-5", "--claimed-epsilon=1", "--methods=one_run"],
        "a verdict needs statistics and methods among threshold_valid, one_run_valid, got none",
    ),
    (
        ["estimate", "{log}", "--delta=1e-4", "--claimed-epsilon=1", "--methods=one_run"],
        "a verdict needs statistics and methods among threshold_valid, one_run_valid, got none",
    ),
    (["estimate", "nowhere.csv"], "nowhere.csv: cannot be read: No such file or directory"),
    (["estimate", "{beside}/a.toml"], "a.toml: is a config, which has no scores; `fl-audit run "),
    (["verify", "{log}", "--sheet", "{scores}"], "log is a log; only runs have one"),
    (["verify", "{log}", "--statement", "{beside}/a.json"], "log is a log; only runs have one"),
    (["plan", "{beside}/run"], "run: cannot be read: Is a directory; give "),
    (["plan", "{beside}/nothing"], "nothing: cannot be read: Is a directory\n"),
    ([*COUNTS, "--fn", "1.5"], "--fn: must be a whole number, got '1.5'"),
    ([*COUNTS, "--fn=0", "--tp=0"], "true_positives"),
    ([*COUNTS, "--delta", "1"], "delta must be in [0, 1)"),
    ([*COUNTS, "--confidence", "90"], "confidence must be in (0, 1)"),
    ([*ONE_RUN, "--correct", "101"], "correct (v) must be in [0, 100]"),
    ([*ONE_RUN, "--correct", "-1"], "correct (v) must be in [0, 100]"),
    ([*ONE_RUN, "--examples", "0"], "examples (m) must be at least 1"),
    ([*ONE_RUN, "--delta", "2"], "delta must be in [0, 1)"),
    ([*ONE_RUN, "--confidence", "1"], "confidence must be in (0, 1)"),
    ([*ONE_RUN, "--epsilon", "inf"], "epsilon must be finite and at least 0"),
    ([*ONE_RUN, "--epsilon", "-1"], "epsilon must be finite and at least 0"),
]


@pytest.fixture
def places(scores_csv, log_folder, tmp_path):
    """What the words of a call name: scores, a log, and a folder of configs."""
    for folder in ("nothing", "run"):
        (tmp_path / folder).mkdir()
    for config in ("a.toml", "run/config.toml"):
        (tmp_path / config).write_text("seed = 1\n")
    return {"scores": scores_csv, "log": log_folder.path, "beside": tmp_path}


@pytest.mark.parametrize(("argv", "message"), BAD)
def test_bad_input_is_one_line_and_status_2(argv, message, places, capsys):
    assert main([argument.format(**places) for argument in argv]) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.startswith("fl-audit: error: ")
    assert message in printed.err
    assert printed.err.count("\n") == 1


def test_a_closed_pipe_ends_quietly():
    reader, writer = os.pipe()
    os.close(reader)
    program = "import sys; from fl_audit.cli import main; sys.exit(main())"
    command = [sys.executable, "-c", program, *ONE_RUN]
    done = subprocess.run(command, stdout=writer, stderr=subprocess.PIPE, check=False)
    os.close(writer)
    assert (done.returncode, done.stderr) == (141, b"")


def test_an_estimate_does_without_what_takes_half_a_second_to_import(tmp_path):
    scores = tmp_path / "scores.csv"
    rows = [f"{canary},{canary % 2},{canary * 0.37 % 1}" for canary in range(40)]
    scores.write_text("canary_id,included,score\n" + "\n".join(rows) + "\n")
    program = (
        "import sys; from fl_audit.cli import main; "
        f"main(['estimate', {str(scores)!r}, '--delta', '1e-3']); "
        "sys.exit('scipy.stats' in sys.modules or 'matplotlib' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0
