"""Numbers on the pages of experiments, made again by their commands: tables, or rows of long ones.

`make experiments-small`, whose tables tests/experiments/test_small_experiments.py compares, makes
the others that take under a minute.
"""

import doctest
import itertools
import json
import re
import sys

import numpy as np
import pytest
from experiment_pages import ROOT, page_rows, page_text, row_of, table_rows

from experiments.andrew2023_table1 import law as andrew_law
from experiments.broken_mechanisms import power
from experiments.coverage import own_rounds, quickstart_seeds
from experiments.coverage import run as coverage
from experiments.negoescu2024_appendix_b import figures as figures_3_to_5
from experiments.negoescu2024_appendix_b import run as gamma_losses
from experiments.stackoverflow import predicted
from experiments.steinke2023_training import run as steinke_training
from fl_audit.estimators import AuditSetting, CanaryScores
from fl_audit.estimators.distributions import Gaussian
from fl_audit.estimators.epsilon_star import epsilon_star_of_distributions

slow = pytest.mark.slow


def printed(main, capsys):
    """The rows of the tables that a program prints."""
    main()
    return table_rows(capsys.readouterr().out)


# Andrew et al. (2023), Table 1.


@pytest.mark.parametrize("epsilon", ["1", "3", "10"])
def test_andrew_by_real_releases(epsilon):
    folder = ROOT / "experiments/andrew2023_table1"
    found = json.loads((folder / f"epsilon_{epsilon}.json").read_text())
    row = row_of("andrew2023_table1", epsilon)
    assert row[1] == f"{found['sigma']:.4f}"
    assert row[5] == f"{found['mean']:.3f} ± {found['std']:.3f}"
    assert np.mean(found["epsilons"]) == pytest.approx(found["mean"], rel=1e-9)
    assert np.std(found["epsilons"]) == pytest.approx(found["std"], rel=1e-9)


@slow
def test_andrew_by_the_exact_law(capsys):
    andrew_law.main()
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 6
    for line in lines:
        epsilon, trials, cell = re.fullmatch(r"epsilon (\d+), (\d+) trials: (.+)", line).groups()
        assert row_of("andrew2023_table1", epsilon)[{"50": 3, "20000": 4}[trials]] == cell


# Zanella-Béguelin et al. (2022), Table 2.

_ATTACKED = {
    "plain": "digits, 50 epochs without noise (96.2 % right)",
    "no_noise": "digits, five epochs without noise (89.9 % right)",
    "epsilon_8": "the same with DP-SGD",
    "epsilon_1": "the same, other noise, 512 challenges",
}


@slow
@pytest.mark.tff
@pytest.mark.parametrize("name", _ATTACKED)
def test_zanella_beguelin_table_2(name, tmp_path):
    from experiments.zanella_beguelin2023_figures import run as figures
    from fl_audit.cli import main

    config = ROOT / f"experiments/zanella_beguelin2023_figures/{name}.toml"
    main(["attack", str(config), "--out", str(tmp_path / name)])
    rows = figures._table_2(tmp_path / name)
    found = {way: words for _, way, words, _ in rows}
    shown = row_of("zanella_beguelin2023_figures", _ATTACKED[name])
    for cell, way in zip(shown, ("Clopper-Pearson", "Jeffreys", "Bayes"), strict=False):
        interval = found[way].rpartition(",")[0].replace("inf", "∞")
        assert cell.replace(".00", "") == interval.replace("0.00", "0"), way
    text = " ".join(page_text("zanella_beguelin2023_figures").split())
    (valid,) = re.findall(
        "although the threshold is chosen prove (.+?), (.+?), (.+?) and (.+?)\\. ", text
    )
    report = json.loads((tmp_path / name / "report.json").read_text())
    (bound,) = (
        estimate["epsilon"]
        for estimate in report["statistics"]["lira"]["estimates"]
        if estimate["method"] == "threshold_valid"
    )
    assert _rounded(bound) == valid[list(_ATTACKED).index(name)]
    if name == "no_noise":
        same, own = (
            {way: cells[place].rpartition(", ")[2] for _, way, *cells in rows} for place in (1, 0)
        )
        assert (
            f"{same['Clopper-Pearson']} by Clopper-Pearson, {same['Jeffreys']} by Jeffreys and "
            f"{same['Bayes']} by Bayes"
        ) in text
        assert f"({own['Jeffreys']} and {own['Clopper-Pearson']})" in text
        counts = figures._best_of(tmp_path / name)
        members = counts.true_positives + counts.false_negatives
        others = counts.false_positives + counts.true_negatives
        called = f"{counts.true_positives} of {members} members and {counts.false_positives} of"
        assert f"{called} {others} others called members" in text


