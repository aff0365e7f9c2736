"""Each page in a browser: nothing is cut off, overlaps, is too pale, or needs a mouse."""

import shutil
from pathlib import Path

import numpy as np
import pytest

from fl_audit.cli import main
from fl_audit.config.file import config_to_toml, parse_config
from fl_audit.estimators import CanaryScores, estimate
from fl_audit.estimators.challenge_bases.counts_and_priors import ChallengeCounts, Prior
from fl_audit.estimators.challenge_bases.grid import grid_posterior
from fl_audit.formats.folders import RunFolder
from fl_audit.membership.outputs import epsilon_star_of_model
from fl_audit.report import write_report
from fl_audit.report.attack import (
    AccountedBound,
    AttackedMember,
    AttackReport,
    AttackWords,
    render_attack,
)
from fl_audit.sweeps import sweep
from tests.report.chromium import PROGRAM, Chromium
from tests.report.conftest import CONFIG, fill
from tests.tests_of_docs import ROOT

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not shutil.which(PROGRAM), reason=f"{PROGRAM} is not installed"),
]

INPUTS = ROOT / "tests/recorded/inputs"
PAGES = ("run", "log", "compare", "attack", "sweep")

SIDEWAYS = "document.documentElement.scrollWidth - window.innerWidth"
WORDS = "document.body.innerText.split(/\\s+/).filter(word => word).length"
UNFOLD = "document.querySelectorAll('details').forEach(one => one.open = true)"
FOLDED = "[...document.querySelectorAll('details:not([open]) > summary')].map(s => s.innerText)"
FOCUSED = "document.activeElement.tagName == 'SUMMARY' && !document.activeElement.parentNode.open"

OVERLAPPING = """[...document.querySelectorAll('svg')].flatMap(svg => {
  const texts = [...svg.querySelectorAll('text')].filter(t => t.textContent.trim())
    .map(t => [t.textContent.trim(), t.getBoundingClientRect()]).filter(([, box]) => box.width);
  return texts.flatMap(([one, a], i) => texts.slice(i + 1)
    .filter(([, b]) => Math.min(a.right, b.right) - Math.max(a.left, b.left) > 0.5
                    && Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top) > 3)
    .map(([other]) => `${one} / ${other}`));
})"""
"""Pairs of texts in one picture whose boxes meet."""

PALE = """(() => {
  const numbers = colour => colour.match(/[\\d.]+/g).map(Number);
  const light = ([r, g, b]) => [r, g, b].map(c => c / 255)
    .map(c => c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4)
    .reduce((sum, c, i) => sum + c * [0.2126, 0.7152, 0.0722][i], 0);
  const behind = one => {
    for (; one; one = one.parentElement) {
      const [r, g, b, a = 1] = numbers(getComputedStyle(one).backgroundColor);
      if (a == 1) return [r, g, b];
    }
    return [255, 255, 255];
  };
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT), found = [];
  while (walker.nextNode()) {
    const one = walker.currentNode.parentElement, text = walker.currentNode.textContent.trim();
    if (!text || !one.getClientRects().length || one.closest('style, script')) continue;
    const style = getComputedStyle(one), size = parseFloat(style.fontSize);
    const ink = one.closest('svg') ? style.fill : style.color;
    const levels = [light(numbers(ink)), light(behind(one))].sort((a, b) => b - a);
    const isLarge = size >= 24 || (size >= 18.66 && style.fontWeight >= 600);
    const ratio = (levels[0] + 0.05) / (levels[1] + 0.05);
    if (ratio < (isLarge ? 3 : 4.5)) found.push(`${text}: ${ratio.toFixed(2)}`);
  }
  return found;
})()"""
"""Texts with less contrast than WCAG 2.1, success criterion 1.4.3, asks for."""


