"""The page of every audit, of a log or of a folder of scores, and files in it that disagree."""

import html
import json
import re
import shlex
from pathlib import Path

import numpy as np
import pytest

from fl_audit.attacks import CanaryPool, RoundScorer
from fl_audit.cli import main
from fl_audit.errors import InputError
from fl_audit.formats.participation_files import Participation
from fl_audit.formats.score_file import read_score_file, write_score_file
from fl_audit.number_words import delta_text, lower_bound_text
from fl_audit.report.build import EstimateRequest, report_on_folder
from fl_audit.report.folder import AuditedFolder, folder_statistics
from fl_audit.report.verdict_words import verdict_facts
from fl_audit.verdict import Claim
from tests.report.conftest import Reported

DIM, COUNT = 4000, 300


@pytest.fixture(scope="module")
def audit(tmp_path_factory) -> RoundScorer:
    """The folder of another system's audit, as `RoundScorer` leaves it."""
    random, pool = np.random.default_rng(1), CanaryPool(seed=1, count=COUNT, dim=DIM)
    scorer = RoundScorer.create(tmp_path_factory.mktemp("audits") / "audit", pool, 3)
    initial = model = random.normal(size=DIM)
    together = sum(pool.vector(int(canary)) for canary in np.flatnonzero(pool.included))
    for number in (1, 2, 3):
        moved = together + random.normal(0, 2, DIM)
        scorer.score_round(number, moved)
        model = model + moved
    scorer.finish(initial=initial, final=model)
    return scorer


def text_of(page: Path) -> str:
    body = page.read_text().partition("<body>")[2]
    return " ".join(html.unescape(re.sub(r"<[^>]*>", " ", body)).split())


def estimated(capsys, *argv: str) -> dict:
    main(["estimate", *argv, "--json"])
    printed = capsys.readouterr()
    assert printed.err.startswith("page: ")
    return json.loads(printed.out)


def test_a_folder_gets_the_sections_of_a_run_that_it_knows(audit, tmp_path, capsys):
    before = sorted(audit.folder.path.iterdir())
    page = tmp_path / "page.html"
    argv = [str(audit.folder.path), "--delta", "1e-4", "--out", str(page)]
    made = estimated(capsys, *argv, "--claimed-epsilon", "0.5")
    assert sorted(audit.folder.path.iterdir()) == before
    text = text_of(page)
    assert made["verdict"]["outcome"] == "contradicted"
    assert "contradicted : the claim ε ≤ 0.5 at δ = 10⁻⁴".replace(" ", "\N{NO-BREAK SPACE}") in (
        text.replace(" ", "\N{NO-BREAK SPACE}")
    )
    assert "How often clients participate is not known here" in text
    for heading in ("The run", "Threat models", "Estimates", "Are the scores Gaussian?"):
        assert f" {heading} " in text
    assert page.read_text().count("<figure") == 5  # the picture and a histogram a statistic
    num = int(audit.pool.included.sum())
    assert f"holds scores of 300 Rademacher canaries, of which {num} were included" in text
    assert "3 scored rounds, in a model of d = 4,000 trainable parameters" in text
    for statistic in made["statistics"].values():
        for estimate in statistic["estimates"]:
            if estimate["kind"] == "lower_bound":
                assert f"≥ {lower_bound_text(estimate['epsilon'])}" in text


@pytest.mark.parametrize("client_rounds", [1, None])
def test_the_page_says_that_clients_rounds_are_not_known_only_where_they_are_not(
    tmp_path, client_rounds
):
    pool = CanaryPool(seed=1, count=COUNT, dim=DIM)
    rounds = [[1 + canary % 3] for canary in range(COUNT)]
    stated = Participation("none", client_rounds=client_rounds)
    scorer = RoundScorer.create(tmp_path / "log", pool, 3, rounds, participation=stated)
    random = np.random.default_rng(1)
    for number in (1, 2, 3):
        scorer.score_round(number, random.normal(0, 1, DIM))
    scorer.finish()
    request = EstimateRequest(1e-4, claim=Claim(1.0, 1e-4))
    report = report_on_folder(AuditedFolder(scorer.folder.path), request)
    assert report.verdict.p_value is not None
    claim = verdict_facts(report, report.verdict)["Claim"]
    assert ("How often clients participate is not known here" in claim) == (client_rounds is None)
    assert ("participates no more often" in claim) == (client_rounds is not None)


def test_what_a_folder_does_not_know_is_left_out_in_words(audit, tmp_path, capsys):
    page = tmp_path / "page.html"
    assert main(["estimate", str(audit.folder.path), "--delta=1e-4", f"--out={page}"]) == 0
    assert capsys.readouterr().out.endswith(f"page: {page}\n")
    text = text_of(page)
    assert (
        "The scores do not say what was trained and how well, who participated when, or what noise"
        in (text)
    )
    assert "no accuracy, no upper bound, no checks of the mechanism and no config" in text
    assert (
        "Mechanism checks not made (aggregates not checked: the noise’s standard deviation" in text
    )
    for heading in ("Training", "Accounting", "Worst finding", "Upper bounds"):
        assert f" {heading} " not in text
    assert 'class="verdict' not in page.read_text()
    assert "No claim was tested" in text
    assert "unknown (the log does not state" in text
    assert f"How to reproduce fl-audit estimate {audit.folder.path} --delta 0.0001 Reported" in text
    options = ["--statistic", "max", "--confidence", "0.9", "--claimed-epsilon", "1.5"]
    options += ["--methods", "threshold_valid, one_run_valid"]
    main(["estimate", str(audit.folder.path), "--delta=1e-4", *options, f"--out={page}"])
    command = text_of(page).rpartition("How to reproduce ")[2].rpartition(" Reported by")[0]
    given = shlex.split(command)
    assert given[:5] == ["fl-audit", "estimate", str(audit.folder.path), "--delta", "0.0001"]
    pairs = [options[at : at + 2] for at in range(0, len(options), 2)]
    assert sorted(given[at : at + 2] for at in range(5, len(given), 2)) == sorted(pairs)