def _rounded(bound):
    return f"{bound:.2f}" if bound else "0"


# Steinke et al. (2023).


_STEINKE_POINTS = [
    (one.figure, one.name, x) for one in steinke_training.all_series() for x, _ in one.points
]
"""All points of the figures, by figure, line and place."""


@slow
@pytest.mark.parametrize(("figure", "line", "place"), _STEINKE_POINTS)
def test_steinke_points_of_figures_4_to_9(figure, line, place, monkeypatch):
    (series,) = (
        one for one in steinke_training.all_series() if (one.figure, one.name) == (figure, line)
    )
    points = [(x, setting) for x, setting in series.points if x == place]
    one = steinke_training.Series(figure, line, series.axis, points)
    monkeypatch.setattr(steinke_training, "all_series", lambda: [one])
    (row,) = table_rows("".join(steinke_training.table(list(steinke_training.measure(6, [])))))
    shown = row_of("steinke2023_training", *row[:3])
    assert [_numbers(cell) for cell in shown] == [
        # Training goes on from the rounding of its sums, which the number of threads changes.
        pytest.approx(_numbers(cell), abs=0.1 if "%" not in cell else 1)
        for cell in row[3:]
    ]


@pytest.mark.parametrize(
    ("figure", "line", "places", "words"),
    [
        (4, "ε = 8", (100, 500, 2000, 4000), "{} at m = 100, {} at 500, {} at 2,000, {} at 4,000"),
        (5, "ε = 8", (0, 1000, 1500), "{} with none, {} with 1,000, {} with 1,500"),
        (
            6,
            "ε = 8, no other images",
            (1, 5, 20, 100, 400),
            "no other images: {}, {}, {}, {}, {} at 1, 5, 20, 100, 400 steps",
        ),
        (6, "ε = 8", (1, 5, 20, 100, 400), "with 1,000: {}, {}, {}, {}, {} |"),
        (7, "ours", (1, 2, 4, 8), "{}, {}, {}, {}, at 87 %"),
        (
            8,
            "mislabelled",
            (50, 100, 200, 500, 1000, 1500),
            "mislabelled: {}, {}, {}, {}, {}, {} at m = 50 … 1,500",
        ),
        (9, "mislabelled", (0, 1500), "mislabelled: {} with none, {} with 1,500"),
        (9, "in distribution", (0, 1500), "in distribution: {} and {} |"),
    ],
)
def test_steinke_medians_beside_the_paper_are_those_of_the_points(figure, line, places, words):
    rows = [row for row in page_rows("steinke2023_training") if row[:2] == [str(figure), line]]
    medians = {row[2].rpartition(" = ")[2]: row[3].split()[0] for row in rows if len(row) == 6}
    (beside,) = (
        shown
        for shown in page_text("steinke2023_training").splitlines()
        if shown.startswith(f"| {figure} |") and shown.count("|") == 5
    )
    assert words.format(*(medians[str(place)] for place in places)) in beside


def _numbers(cell):
    return [float(number) for number in re.findall(r"\d+(?:\.\d+)?", cell)]


def test_the_example_on_the_page_of_steinkes_bounds():
    text = page_text("steinke2023_bounds")
    tests = doctest.DocTestParser().get_doctest(text, {}, "steinke2023_bounds", None, 0)
    assert len(tests.examples) == 3
    assert doctest.DocTestRunner().run(tests).failed == 0


# Negoescu et al. (2024).


@slow
def test_negoescu_gamma_losses(capsys):
    rows = printed(lambda: gamma_losses.main(10), capsys)
    assert len(rows) == 24
    shown = page_rows("negoescu2024_appendix_b")
    assert [row for row in rows if row not in shown] == []


@slow
def test_negoescu_gamma_losses_of_a_million():
    found, limits = [], []
    for d in (1, 2, 3):
        estimates = gamma_losses.estimates(d, 10**6, 1e-5, 10, seed=2024)
        found.append(f"{estimates[:, 1].mean():.2f}")
        shapes = gamma_losses.SHAPE, gamma_losses.SHAPE + d
        laws = (Gaussian(-5 * shape, 5 * shape**0.5) for shape in shapes)
        limits.append(f"{epsilon_star_of_distributions(*laws, 1e-5).epsilon:.2f}")
    text = " ".join(page_text("negoescu2024_appendix_b").split())
    assert f"with Epsilon* {limits[0]}, {limits[1]} and {limits[2]} for" in text
    assert f"means of 10 runs: {', '.join(found)})" in text