def attack_page() -> str:
    """The page of an attack on 60 models of which 30 had the point, by three scores."""
    rng = np.random.default_rng(1)
    scores = {
        name: CanaryScores(rng.normal(shift, 1, 30), rng.normal(0, 1, 30))
        for name, shift in (("lira", 2.5), ("loss", 1.5), ("margin", 2.0))
    }
    methods = ("bayes", "threshold_valid", "threshold_jeffreys", "threshold_clopper_pearson")
    asked = {"delta": 1e-5, "confidence": 0.9, "methods": methods}
    counts = ChallengeCounts(fp=[3, 2], n0=[30, 30], fn=[4, 9], n1=[30, 30])
    members = tuple(
        AttackedMember(i, {"label": i}, rng.random((8, 8, 1)), accuracy=0.9, separation=2.0)
        for i in range(2)
    )
    report = AttackReport(
        scores=scores,
        results={name: estimate(values, **asked) for name, values in scores.items()},
        counts=counts,
        posterior=grid_posterior(counts, 1e-5, Prior()),
        privacy=epsilon_star_of_model(rng.normal(3, 1, 90), rng.normal(2, 1, 90), 1e-5),
        members=members,
        accuracy=0.94,
        upper_bound=AccountedBound(8.0, 0.7, "DP-SGD", "trainings with and without the point"),
        words=AttackWords("models", "point", "Each challenge is a model.", "share of points"),
        num_models=96,
        delta=1e-5,
        confidence=0.9,
    )
    return render_attack(report)


def other_runs(folder: Path) -> list[Path]:
    """Two more runs as `reported` is: of another seed, and of a third of the noise."""
    runs = []
    for name, changed, noise in (("again", {"seed": 2}, 0.3), ("quiet", {}, 0.1)):
        (folder / name).mkdir()
        run = fill(RunFolder(folder / name), noise)
        mechanism = {**CONFIG["mechanism"], "noise_multiplier": noise}
        config = parse_config({**CONFIG, **changed, "mechanism": mechanism}, "config")
        run.config.write_text(config_to_toml(config))
        write_report(run)
        runs.append(run.path)
    return runs


@pytest.fixture(scope="module")
def pages(tmp_path_factory, reported):
    folder = tmp_path_factory.mktemp("pages")
    paths = {name: folder / f"{name}.html" for name in PAGES}
    paths["run"].write_text(reported.html, encoding="utf-8")
    log = ["estimate", str(INPUTS / "log_of_aggregates"), "--delta", "1e-3"]
    assert main([*log, "--claimed-epsilon", "8", "--out", str(paths["log"])]) == 0
    runs = [reported.folder.path, *other_runs(folder)]
    assert main(["compare", *map(str, runs), "--out", str(paths["compare"])]) == 0
    assert '<figure class="epsilons"' in paths["compare"].read_text(encoding="utf-8")
    swept = [shutil.copytree(run, folder / "sweep/runs" / run.name) for run in runs]
    states = [sweep.RunState(run.name, {}, "finished", run) for run in swept]
    sweep._compare(states, folder / "sweep")
    paths["sweep"] = folder / "sweep/compare.html"
    paths["attack"].write_text(attack_page(), encoding="utf-8")
    return paths


@pytest.fixture(params=PAGES)
def page(request, pages):
    return pages[request.param]


@pytest.fixture
def browser(tmp_path):
    with Chromium(tmp_path / "profile") as opened:
        yield opened
        assert not opened.errors


@pytest.mark.parametrize("style", ["light", "dark"])
@pytest.mark.parametrize("width", [400, 1300])
def test_nothing_is_cut_off_overlaps_or_is_pale(browser, page, width, style):
    browser.open(page, width, style)
    for fold in ("0", UNFOLD):
        browser.value(fold)
        assert browser.value(SIDEWAYS) <= 0
        assert browser.value(OVERLAPPING) == []
        assert browser.value(PALE) == []


def test_every_section_opens_by_keyboard(browser, page):
    browser.open(page, 1300, "light")
    closed = browser.value(FOLDED)
    for _ in range(400):
        if not closed:
            break
        browser.press("Tab")
        if browser.value(FOCUSED):
            browser.press("Enter")
        closed = browser.value(FOLDED)
    assert closed == []


def test_what_is_unfolded_has_fewer_than_500_words(browser, page):
    browser.open(page, 1300, "light")
    assert 20 < browser.value(WORDS) < 500


def test_the_checks_find_what_they_are_for(browser, tmp_path):
    bad = tmp_path / "bad.html"
    bad.write_text(
        "<p style='width: 600px; color: #999'>pale</p><svg><text y='20'>over</text>"
        "<text y='20' x='9'>lap</text></svg>"
    )
    browser.open(bad, 400, "light")
    assert browser.value(SIDEWAYS) > 0
    assert browser.value(OVERLAPPING) == ["over / lap"]
    assert browser.value(PALE) == ["pale: 2.85"]
    browser.value("console.error('seen')")
    assert browser.errors
    browser.errors.clear()