def test_a_run_has_its_upper_bound_at_another_delta(run_folder, capsys):
    asked = ["estimate", str(run_folder.path), "--statistic=max", "--methods=threshold_valid"]
    main([*asked, "--delta=1e-7"])
    printed = capsys.readouterr().out
    (most,) = re.findall(r"^upper bound   ε ≤ ([\d.]+) for a canary", printed, re.MULTILINE)
    words = " ".join(printed.split())
    assert f"ε ≤ {most} at δ = {delta_text(1e-7)})" in words.partition("verdict: ")[2]
    assert f"of the upper bound {most}." in words
    main([*asked, "--delta=0"])
    assert "unknown" in capsys.readouterr().out


def test_a_score_file_alone_has_a_page(audit, tmp_path, capsys):
    page = tmp_path / "page.html"
    estimated(capsys, str(audit.folder.scores("max")), "--delta=1e-4", f"--out={page}")
    assert "Largest round" in text_of(page)
    write_score_file(tmp_path / "mine.csv", read_score_file(audit.folder.scores("max")))
    estimated(capsys, str(tmp_path / "mine.csv"), "--delta=1e-4", f"--out={page}")
    text = text_of(page)
    assert "“mine.csv” holds scores of 300 canaries" in text
    assert "No claim was tested This attack: audited ε ≥" in text
    assert "trainable parameters" not in text


def test_a_finished_run_keeps_what_it_knows_at_what_is_asked(reported: Reported, tmp_path, capsys):
    page, folder = tmp_path / "page.html", reported.folder.path
    argv = [str(folder), "--delta=1e-6", "--confidence=0.9", "--statistic=max", f"--out={page}"]
    made = estimated(capsys, *argv)
    text = text_of(page)
    for heading in ("Training", "Accounting", "Worst finding", "Upper bounds"):
        assert f" {heading} " in text
    assert "at δ = 10⁻⁶; bounds at 90 % confidence" in text
    bounds = {e["method"]: e["epsilon"] for e in made["statistics"]["max"]["estimates"]}
    assert f"≥ {bounds['threshold_clopper_pearson']:.3g}" in text
    assert page.read_text().count("Histogram of scores") == 1


# Score files of a folder that contradict what else is in it.


POOL = {"format_version": 2, "family": "rademacher", "seed": 1, "count": 4, "dim": 100}
ROWS = ["0,1,0.5", "1,0,0.25", "2,1,0.75", "3,0,0"]


def written(folder, word: str | None, name: str = "max"):
    more = ("", "") if word is None else (",inclusion", f",{word}")
    lines = ["canary_id,included,score" + more[0], *(row + more[1] for row in ROWS)]
    (folder / f"scores_{name}.csv").write_text("\n".join(lines) + "\n")


def test_score_files_say_alike_who_decided(tmp_path):
    written(tmp_path, "fixed_half")
    written(tmp_path, None, "sum")
    with pytest.raises(
        InputError, match=r"scores_\w+.csv: its canaries were included by .*must be the same"
    ):
        folder_statistics(AuditedFolder(tmp_path))


@pytest.mark.parametrize(("in_pool", "in_file"), [("fixed_half", None), ("coins", "fixed_half")])
def test_the_pool_says_the_same(tmp_path, in_pool, in_file):
    (tmp_path / "pool.json").write_text(json.dumps(POOL | {"inclusion": in_pool}))
    written(tmp_path, in_file)
    with pytest.raises(InputError, match=f"but by '{in_pool}' according to pool.json; must be"):
        folder_statistics(AuditedFolder(tmp_path))
    written(tmp_path, in_pool)
    (found,) = folder_statistics(AuditedFolder(tmp_path))
    assert found.scores.inclusion == in_pool


@pytest.mark.parametrize("is_without_metrics", [False, True])
def test_estimates_of_secret_rounds_use_the_rounded_scores_of_the_report(
    run_folder, change_record, is_without_metrics
):
    names = {"own_rounds": True, "mine": True, "max": False}  # whether scores may reveal rounds
    write_score_file(run_folder.scores("mine"), read_score_file(run_folder.scores("sum")))
    change_record(schedule_secret="run")
    if is_without_metrics:
        run_folder.metrics.unlink()
    folder = AuditedFolder(run_folder.path)
    for name, is_rounded in names.items():
        raw, used = read_score_file(run_folder.scores(name)).score, folder.scored.scores[name].score
        if not is_rounded:
            np.testing.assert_array_equal(used, raw)
            continue
        error = raw.std() / np.sqrt(len(raw))
        (step,) = [2.0**k for k in range(-60, 10) if 0.25 < 2.0**k / error <= 0.5]
        np.testing.assert_array_equal(used / step, np.floor(raw / step))