def test_negoescu_one_outlying_loss():
    random = np.random.default_rng([2024, 0, 1000])
    own, others = random.gamma(2, 5, 1000), random.gamma(2, 5, 1000)
    found = []
    for outlier in (others[0], 1000.0):
        others[0] = outlier
        setting = AuditSetting(CanaryScores(-own, -others), 1e-5, 0.95)
        found.append([method(setting).epsilon for method in gamma_losses.METHODS])
    (empirical, before), (empirical_after, after) = found
    text = " ".join(page_text("negoescu2024_appendix_b").split())
    assert f"took one run's value from {before:.1f} to {after:.1f}," in text
    assert empirical == empirical_after


@slow
@pytest.mark.tff
def test_negoescu_figure_6(capsys, monkeypatch, tmp_path):
    from experiments.negoescu2024_figure_1 import figure_6

    monkeypatch.setattr(sys, "argv", ["", str(tmp_path / "figure.png"), str(tmp_path / "models")])
    (_, *plain), (_, *private) = printed(figure_6.main, capsys)
    one, mixtures = zip(
        *[[cell.replace("%", " %") for cell in row] for row in (plain, private)], strict=True
    )
    text = " ".join(page_text("negoescu2024_figure_1").split())
    assert f"One normal passes {one[0]} of the tests without and {one[1]} with DP-SGD" in text
    assert f"of 1 to 20 components {mixtures[0]} and {mixtures[1]}" in text


@slow
@pytest.mark.tff
def test_negoescu_which_loss(capsys):
    from experiments.negoescu2024_appendix_b import digits

    rows = printed(lambda: digits.main(1), capsys)
    assert len(rows) == 8
    for epochs, accuracy, loss, zeros, *numbers in rows:
        shown = row_of("negoescu2024_appendix_b", epochs, accuracy.replace("%", " %"), loss)
        assert shown == numbers
        if (epochs, loss) == ("300", "cross-entropy"):
            words = " ".join(page_text("negoescu2024_appendix_b").split())
            assert f"exactly 0 for {zeros} of the 1,000 members after 300 epochs" in words


@slow
@pytest.mark.tff
@pytest.mark.parametrize(
    ("name", "epochs"), [*itertools.product(("digits", "breast cancer"), (1, 10, 50))]
)
def test_negoescu_figure_1_without_noise(name, epochs, tmp_path):
    from dataclasses import replace

    from experiments.negoescu2024_figure_1 import run as figure_1
    from experiments.negoescu2024_figure_1.tasks import TASKS

    task = TASKS[name]()
    members = figure_1.training_set(len(task.points))
    outputs = figure_1.trained(task, replace(task.recipe, epochs=epochs), members, tmp_path)
    way = f"{epochs} epoch{'s' * (epochs > 1)}"
    row = figure_1._row(figure_1._measured(way, outputs, members, is_private=False))
    shown = row_of("negoescu2024_figure_1", name, way)
    assert [cell.strip().replace("%", " %") for cell in row.split(" | ")[1:]] == shown


@slow
@pytest.mark.tff
def test_negoescu_losses_that_tell_nothing(capsys):
    from experiments.negoescu2024_figure_1 import uninformative_losses

    for number, parametric, empirical in printed(uninformative_losses.main, capsys)[1:]:
        text = " ".join(page_text("negoescu2024_figure_1").split())
        assert f"{parametric} with {number} members (the empirical one {empirical}" in text


@slow
def test_negoescu_figure_3(capsys, monkeypatch, tmp_path):
    monkeypatch.setattr(sys, "argv", ["", str(tmp_path / "figures.png")])
    found = [_numbers(words.split()[-1])[0] for _, words in printed(figures_3_to_5.main, capsys)]
    text = " ".join(page_text("negoescu2024_appendix_b").split())
    truth, *of_samples = (f"{largest:.1f}" for largest in found)
    assert f"the log of the largest is {truth}," in text
    assert f"{of_samples[0]}, {of_samples[1]} and {of_samples[2]}, at the ends" in text


# How often bounds exceed the truth.


