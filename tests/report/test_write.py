"""The two reports of a run: what they hold, and that they say nothing they should not."""

import json
import math
import re
import subprocess
import sys
from html.parser import HTMLParser

import pytest

from fl_audit.config.file import config_to_toml, parse_config
from fl_audit.errors import InputError
from fl_audit.formats.run_record import read_record
from fl_audit.json_records import to_json
from fl_audit.report import report_to_json, write_report
from fl_audit.report.finished_run import read_finished_run
from fl_audit.report.headline import headline
from fl_audit.report.page import page_of_run
from tests.report.conftest import CONFIG

STATISTICS = ("final", "final_minus_initial", "max", "sum")


def strict_json(text: str) -> dict:
    """Parses JSON that holds no NaN and no infinity."""

    def refuse(name: str) -> None:
        raise AssertionError(f"{name} in JSON")

    return json.loads(text, parse_constant=refuse)


def test_report_json_is_what_the_contract_asks_for(reported):
    report = report_to_json(reported.report)
    assert strict_json(reported.folder.report_json.read_text()) == report
    assert set(report["statistics"]) == set(STATISTICS)
    assert report["accuracy"] == 0.9432
    assert report["verdict"]["claim"]["kind"] == "configured"
    record = to_json(read_record(reported.folder))
    assert report["run"] == {**record, "variable_sizes": [90_000, 9_990, 10]}
    assert report["config"]["task"] == {"kind": "digits", "num_clients": 300, "hidden": [512, 256]}
    # 4 participations at noise multiplier 0.3 are one at 0.15, for a real client; canaries: 1.
    assert report["analytical_epsilon"] == report["analytical"]["client"]["epsilon"]
    assert report["analytical_epsilon"] > report["analytical"]["canary"]["epsilon"] > 10


def test_the_null_check_compares_excluded_scores_with_the_known_law(reported):
    statistics = reported.report.statistics
    printed = strict_json(reported.folder.report_json.read_text())["statistics"]
    for name in ("final", "final_minus_initial"):
        check = statistics[name].null_check
        n, dim = printed[name]["null_check"]["num_excluded"], 100_000
        assert n == statistics[name].num_excluded
        assert (check.mean_expected, check.variance_expected) == (0, 1 / dim)
        assert check.mean_standard_error == pytest.approx(math.sqrt(1 / dim / n))
        assert check.variance_standard_error == pytest.approx(math.sqrt(2 / (n - 1)) / dim)
        # The scores are drawn from the null distribution with a fixed seed.
        assert abs(check.mean) < 4 * check.mean_standard_error
        assert abs(check.variance * dim - 1) < 4 * check.variance_standard_error * dim
    assert statistics["max"].null_check is None
    assert statistics["sum"].null_check is None


@pytest.fixture(scope="module")
def page(reported) -> str:
    """The page of the report, with its pictures, which no test file that is run before looks at."""
    return page_of_run(reported.report, read_finished_run(reported.folder))


def test_the_same_run_gives_the_same_bytes(run_folder):
    audit = {**CONFIG["audit"], "claim": "none"}
    run_folder.config.write_text(config_to_toml(parse_config({**CONFIG, "audit": audit}, "config")))
    write_report(run_folder)
    first = run_folder.report_html.read_bytes(), run_folder.report_json.read_bytes()
    # In another process, so that hashes and caches differ.
    program = (
        "import sys, pathlib; from fl_audit.report import write_report; "
        "from fl_audit.formats.folders import RunFolder; "
        "write_report(RunFolder(pathlib.Path(sys.argv[1]))); "
        "assert 'tensorflow' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", program, str(run_folder.path)], check=True)
    assert (run_folder.report_html.read_bytes(), run_folder.report_json.read_bytes()) == first


class Page(HTMLParser):
    """Tags and attributes that load something."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.loads: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        loading = ("src", "href", "xlink:href", "srcset", "data", "action")
        self.loads += [value or "" for name, value in attrs if name in loading]


def test_the_page_needs_nothing_but_itself(page):
    found = Page(page)
    assert found.tags.isdisjoint({"script", "link", "img", "iframe", "object", "base"})
    assert all(load.startswith("#") for load in found.loads)
    assert found.loads
    assert not re.search(r"url\((?!#)", page)
    assert "@import" not in page
    assert page.count("<figure") == 1 + 4 + 3  # the picture, histograms, curves
    assert "nan" not in re.findall(r"\b\w+\b", page.lower())


class Shown(HTMLParser):
    """The words that are there before anything is unfolded, and the ids of links and places."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.words: list[str] = []
        self.folded = 0
        self.links: set[str] = set()
        self.places: set[str] = set()
        self.feed(text.partition("<body>")[2])

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.folded += {"details": 1, "summary": -1}.get(tag, 0)
        named = dict(attrs)
        if tag == "a":
            self.links.add((named["href"] or "").removeprefix("#"))
        if tag == "div" and named.get("id"):
            self.places.add(named["id"] or "")

    def handle_endtag(self, tag: str) -> None:
        self.folded += {"details": -1, "summary": 1}.get(tag, 0)

    def handle_data(self, data: str) -> None:
        if self.folded == 0:
            self.words += data.split()


