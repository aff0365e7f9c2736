"""A comparison as JSON, as lines and as a page."""

import json
import re

import pytest

from fl_audit.comparison import compare, comparison_json, comparison_lines, render_comparison
from fl_audit.comparison.tables import brief_lines
from fl_audit.verdict import Claim, Verdict
from fl_audit.verdict.decision import Outcome

STATISTICS = ("final", "final_minus_initial", "max", "sum")

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
        "With 1 round per canary, by “Largest round”, settings leak from the least ε to the most: "
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


def test_the_answer_is_short_and_the_tables_stand_behind_it(comparison):
    brief, full = brief_lines(comparison), comparison_lines(comparison)
    assert full[: len(brief)] == brief
    assert len(brief) <= 2 + 2 + 1 + 1 + len(comparison.settings)


def test_lines_say_where_no_guarantee_is_known(comparison):
    lines = comparison_lines(comparison)
    (dear,) = [line for line in lines if line.startswith("noise 1") and "70.0 %" in line]
    assert "none known" in dear
    (none,) = [line for line in lines if line.startswith("noise 0 ") and "95.0 %" in line]
    assert none.split()[-2:] == ["∞", "∞"]


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
    assert render_comparison(comparison) == page


def test_references_inside_figures_are_unique(comparison):
    ids = re.findall(r'\bid="([mp][0-9a-f]{10})"', render_comparison(comparison))
    assert ids
    assert len(ids) == len(set(ids))


def test_names_from_folders_are_escaped(make_run):
    page = render_comparison(compare([make_run("a<b>"), make_run("c", {NOISE: 0.1})]))
    assert "a<b>" not in page
    assert "a&lt;b&gt;" in page


def test_one_noise_level_stands_by_pattern(make_run):
    repeats = "config.participation.canary_repeats"
    comparison = compare([make_run("a"), make_run("b", {repeats: 4}), make_run("c", {repeats: 2})])
    assert comparison.patterns == ("repeats 1", "repeats 2", "repeats 4")


def test_a_method_that_was_left_out(make_run, built_report):
    statistics = {
        name: {**s, "estimates": [e for e in s["estimates"] if e["method"] != "shift_fit"]}
        for name, s in built_report["statistics"].items()
    }
    folders = [make_run("a", {"statistics": statistics}), make_run("b", {NOISE: 0.1})]
    comparison = compare(folders)
    first = comparison_json(comparison)["settings"][1]
    assert first["statistics"]["max"]["shift_fit"] is None
    assert "–" in "\n".join(comparison_lines(comparison))
    assert "–" in render_comparison(comparison)


def test_verdicts_are_shown_where_something_was_claimed(make_run, comparison):
    reached = Verdict(Outcome.CONTRADICTED, "…", Claim(2.0, 1e-3), confidence=0.95, num_tests=8)
    verdict = reached.to_json()
    claimed = compare([make_run("a", {"verdict": verdict}), make_run("b", {NOISE: 0.1})])
    assert "ε ≤ 2: contradicted" in "\n".join(comparison_lines(claimed))
    assert "ε ≤ 2: contradicted" in render_comparison(claimed)
    assert "Claim and verdict" not in render_comparison(comparison)


def test_warnings_are_printed_and_on_the_page(make_run):
    comparison = compare([make_run("a"), make_run("b", {NOISE: 0.1, "run.dim": 5})])
    assert any(line.startswith("warning: The runs differ") for line in comparison_lines(comparison))
    assert "number of parameters, “10000”, “5”" in render_comparison(comparison)


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
