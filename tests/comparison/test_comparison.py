"""A comparison of runs: as JSON, lines and a page; what keeps runs from being compared."""

import dataclasses
import json
import re
from pathlib import Path

import numpy as np
import pytest

from fl_audit.attacks import CanaryPool, RoundScorer
from fl_audit.cli import main
from fl_audit.comparison import compare, comparison_json, comparison_lines, render_comparison
from fl_audit.comparison.comparison import comparability_warnings, pareto_front
from fl_audit.comparison.reported_run import ReportedRun, read_reported_runs
from tests.comparison.conftest import LOST, MakeRun
from tests.tests_of_docs import ROOT

# A comparison as JSON, as lines and as a page.


STATISTICS = ("final", "final_minus_initial", "max", "sum")

NO_PICTURE = "There is no picture, because no two of these settings"
NOISE = "config.mechanism.noise_multiplier"
CLIENT, CANARY = "analytical.client.epsilon", "analytical.canary.epsilon"


@pytest.fixture
def comparison(make_run):
    """Noise 0 once, noise 0.5 with two seeds, noise 1 dominated by them."""
    unbounded = {NOISE: 0.0, "accuracy": 0.95, CLIENT: "inf", CANARY: "inf"}
    return compare(
        [
            make_run("dear", {NOISE: 1.0, "accuracy": 0.7, CLIENT: None}, {"shift_fit": 4.0}),
            make_run("none", unbounded, {"shift_fit": "inf", "threshold_valid": 4.5}),
            make_run(
                "some", {NOISE: 0.5, "accuracy": 0.8}, {"shift_fit": 2.0, "threshold_valid": 0.0}
            ),
            make_run(
                "seed",
                {NOISE: 0.5, "accuracy": 0.9, "config.seed": 2},
                {"shift_fit": 3.0, "threshold_valid": 1.0},
            ),
        ]
    )


def test_json_holds_settings_fronts_and_reports(comparison):
    printed = comparison_json(comparison)
    assert json.loads(json.dumps(printed, allow_nan=False)) == printed
    assert printed["differing_keys"] == ["mechanism.noise_multiplier"]
    assert [s["label"] for s in printed["settings"]] == ["noise 0", "noise 0.5", "noise 1"]
    assert [len(s["folders"]) for s in printed["settings"]] == [1, 2, 1]
    fit = printed["settings"][1]["statistics"]["max"]["shift_fit"]
    assert (fit["values"], fit["mean"]) == ([2.0, 3.0], 2.5)
    assert printed["settings"][0]["statistics"]["max"]["shift_fit"]["mean"] == "inf"
    assert printed["settings"][0]["analytical"]["client"]["mean"] == "inf"
    assert printed["settings"][2]["analytical"]["client"] is None
    # Not "noise 1": from 3.6 on and 0.7, against up to 3.3 and 0.85.
    assert printed["pareto"]["by_statistic"]["max"]["shift_fit"] == ["noise 0", "noise 0.5"]
    assert printed["pareto"]["analytical"]["client"] == ["noise 0", "noise 0.5"]
    assert [run["setting"] for run in printed["runs"]] == [
        "noise 1",
        "noise 0",
        "noise 0.5",
        "noise 0.5",
    ]
    assert printed["runs"][0]["report"]["accuracy"] == 0.7


@pytest.mark.parametrize(
    ("fit", "on_front"), [(1.0, ["noise 0.1", "noise 0.5"]), (3.0, ["noise 0.1"])]
)
def test_what_overlaps_over_runs_is_not_told_apart(make_run, fit, on_front):
    unsteady = [
        make_run(f"seed{seed}", {NOISE: 0.5, "config.seed": seed}, {"shift_fit": fit_of_run})
        for seed, fit_of_run in ((1, fit), (2, 5.0))
    ]
    comparison = compare([*unsteady, make_run("steady", {NOISE: 0.1}, {"shift_fit": 2.0})])
    assert [setting.label for setting in comparison.front("max", "shift_fit")] == on_front


def test_lines_are_aligned_and_mark_the_front(comparison):
    lines = comparison_lines(comparison)
    assert lines[0] == "digits: 3 settings, 4 runs"
    assert lines[1].startswith(
        "With 1 round per canary, by “Largest round”, leakage increases in this order: "
    )
    start = next(i for i, line in enumerate(lines) if line.startswith("max "))
    head, none, some, dear = lines[start : start + 4]
    assert head.split() == ["max", "threshold_valid", "one_run_valid", "shift_fit"]
    assert none.startswith("noise 0 ")
    assert "≥ 4.50" in none
    assert none.endswith("  *")
    assert "0.500 (0 … 1.00)" in some
    assert some.endswith("2.50 (2.00 … 3.00)  *")
    assert re.search(r"  [\d.]+ … [\d.]+$", dear)  # a single run is shown by its interval
    assert len(head) == len(dear) == len(some.removesuffix("  *"))