def test_the_answer_is_there_before_anything_is_unfolded(reported, page):
    # A telephone shows the narrow picture instead of the wide one.
    shown = Shown(re.sub(r'(?s)<div class="narrow">.*?</div>', "", page))
    text = " ".join(shown.words)
    assert len(shown.words) < 450
    assert "No claim was stated, so this tests whether the scores fit the configured noise" in text
    answer = headline(reported.report)
    assert answer.sentence() in text
    for number in answer.answers():
        assert number.value in text
    assert "Anderson-Darling" not in text
    assert f"Run {reported.folder.path.name} , finished 20" in text
    assert shown.links == shown.places
    assert len(shown.links) == 12


def test_hostile_names_are_escaped(run_folder, change_record):
    hostile = "<script>alert('x')</script>"
    change_record(task=hostile, accuracy_description=hostile, versions={hostile: hostile})
    write_report(run_folder)
    text = run_folder.report_html.read_text()
    assert "<script" not in text
    assert text.count("&lt;script&gt;") >= 5


def test_the_page_shows_the_numbers_of_the_json(reported):
    report = reported.report
    text = reported.html
    final = report.statistics["final_minus_initial"].estimates[0]
    assert final.method == "gaussian_fit"
    assert f'<td class="number">{final.epsilon:.2f}</td>' in text
    for estimate_ in report.statistics["final"].estimates:
        assert estimate_.method.replace("_", "_<wbr>") in text
        assert estimate_.source.partition("&")[0] in text


def break_json(folder):
    folder.record.write_text('{"task": "di')


def break_noise(folder):
    fields = json.loads(folder.record.read_text())
    fields["release"]["noise"]["noise_multiplier"] = 0.31
    folder.record.write_text(json.dumps(fields))


def drop_canary(folder):
    lines = folder.canaries.read_text().splitlines()
    folder.canaries.write_text("\n".join(lines[:-1]) + "\n")


def flip_inclusion(folder):
    text = folder.scores("max").read_text()
    assert "\n0,0," in text or "\n0,1," in text
    flipped = re.sub(r"\n0,([01]),", lambda m: f"\n0,{1 - int(m[1])},", text, count=1)
    folder.scores("max").write_text(flipped)


def replace_in(name, old, new):
    def damage(folder):
        path = getattr(folder, name)
        text = path.read_text()
        assert old in text
        path.write_text(text.replace(old, new, 1))

    return damage


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda folder: folder.config.unlink(), "config.toml: cannot be read"),
        (lambda folder: folder.metrics.unlink(), "metrics.csv: cannot be read"),
        (lambda folder: folder.canaries.unlink(), "canaries.csv: cannot be read"),
        (lambda folder: folder.record.unlink(), "run.json: cannot be read"),
        (lambda folder: folder.aggregates.unlink(), "aggregates.npy: is not a log of aggregates"),
        (lambda folder: folder.round_noise.unlink(), "round_noise.npy: is not a log of noise"),
        (lambda folder: folder.scores("sum").unlink(), "scores_sum.csv: cannot be read"),
        (break_json, "run.json: is not a run record"),
        (break_noise, "run.json: is not a run record: noise_multiplier must be"),
        (drop_canary, "canaries.csv: must list the 200 canaries of run.json, got 199"),
        (flip_inclusion, "scores_max.csv: must score exactly the canaries of canaries.csv"),
        (replace_in("metrics", "\n40,", "\n41,"), "metrics.csv: must hold rounds 1 to 40"),
        (replace_in("metrics", ",30,3,0.1100,", ",30,3,abc,"), "metrics.csv: .* not a number"),
        (replace_in("metrics", "clip_norm", "clip"), "metrics.csv: has no column 'clip_norm'"),
        (replace_in("metrics", "2.1,0.1,\n2,", "2.1\n2,"), "metrics.csv, line 2: must have 11"),
        (replace_in("canaries", "\n0,", "\n0,2"), "canaries.csv, row 1: included must be 0 or 1"),
        (replace_in("canaries", "canary_id", "\x00"), "canaries.csv: "),
        (replace_in("config", "seed = 1", "sead = 1"), "config.toml: unknown key `sead`"),
    ],
)
def test_a_damaged_run_is_refused_and_nothing_is_written(run_folder, damage, message):
    damage(run_folder)
    with pytest.raises(InputError, match=message) as caught:
        write_report(run_folder)
    assert "\n" not in str(caught.value)
    assert not run_folder.report_html.exists()
    assert not run_folder.report_json.exists()