@slow
@pytest.mark.parametrize(
    ("epsilon", "num_canaries"), [(0.5, 100), (4.0, 1000)], ids=["few canaries", "many"]
)
@pytest.mark.parametrize("kind", range(5))
def test_coverage_of_known_mechanisms(epsilon, num_canaries, kind):
    mechanism = coverage.mechanisms(epsilon)[kind]
    (row,) = table_rows(coverage.row(mechanism, num_canaries, 200))
    assert row_of("coverage", *row[:3]) == row[3:]


@slow
def test_coverage_of_claims_on_the_quickstart(capsys):
    common = {"0": "cancel", "20": "all point one way"}
    rows = printed(lambda: quickstart_seeds.claimed(range(1, 21)), capsys)[1:]
    assert len(rows) == 6
    for clients, noise, contradicted, p in rows:
        shown = row_of("coverage", common[clients], noise)
        assert shown == [contradicted, "below 2e-12" if _numbers(p)[0] < 2 and "e-12" in p else p]


@slow
def test_coverage_of_bounds_on_the_quickstart(capsys):
    head, _, extreme = printed(lambda: quickstart_seeds.lower_bound(range(1, 21)), capsys)
    for method, cell in zip(head[2:-1], extreme[2:-1], strict=True):
        median, low, high = _numbers(cell)
        assert row_of("coverage", f"`{method}`") == [f"{median:g}", f"{low:g} to {high:g}"]


@slow
@pytest.mark.parametrize(
    "cell",
    [next(own_rounds.worlds()), next(own_rounds.live())],
    ids=["worlds", "live"],
)
def test_coverage_of_own_rounds(cell):
    runs = 100 if cell.own == 1 else 60
    (row,) = table_rows(own_rounds._row(cell, runs, (*own_rounds.BOUNDS, "live")))
    shown = row_of("coverage", *row[:8])
    names = [*own_rounds.BOUNDS, "live"]
    found, on_page = (dict(zip(names, cells, strict=True)) for cells in (row[8:], shown))
    found.pop("one_run_valid")
    on_page.pop("one_run_valid")
    assert on_page == found


# Stack Overflow, as a plan predicts it.


@slow
@pytest.mark.parametrize("noise", predicted.NOISES)
@pytest.mark.parametrize("clip_norm", [0.1, 1.0])
def test_what_a_plan_says_of_stack_overflow(noise, clip_norm):
    cells = predicted.predicted(predicted.planned(noise, clip_norm), 3)
    rows = [row[1:] for row in page_rows("stackoverflow") if row[0] == f"{noise:g}"]
    if clip_norm == 0.1:
        (shown,) = (row for row in rows if ["…" in cell for cell in row] == 4 * [True])
    else:
        (shown,) = (row[::2] for row in rows if ["…" in cell for cell in row] == 2 * [True, False])
        cells = cells[2:]
    _rounds_to(shown, cells)


@slow
def test_the_second_simulation_of_stack_overflow(capsys, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["", "--trials", "19"])
    monkeypatch.setattr(predicted, "predicted", lambda run, trials: [])
    _, *rows = printed(predicted.main, capsys)
    found = [cell for _, cell in rows]
    for shown, cell in zip(row_of("stackoverflow", "simulated"), found, strict=True):
        # The range is on the page where it is no point.
        numbers = cell if "…" in shown else cell.split()[0]
        _rounds_to([shown], [numbers])


def _rounds_to(shown, found):
    """Whether the numbers of each cell on a page are those found, to the page's last place."""
    for on_page, cell in zip(shown, found, strict=True):
        words = re.findall(r"[\d,.]*\d", on_page)
        numbers = re.findall(r"\d[\d.]*(?:e[+-]\d+)?", cell)
        for word, number in zip(words, numbers, strict=True):
            places = len(word.partition(".")[2])
            assert abs(float(word.replace(",", "")) - float(number)) < 0.501 * 10**-places, cell


# Broken mechanisms.


@slow
def test_power_against_bugs_of_some_sizes(capsys, monkeypatch):
    monkeypatch.setattr(sys, "argv", [""])
    found = {row[0]: row[1:] for row in printed(power.main, capsys)[1:]}
    page = {
        "correct": "(none)",
        "one upload in ten counted twice": "one upload in ten counted twice",
        "drawn with replacement, one_draw": "drawn with replacement, one_draw",
    }
    for name, cells in found.items():
        title = page.get(name, "noise not scaled, clip by variable, half the noise, counted twice")
        rows = [row[1:] for row in page_rows("broken_mechanisms") if row[0] == title]
        assert cells in rows, name