def test_the_page_is_whole_and_needs_nothing_else(comparison):
    page = render_comparison(comparison)
    assert page.endswith("</html>\n")
    assert not re.search(r"<script|<link|<img|url\((?!#)|@import", page)
    assert page.index("<figure") < page.index('class="sentence"') < page.index("<details")
    assert page.count('class="epsilons"') == len(STATISTICS)
    # A trade-off per statistic, and that of the guarantee; one pattern, no legend.
    assert page.count('class="figures small"') == 1
    assert page.count("Privacy against accuracy: ") == len(STATISTICS) + 1
    assert "0.500 (0 … 1.00)" in page
    assert "none known" in page
    assert NO_PICTURE not in page
    assert render_comparison(comparison) == page


def test_a_statistic_that_one_run_alone_has(make_run, built_report):
    """Its cells are dashes elsewhere, and its panels show that run alone."""
    statistics = {**built_report["statistics"], "window_max": built_report["statistics"]["max"]}
    window = {"statistics": statistics, NOISE: 0.1}
    comparison = compare([make_run("a"), make_run("b", window)])
    assert comparison.statistics == (*STATISTICS, "window_max")
    printed = comparison_json(comparison)
    found = [setting["statistics"]["window_max"]["shift_fit"] for setting in printed["settings"]]
    assert found[0] is not None
    assert found[1] is None
    assert printed["pareto"]["by_statistic"]["window_max"]["shift_fit"] == ["noise 0.1"]
    lines = comparison_lines(comparison)
    start = next(i for i, line in enumerate(lines) if line.startswith("window_max "))
    assert lines[start + 2].split() == ["noise", "0.5", "–", "–", "–"]
    page = render_comparison(comparison)
    assert page.count('class="epsilons"') == len(STATISTICS) + 1
    assert "“Largest in window” is missing in" in page


# What keeps runs from being compared is said in words.


def warnings_of(*folders):
    return comparability_warnings(read_reported_runs(folders))


def test_warnings_of_two_runs(make_run, built_report):
    first, second = make_run("a"), make_run("b")
    assert warnings_of(first, make_run("c", {"config.seed": 2}, {"shift_fit": 0.1})) == []
    assert warnings_of(first, second) == [
        f"{first} and {second} hold the same numbers: the two runs are no independent repetitions."
    ]
    rest = {name: s for name, s in built_report["statistics"].items() if name != "max"}
    lacking = make_run("d", {"statistics": rest})
    assert warnings_of(first, lacking) == [
        f"The statistic “Largest round” is missing in {lacking}."
    ]


@pytest.mark.parametrize(
    ("path", "value", "words"),
    [
        ("run.task", "emnist", "task, “digits”, “emnist”"),
        ("run.accuracy_description", "share of words", "measure of accuracy"),
        ("run.dim", 123, "number of parameters, “10000”, “123”"),
        ("run.delta", 1e-5, "δ, “0.001”, “1e-05”"),
        ("config.audit.confidence", 0.99, "confidence of bounds, “0.95”, “0.99”"),
        ("run.num_canaries", 100, "number of canaries, “60”, “100”"),
        ("analytical.neighbours", "add or remove one", "neighbouring relation"),
        ("fl_audit_version", "9", "fl-audit version"),
        (
            "run.release.denominator.expected",
            30.0,
            "from 20.0 to 30.0 clients and canaries a round",
        ),
    ],
)
def test_a_difference_is_named(make_run, path, value, words):
    changes = {path: value, "config.seed": 2}
    (warning,) = warnings_of(make_run("a"), make_run("b", changes, {"shift_fit": 0.1}))
    assert words in warning


def test_a_mechanism_that_is_not_as_configured_is_named(make_run, built_report):
    made = built_report["checks"]["results"][0]
    check = {**made, "name": "enough_noise", "p_value": 0.0}
    changes = {"config.seed": 2, "checks.results": [check, {**check, "name": "of tomorrow"}]}
    failing = make_run("b", changes, {"shift_fit": 0.1})
    (warning,) = warnings_of(make_run("a"), failing)
    assert warning == (
        f"The mechanism of {failing} is not as configured: Enough noise, of tomorrow failed. The "
        "upper bound shown is for the configured mechanism, not for the one that ran."
    )


def test_lost_canaries_are_named(make_run):
    lost = make_run("b", {"config.seed": 2, "arrival": LOST}, {"shift_fit": 0.1})
    (warning,) = warnings_of(make_run("a"), lost)
    assert warning == (
        f"The canary check of {lost} failed, so its scores do not measure leakage: they are "
        "missing."
    )


def test_a_log_that_states_its_noise_is_accounted_and_may_be_wrong(make_run, built_report):
    made = {**built_report["checks"]["results"][0], "name": "enough_noise", "p_value": 0.0}
    (_, run) = read_reported_runs([make_run("a"), make_run("b", {"checks.results": [made]})])
    log = dataclasses.replace(run.report, run=None, config=None)
    silent = dataclasses.replace(log, analytical=None)
    logs = [ReportedRun(Path(name), of, {}, {}) for name, of in (("log", log), ("silent", silent))]
    start = "Scores of another system, whose accuracy"
    failed = "is not as stated: Enough noise failed."
    assert comparability_warnings([logs[0]]) == [
        f"{start} and config are not known, and whose accounting is for the noise and rounds that "
        "its log states: log.",
        f"The mechanism of log {failed} The upper bound shown is for the stated mechanism, not for "
        "the one that ran.",
    ]
    assert comparability_warnings([logs[1]]) == [
        f"{start}, accounting and config are not known: silent.",
        f"The mechanism of silent {failed}",
    ]


def test_baselines_without_canaries_are_named_once_and_are_no_copies(make_run):
    none = {"run.num_canaries": 0, "run.num_included": 0, "statistics": {}}
    first, second = (make_run(f"b{seed}", none | {"config.seed": seed}) for seed in (2, 3))
    (warning,) = warnings_of(make_run("a"), first, second)
    assert warning == f"Without canaries, so compared by accuracy alone: {first}, {second}."


# The Pareto front against its definition, pair by pair.


def dominated(i, lower, upper, accuracy):
    return any(
        upper[j] <= lower[i]
        and accuracy[j] >= accuracy[i]
        and (upper[j] < lower[i] or accuracy[j] > accuracy[i])
        for j in range(len(lower))
        if j != i
    )


@pytest.mark.parametrize("seed", range(15))
@pytest.mark.parametrize("has_width", [False, True])
def test_agrees_with_the_definition(seed, has_width):
    rng = np.random.default_rng(seed)
    num = int(rng.integers(1, 12))
    # Few values, so that ties are common; the last stands for infinity.
    values = np.array([0.0, 0.5, 1.0, 2.0, np.inf])
    lower = upper = values[rng.integers(5, size=num)]
    if has_width:
        upper = np.maximum(lower, values[rng.integers(5, size=num)])
    accuracy = rng.integers(4, size=num) / 4
    expected = [not dominated(i, lower, upper, accuracy) for i in range(num)]
    assert pareto_front(lower, upper, accuracy).tolist() == expected


# Logs and scores of other systems beside finished runs.


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


# `fl-audit compare` as a user calls it.


PRINTED = "config.mechanism.noise_multiplier"


@pytest.fixture
def folders(make_run):
    changes = {PRINTED: 0, "analytical.canary.epsilon": "inf"}
    return [str(make_run("a", changes)), str(make_run("b", {PRINTED: 0.3}))]


def test_says_whose_training_went_wrong(make_run, capsys, tmp_path):
    fault = {"name": "loss grows", "words": "The training loss grew from 2 to 9."}
    runs = [make_run("a", {PRINTED: 0}), make_run("b", {PRINTED: 0.3, "faults": [fault]})]
    page = tmp_path / "page.html"
    assert main(["compare", *map(str, runs), "--out", str(page)]) == 0
    assert "faults of training" in capsys.readouterr().out
    assert "Faults of training" in page.read_text()
    assert "loss grows" in page.read_text()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], "required and not given: DIR"),
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
    assert printed.out == ""  # refused before the folders are read
    assert "page.html: cannot be written: No such file or directory" in printed.err


def test_a_page_without_a_picture_says_why():
    runs = [ROOT / "tests/recorded/inputs/runs" / name for name in ("noisy", "silent")]
    assert NO_PICTURE in render_comparison(compare(runs))
